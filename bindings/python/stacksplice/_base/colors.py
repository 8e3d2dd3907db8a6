"""Colours of Python 3.13's tracebacks for the Pythons before it, whose traceback module has none."""

from __future__ import annotations

import re
from functools import partial
from itertools import groupby, zip_longest

from .hints import Any, Callable, Iterable, Iterator

_PLACE, _TYPE, _RESET = "\x1b[35m", "\x1b[1;35m", "\x1b[0m"
_MARKS = {"^": "\x1b[1;31m", "~": "\x1b[31m"}
_DIM = "\x1b[2m"
_COLOR = re.compile(r"\x1b\[[\d;]*m")
_FRAME = re.compile(r'  File (".*"), line (\S+)(?:, in (.*))?$')
_IS_MARKS = re.compile(r"    [ \t]*[~^][~^ ]*$")


def _in(color: str, text: str) -> str:
    return f"{color}{text}{_RESET}"


def _frame_line(line: str) -> str:
    found = _FRAME.match(line)
    if found is None:
        return line
    file, number, name = found.groups()
    colored = f"  File {_in(_PLACE, file)}, line {_in(_PLACE, number)}"
    return colored if name is None else f"{colored}, in {_in(_PLACE, name)}"


def _marked(source: str, marks: str) -> list[str]:
    """A line of source, and the line below it that marks a part of it."""
    parts: tuple[list[str], list[str]] = ([], [])
    above = zip_longest(source, marks[: len(source)], fillvalue=" ")
    for mark, pairs in groupby(above, lambda pair: pair[1]):
        for part, text in zip(parts, map("".join, zip(*pairs))):
            part.append(_in(_MARKS[mark], text) if mark in _MARKS else text)
    below = marks[len(source) :]
    return ["".join(parts[0]), "".join(parts[1]).rstrip(" ") + below]


def frame(text: str) -> str:
    """The lines of one frame in colour, or those that a SyntaxError has above its title."""
    lines: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if lines and _IS_MARKS.match(line):
            lines[-1:] = _marked(lines[-1], line)
        else:
            lines.append(_frame_line(line))
    return "".join([f"{line}\n" for line in lines])


def dimmed(text: str) -> str:
    """The lines of one frame of a library, dim and without other colours."""
    plain = _COLOR.sub("", text).removesuffix("\n")
    return "".join([f"{_in(_DIM, line)}\n" for line in plain.split("\n")])


def _title(text: str) -> str:
    kind, colon, message = text.removesuffix("\n").partition(": ")
    return _in(_TYPE, kind) + (colon and colon + _in(_PLACE, message)) + "\n"


def _painted(format_only: Callable[[], Iterable[str]]) -> Iterator[str]:
    above: list[str] = []
    title, *notes = format_only()
    while title.startswith("  "):  # of a SyntaxError: the place
        above.append(title)
        title, *notes = notes
    return iter([*([frame("".join(above))] if above else ()), _title(title), *notes])


def paint_title(shown: Any) -> None:
    """Have SHOWN, a traceback.TracebackException, write its title in colour."""
    shown.format_exception_only = partial(_painted, shown.format_exception_only)
