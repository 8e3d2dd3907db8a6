"""Python's frames in reports, as the traceback module of this Python shows them."""

from __future__ import annotations

import sys

from .. import _stacksplice
from .._base.hints import Any
from .._base.redaction import has_secret
from .kept import Frames, KeptFrame, KeptSummary, _Place

HAS_COLORS = sys.version_info >= (3, 13)  # the traceback module


# The traceback module of CPython 3.12, 3.13 and 3.15.0 may crash when it finds no memory half-way.
# Where there is less than this, the core writes the report, which needs none.
_MEMORY = 1 << 16


def need_memory() -> None:
    """MemoryError where the traceback module would hardly come to its end."""
    bytearray(_MEMORY)


def options(color: bool) -> dict[str, Any]:
    """What the traceback module is given for COLOR."""
    return {"colorize": color} if HAS_COLORS else {}


def in_color(file: str, text: str) -> str:
    """The lines of a frame of FILE in colour, those of libraries dim.  TEXT has what this Python's traceback
    module makes coloured."""
    from .._base.colors import dimmed, frame  # most reports have no colours

    if _stacksplice._is_installed(file):
        return dimmed(text)
    return text if HAS_COLORS else frame(text)


def place_of(
    file: str, name: str | None, line: int, end_line: int, column: int, end_column: int, *_: Any
) -> _Place:
    """A place that the core gave: numbers count from 1, and 0 is unknown."""
    if not line or not name:
        raise ValueError("a traceback has no such frame")
    begin, end = column - 1 if column else None, end_column - 1 if end_column else None
    return file, line, name.rpartition(".")[2], end_line or None, begin, end


class Look:
    """Writes Python's frames in reports of the core, which marks no columns itself.

    A live report has its lines of source from where tracebacks have them, a saved one has its own: the
    first of a statement, so both show that one.  What is not printable is left to the core, which makes
    it so.
    """

    _MOST_KEPT = 4096

    def __init__(self, color: bool, is_live: bool) -> None:
        self._frames = Frames() if is_live else None
        self._color = color
        self._texts: dict[tuple[Any, ...], str] = {}

    def __call__(self, *given: Any) -> str:
        text = self._texts.get(given)
        if text is None:
            text = self._write(given)
            # A stack of a million frames is a recursion, and has few places.
            if len(self._texts) < self._MOST_KEPT:
                self._texts[given] = text
        return text

    def _write(self, given: tuple[Any, ...]) -> str:
        need_memory()
        file, name, line, end_line, *columns, source, source_column = given
        begin, end = columns if end_line == line else (0, 0)
        place = place_of(file, name, line, line, begin, end)
        if self._frames is not None:
            shown = self._frames.at(place)
        else:
            shown = KeptFrame(place, [], " " * (source_column - 1) + (source or "") + "\n")
        if not "".join([shown.filename, shown.name, shown.line or ""]).replace("\t", "").isprintable():
            raise ValueError("the core escapes it")
        if has_secret(shown.filename, shown.name, shown.line or ""):
            raise ValueError("the core removes it")
        text = KeptSummary().format_frame_summary(shown, **options(self._color))
        return in_color(file, text) if self._color else text
