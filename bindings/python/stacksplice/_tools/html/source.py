"""Lines of source in colours, with the columns of their frame marked."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from typing import Any, NamedTuple

from pygments.lexers import get_lexer_by_name, get_lexer_for_filename  # type: ignore[import-untyped, unused-ignore]
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped, unused-ignore]
from pygments.util import ClassNotFound  # type: ignore[import-untyped, unused-ignore]

from ..._base.redaction import SOURCE, text_of

# The classes of style.css are Pygments' short names of kinds of tokens: these, or their first letter.
_NAMES, _LETTERS = ("nf", "fm", "nb", "bp", "ow"), ("k", "s", "c", "m")

_NEAR = 2  # lines on each side of the frame's own
_LARGEST = 4 << 20  # bytes of a file that is opened for them


class Piece(NamedTuple):
    """A part of a line: its class in the stylesheet, its text, and whether it is marked."""

    css: str
    text: str
    marked: bool


def _make_lexer(language: str, file: str) -> Any:
    options = {"stripnl": False, "ensurenl": False}
    try:
        if language == "native":
            return get_lexer_for_filename(file, **options)
        return get_lexer_by_name(language, **options)
    except ClassNotFound:
        return get_lexer_by_name("cpp" if language == "native" else "text", **options)


def _css(kind: Any) -> str:
    name = str(STANDARD_TYPES.get(kind, ""))
    if name.startswith(_LETTERS):
        return name[0]
    return name if name in _NAMES else ""


def _marks(source: str, begin: int | None, end: int | None) -> tuple[int, int | None]:
    """The marked part as indexes into SOURCE; (-1, None) for none.  BEGIN and END count bytes from 0."""
    if begin is None or begin < 0:
        return -1, None
    data = source.encode("utf-8", "surrogatepass")
    first = len(data[:begin].decode("utf-8", "replace"))
    if end is None or end <= begin:
        return first, None
    return first, len(data[:end].decode("utf-8", "replace"))


def _split(css: str, text: str, at: int, first: int, last: int) -> list[Piece]:
    """TEXT, which begins at AT, cut where the mark begins and ends."""
    cuts = sorted({0, len(text), *(cut - at for cut in (first, last) if 0 < cut - at < len(text))})
    return [Piece(css, text[low:high], first <= at + low < last) for low, high in zip(cuts, cuts[1:])]


def _coloured(source: str, lexer: Any, first: int, last: int | None) -> tuple[Piece, ...]:
    found: list[Piece] = []
    at = 0
    for kind, text in lexer.get_tokens(source):
        if last is None and at <= first < at + len(text):
            last = at + len(text)
        found += _split(_css(kind), text, at, first, last if last is not None else first)
        at += len(text)
    return tuple(found)


def _lines_of(path: str) -> list[str]:
    try:
        facts = os.stat(path)  # a pipe or a device would be waited for
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().removesuffix("\n").split("\n")
    except (OSError, ValueError):
        return []


class Lines:
    """The lines of a page; those of a recursion are coloured once, and each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}
        self._make_lexer = lru_cache(64)(_make_lexer)
        self._known: dict[tuple[object, ...], tuple[Piece, ...]] = {}

    def pieces(
        self, source: str, language: str, suffix: str, begin: int | None, end: int | None
    ) -> tuple[Piece, ...]:
        """SOURCE in the colours of LANGUAGE; SUFFIX is that of the file's name.

        Where only a beginning is known, as in native frames, the word there is marked.
        """
        key = source, language, suffix, begin, end
        if key not in self._known:
            lexer = self._make_lexer(language, f"x{suffix}")
            self._known[key] = _coloured(source, lexer, *_marks(source, begin, end))
        return self._known[key]

    def near(self, file: str, line: int, source: str) -> list[tuple[int, str]]:
        """The lines of FILE around its LINE, with their numbers, as reports show lines.

        None where that line is not SOURCE any more: then it is another file than the error met, and a
        report that was made up finds out nothing.
        """
        if file not in self._files:
            self._files[file] = _lines_of(file)
        lines = self._files[file]
        if not 0 < line <= len(lines) or not source.strip() or lines[line - 1].strip() != source.strip():
            return []
        first, last = max(line - _NEAR, 1), min(line + _NEAR, len(lines))
        return [(number, text_of(lines[number - 1], SOURCE)) for number in range(first, last + 1)]
