"""``python -m stacksplice show``: saved reports for readers."""

from __future__ import annotations

from ..._base.arguments import add_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Print saved reports as text, or make an HTML page of them.  A file holds one
report, a list of them, or one on each line, as logs of
stacksplice.logging.JsonFormatter do; their lines without a report are passed
over.  What an object around a report says stands above the report.
"""
_STATUSES = {
    "0": "all reports were printed, or are on the page",
    "2": "a file cannot be read or holds something else (the others are shown), the page cannot be made or "
    "written, or the command line is wrong",
}


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "show",
        run,
        summary="print saved JSON reports as text, or make a page of them",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--newest-first", action="store_true", help="the innermost frame first, as Lua does")
    order.add_argument(
        "--oldest-first",
        dest="newest_first",
        action="store_false",
        help="the innermost frame last, as Python does (default)",
    )
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): on a terminal, as NO_COLOR, FORCE_COLOR and PYTHON_COLORS allow",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the reports as JSON, one on each line")
    form.add_argument(
        "--html", metavar="OUT", help="write them to the file OUT as one HTML page (- for standard output)"
    )
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="files of JSON reports, or - for standard input"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ..saved.show import show

    return show(options)
