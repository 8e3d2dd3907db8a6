"""Run a program so that uncaught errors are shown with the frames of all languages; read saved reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from ._base.arguments import statuses_of_all
from ._base.output import reader_may_leave
from ._commands import core, doctor, dump, run, show, symbolize, top, version


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stacksplice",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(dest="command", metavar="command")
    run.add(commands)
    show.add(commands)
    core.add(commands)
    dump.add(commands)
    symbolize.add(commands)
    top.add(commands)
    doctor.add(commands)
    version.add(commands)
    parser.epilog = statuses_of_all(commands)
    return parser


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        parser = _parser()
        options = parser.parse_args(arguments)
        if options.version:
            options.command, options.run = "version", version.run
        if options.command is None:
            parser.print_help(sys.stderr)
            parser.exit(2)
        return options
    sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse(arguments)
    perform: Callable[[argparse.Namespace], int] = options.run
    if options.command == "run":  # whose output is the program's own
        return perform(options)
    status = 0
    with reader_may_leave():
        status = perform(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
