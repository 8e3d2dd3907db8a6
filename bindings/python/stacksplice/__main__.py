"""Run a program so that uncaught errors are shown with the frames of all languages; read saved reports."""

from __future__ import annotations

import sys

from ._base.arguments import Parser
from ._base.output import reader_may_leave
from ._tools.command_line import COMMANDS, version

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

_PROGRAM = "stacksplice"


def _parser(names: Iterable[str]) -> argparse.ArgumentParser:
    """What understands the commands NAMES: adding all takes longer than some commands."""
    parser = Parser(prog=_PROGRAM, description=__doc__)
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    parser.commands = parser.add_subparsers(dest="command", metavar="command", prog=_PROGRAM)
    for name in names:
        COMMANDS[name](parser.commands)
    return parser


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        parser = _parser(arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS)
        options = parser.parse_args(arguments)
        if options.version:
            options.command, options.run = "version", version
        if options.command is None:
            parser.print_help(sys.stderr)
            parser.exit(2)
        return options
    sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    perform: Callable[[argparse.Namespace], int] = options.run
    if options.command == "run":  # whose output is the program's own
        return perform(options)
    status = 0
    with reader_may_leave():
        status = perform(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
