"""``python -m stacksplice version``: which versions these are."""

from __future__ import annotations

import sys

from ... import __version__, _stacksplice
from ..._base.arguments import add_command
from ..._base.loading import loaded_core
from ..._base.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Print the versions of the package, the core and Python, and how the core was
built: for the report of a bug.
"""


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    add_command(
        commands,
        "version",
        run,
        summary="print the versions of package, core and Python, and the build",
        about=_ABOUT,
        statuses={"0": "always", "2": "the command line is wrong"},
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    core = loaded_core()
    write(
        f"stacksplice {__version__}\n"
        + (f"core {core[1]}, {core[0]}\n" if core else "core: built into the program\n")
        + f"built with {_stacksplice._build()}\n"
        + f"Python {sys.version.split()[0]}, {sys.executable}\n"
    )
    return 0
