"""``python -m stacksplice symbolize``: saved reports with functions, files and lines of native frames."""

from __future__ import annotations

from ..._base.arguments import add_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..._base.arguments import Commands

_ABOUT = """\
Give the native frames of saved reports their functions, files and lines, on
this machine or another one than the errors were on.  Symbols come from the
folders given, the binaries where the reports say they are, the system's debug
files, and debuginfod's servers if DEBUGINFOD_URLS names some.  Only files with
the build-id of the report are used.  Reports go to standard output; what could
not be found is said on standard error.
"""
_STATUSES = {
    "0": "all reports were written, with the symbols that were found",
    "2": "a file cannot be read or holds something else (the others are written), a folder of --symbols or "
    "libdw is missing, or the command line is wrong",
}


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "symbolize",
        run,
        summary="give native frames of saved reports files and lines",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with binaries or separate debug files, by build-id or by name; can be repeated",
    )
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the lines of source that the reports have"
    )
    parser.add_argument("--text", action="store_true", help="print the reports as text, as show does")
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="files of JSON reports, or - for standard input"
    )
    parser.set_defaults(newest_first=False, all_frames=False, color="auto", json=False)


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ..saved.symbolize import symbolize

    return symbolize(options)
