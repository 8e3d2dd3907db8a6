"""``python -m stacksplice doctor``: what is in place."""

from __future__ import annotations

from ..._base.arguments import add_command
from ..._base.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Say what is installed, whether the frames of C, Python and Lua can be read, and
what to do about each thing that is missing.
"""


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    add_command(
        commands,
        "doctor",
        run,
        summary="say what is installed, what is missing and what to do about it",
        about=_ABOUT,
        statuses={"0": "nothing is missing", "1": "something is missing", "2": "the command line is wrong"},
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ..doctor.findings import examine

    text, is_fine = examine()
    write(text)
    return 0 if is_fine else 1
