"""Run a program so that uncaught errors are shown with the frames of all languages; read saved reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, _command_symbolize, _command_top, _stacksplice
from ._doctor import examine
from ._loading import loaded_core
from ._output import reader_may_leave, write

_STATUSES = """\
exit status:
  run      that of the script; 1 if it ended with an uncaught exception,
           130 if by an interrupt; 2 if there is no such script or module,
           or no Lua that can run it
  show     0 if all reports were printed; 2 if a file cannot be read or holds
           something else, or if the page cannot be made or written
  symbolize
           0 if all reports were written, with the symbols that were found;
           2 if a file cannot be read or holds something else, or if
           libdw is missing
  top      0 if all was counted; 1 if lines were passed over that hold no
           report; 2 if a file cannot be read, or if the page cannot be made
           or written
  doctor   0 if nothing is missing, 1 if something is
  2 too if the command line is wrong
"""


def _version() -> str:
    core = loaded_core()
    return (
        f"stacksplice {__version__}\n"
        + (f"core {core[1]}, {core[0]}\n" if core else "core: built into the program\n")
        + f"built with {_stacksplice._build()}\n"
        + f"Python {sys.version.split()[0]}, {sys.executable}\n"
    )


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a script, module or text with install()",
        usage="python -m stacksplice run [-h] script.py|script.lua [argument ...]\n"
        "       python -m stacksplice run [-h] -m module [argument ...]\n"
        "       python -m stacksplice run [-h] -c text [argument ...]",
    )
    kind = run.add_mutually_exclusive_group()
    kind.add_argument("-m", dest="as_module", action="store_true", help="run a module")
    kind.add_argument("-c", dest="as_text", action="store_true", help="run the text of a program")
    run.add_argument("script", help="script to run; with -m a module's name, with -c the text")
    rest = run.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments for it")
    rest.required = False  # so that argparse does not name it as missing


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser("show", help="print saved JSON reports as text, or make a page of them")
    order = show.add_mutually_exclusive_group()
    order.add_argument("--newest-first", action="store_true", help="the innermost frame first, as Lua does")
    order.add_argument(
        "--oldest-first",
        dest="newest_first",
        action="store_false",
        help="the innermost frame last, as Python does (default)",
    )
    show.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    show.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): on a terminal, as NO_COLOR, FORCE_COLOR and PYTHON_COLORS allow",
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the reports as JSON, one on each line")
    form.add_argument(
        "--html", metavar="OUT", help="write them to the file OUT as one HTML page (- for standard output)"
    )
    show.add_argument(
        "reports", nargs="+", metavar="report", help="JSON report files, or - for standard input"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stacksplice",
        description=__doc__,
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(dest="command", metavar="command")
    _add_run(commands)
    _add_show(commands)
    _command_symbolize.add(commands)
    _command_top.add(commands)
    commands.add_parser("doctor", help="say what is installed, what is missing and what to do about it")
    commands.add_parser("version", help="print the versions of package, core and Python, and the build")
    return parser


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        parser = _parser()
        options = parser.parse_args(arguments)
        if options.version:
            options.command = "version"
        if options.command is None:
            parser.print_help(sys.stderr)
            parser.exit(2)
        return options
    sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse(arguments)
    if options.command == "run":
        from ._run import run

        return run(options)
    status = 0
    with reader_may_leave():
        if options.command == "version":
            write(_version())
        elif options.command == "doctor":
            text, is_fine = examine()
            status = 0 if is_fine else 1
            write(text)
        elif options.command == "symbolize":
            status = _command_symbolize.run(options)
        elif options.command == "top":
            status = _command_top.run(options)
        else:
            from ._show import show

            status = show(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
