"""``python -m stacksplice core``: the stacks of all threads in a core file."""

from __future__ import annotations

from ..._base.arguments import add_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Print the stacks of all threads of a process that left a core file: native,
Python and Lua frames in their order.  Its files are used where they were, if
their build-ids are those of the core.
"""
_STATUSES = {
    "0": "the stacks were printed, or are on the page",
    "2": "the core file cannot be read, the page cannot be made or written, or the command line is wrong",
}


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "core",
        run,
        summary="print the stacks of all threads in a core file",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    parser.add_argument("--exe", metavar="FILE", help="the program, if it is not where it was")
    parser.add_argument(
        "--root", metavar="DIR", help="where the files of the machine that the core is from are here"
    )
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with separate debug files, by build-id or by name; can be repeated",
    )
    parser.add_argument("--locals", action="store_true", help="also show local variables of script frames")
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    parser.add_argument(
        "--no-source", action="store_true", help="no lines of source: read no files of scripts"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print them as JSON, schema stacksplice-dump/1")
    form.add_argument(
        "--html", metavar="OUT", help="write them to the file OUT as one HTML page (- for standard output)"
    )
    parser.add_argument("core", help="the core file")


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ..dump.process import core

    return core(options)
