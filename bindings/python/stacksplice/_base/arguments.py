"""What the help of all commands has in common: what a command does, its options, its exit statuses."""

from __future__ import annotations

import argparse
import textwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = argparse._SubParsersAction  # which takes no argument when it runs

_WIDTH = 79


def _row(status: str, meaning: str) -> str:
    margin = " " * 8
    return textwrap.fill(meaning, _WIDTH, initial_indent=f"  {status:6}", subsequent_indent=margin) + "\n"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    about: str,
    statuses: dict[str, str],
) -> argparse.ArgumentParser:
    """Add a command that RUN performs: SUMMARY in the list of commands, ABOUT and STATUSES in its help."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=about,
        epilog="exit status:\n" + "".join(_row(*each) for each in statuses.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def statuses_of_all(commands: Commands) -> str:
    """The exit statuses of each command, as its own help has them."""
    return "\n".join(f"{name}, {parser.epilog}" for name, parser in commands.choices.items())
