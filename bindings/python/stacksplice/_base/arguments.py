"""What the help of all commands has in common: what a command does, its options, its exit statuses."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Commands = argparse._SubParsersAction["Parser"]
else:
    Commands = argparse._SubParsersAction  # which takes no argument when it runs

_WIDTH = 79


def _row(status: str, meaning: str) -> str:
    import textwrap  # for help alone

    margin = " " * 8
    return textwrap.fill(meaning, _WIDTH, initial_indent=f"  {status:6}", subsequent_indent=margin) + "\n"


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide everywhere: to ask for the width of a terminal loads modules that compress files."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_WIDTH)


class Parser(argparse.ArgumentParser):
    """Its help ends with the exit statuses of a command, or of all."""

    statuses: Iterable[tuple[str, str]] = ()
    commands: Commands | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Help)

    def _all_statuses(self) -> str:
        if self.commands:
            return "\n".join(
                f"{name}, {each._all_statuses()}" for name, each in self.commands.choices.items()
            )
        return "exit status:\n" + "".join(_row(*each) for each in self.statuses)

    def format_help(self) -> str:
        self.epilog = self._all_statuses()
        return super().format_help()
