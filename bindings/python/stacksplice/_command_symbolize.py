"""``python -m stacksplice symbolize``: saved reports with functions, files and lines of native frames."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_ABOUT = """\
Give the native frames of saved reports their functions, files and lines, on
this machine or another one than the errors were on.  Symbols come from the
folders given, the binaries where the reports say they are, and the system's
debug files.  Only files with the build-id of the report are used.  Reports go
to standard output; what could not be found is said on standard error.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of the command line."""
    parser = commands.add_parser(
        "symbolize", help="give native frames of saved reports files and lines", description=_ABOUT
    )
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with binaries or separate debug files, by build-id or by name; can be repeated",
    )
    parser.add_argument("--text", action="store_true", help="print the reports as text, as show does")
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="JSON report files, or - for standard input"
    )
    parser.set_defaults(newest_first=False, all_frames=False, color="auto", json=False)


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from ._symbolize import symbolize

    return symbolize(options)
