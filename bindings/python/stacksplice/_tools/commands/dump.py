"""``python -m stacksplice dump``: the stacks of all threads of running processes."""

from __future__ import annotations

from ..._base.arguments import add_command
from ..._base.output import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Print the stacks of all threads of a running process: native, Python and Lua
frames in their order.  The process needs no stacksplice in it.  It is stopped
only while its registers, stacks and frames are read; how long is printed.
Several processes are shown one after the other.
"""
_STATUSES = {
    "0": "the stacks were printed, or are on the page",
    "2": "a process cannot be inspected (the others are shown), the page cannot be made or written, or the "
    "command line is wrong",
}


def _process(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_process.__name__ = "process"  # argparse says: invalid process value


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


_seconds.__name__ = "number of seconds"


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "dump",
        run,
        summary="print the stacks of all threads of running processes",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    parser.add_argument("--locals", action="store_true", help="also show local variables of script frames")
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    parser.add_argument(
        "--no-source", action="store_true", help="no lines of source: read no files of scripts"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print them as JSON, schema stacksplice-dump/1, a line for each process",
    )
    form.add_argument(
        "--html", metavar="OUT", help="write them to the file OUT as one HTML page (- for standard output)"
    )
    form.add_argument(
        "--repeat",
        type=_seconds,
        metavar="SECONDS",
        help="look again and again, and print a flame graph of all threads (SVG)",
    )
    parser.add_argument("processes", type=_process, nargs="+", metavar="PID", help="the number of a process")


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    if len(options.processes) > 1 and (options.repeat or options.html is not None):
        return fail("--repeat and --html show one process: name one PID")
    if options.repeat and options.locals:
        return fail("a flame graph has no local variables: leave out --repeat or --locals")
    if options.repeat:
        from ..dump.flames import record

        return record(options)
    from ..dump.process import dump

    return dump(options)
