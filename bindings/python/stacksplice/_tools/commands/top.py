"""``python -m stacksplice top``: which errors of many saved reports are the most frequent."""

from __future__ import annotations

from ..._base.arguments import add_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Group saved reports by fingerprint and show the most frequent groups: how many
reports, what the error is, where the first and the last report stand, and when
they were made if the lines around them say so.  Reads JSON Lines of any size,
also logs of stacksplice.logging.JsonFormatter, and whole JSON files.
"""
_STATUSES = {
    "0": "all reports were counted",
    "1": "lines were passed over that hold no report",
    "2": "a file cannot be read (the others are counted), the page cannot be made or written, or the command "
    "line is wrong",
}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_count.__name__ = "number"  # argparse says: invalid number value


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "top",
        run,
        summary="group many saved reports, the most frequent first",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    parser.add_argument(
        "--loose",
        action="store_true",
        help="group by the loose fingerprint, which holds when native binaries are built anew",
    )
    parser.add_argument(
        "--limit", type=_count, default=10, metavar="N", help="show at most N groups (default: 10)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--html",
        metavar="OUT",
        help="write the groups to the file OUT as one HTML page (- for standard output)",
    )
    form.add_argument(
        "--json",
        action="store_true",
        help="print each group as one line of JSON; its first report, as the example, is under error",
    )
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="files of JSON reports, or - for standard input"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ..top.command import top

    return top(options)
