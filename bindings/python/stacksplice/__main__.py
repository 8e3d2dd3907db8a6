"""Run a program so that uncaught errors are shown with the frames of all languages; read saved reports,
running processes and core files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from ._base.arguments import Parser, meant
from ._base.output import interrupted, reader_may_leave
from ._tools.command_line import COMMANDS

_PROGRAM = "stacksplice"


def _parse_no_command(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog=_PROGRAM, description=__doc__, epilog=f"More on one: {_PROGRAM} COMMAND --help")
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(metavar="command", title="commands")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    if arguments and not arguments[0].startswith("-"):
        others = meant(arguments[0], COMMANDS) or f"; {_PROGRAM} --help lists all"
        parser.error(f"there is no command {arguments[0]}{others}")
    if parser.parse(arguments).version:
        return COMMANDS["version"].parser().parse([])
    parser.print_help(sys.stderr)
    sys.exit(2)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        if arguments and arguments[0] in COMMANDS:
            return COMMANDS[arguments[0]].parser().parse(arguments[1:])
        return _parse_no_command(arguments)
    sys.exit(0)


def _perform(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    perform: Callable[[argparse.Namespace], int] = options.perform
    if options.command == "run":  # whose output is the program's own
        return perform(options)
    status = 0
    with reader_may_leave():
        status = perform(options)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    try:
        return _perform(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return interrupted()


if __name__ == "__main__":
    sys.exit(main())
