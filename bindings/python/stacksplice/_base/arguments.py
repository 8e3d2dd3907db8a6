"""What all commands have in common: how their help looks, and what they say of a wrong command line."""

from __future__ import annotations

import argparse
from functools import partial

from .hints import Any, Callable, Iterable, Sequence
from .output import columns

_WIDEST = 80


def _row(status: str, meaning: str) -> str:
    import textwrap  # for help alone

    return textwrap.fill(meaning, _width(), initial_indent=f"  {status:6}", subsequent_indent=" " * 8) + "\n"


def _width() -> int:
    return min(columns(1), _WIDEST) - 1


def meant(word: str, names: Iterable[str]) -> str:
    """A question whether one of NAMES was meant, or nothing."""
    from difflib import get_close_matches  # for mistakes alone

    found = get_close_matches(word, names, 1)
    return f"; did you mean {found[0]}?" if found else ""


def number(what: str, make: Callable[[str], Any] = int, largest: float = 1e9) -> Callable[[str], Any]:
    """The type of an argument that is WHAT: more than 0, and at most LARGEST."""

    def read(text: str) -> Any:
        try:
            value = make(text)
        except ValueError:
            value = 0
        if 0 < value <= largest:
            return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")

    return read


class Parser(argparse.ArgumentParser):
    """Its help ends with the exit statuses of a command."""

    statuses: Iterable[tuple[str, str]] = ()

    def __init__(self, **options: Any) -> None:
        # argparse would ask shutil for the width of a terminal, which loads modules that compress files.
        super().__init__(**options, formatter_class=partial(argparse.HelpFormatter, width=_width()))

    def format_help(self) -> str:
        ends = "".join(_row(*each) for each in self.statuses)
        return super().format_help() + (ends and f"\nexit status:\n{ends}")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The values of ARGUMENTS; ends the program where they are wrong."""
        options, others = self.parse_known_args(arguments)
        if not others:
            return options
        word = others[0].partition("=")[0]
        self.error(f"there is no option {word}{meant(word, self._option_string_actions)}")
