"""Run a program so that uncaught errors are shown with the frames of all languages; read saved reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from . import (
    _command_core,
    _command_doctor,
    _command_dump,
    _command_run,
    _command_show,
    _command_symbolize,
    _command_top,
    _command_version,
)
from ._commands import statuses_of_all
from ._output import reader_may_leave


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stacksplice",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(dest="command", metavar="command")
    _command_run.add(commands)
    _command_show.add(commands)
    _command_core.add(commands)
    _command_dump.add(commands)
    _command_symbolize.add(commands)
    _command_top.add(commands)
    _command_doctor.add(commands)
    _command_version.add(commands)
    parser.epilog = statuses_of_all(commands)
    return parser


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        parser = _parser()
        options = parser.parse_args(arguments)
        if options.version:
            options.command, options.run = "version", _command_version.run
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
