"""Python's frames in reports, as the traceback module of this Python shows them."""

from __future__ import annotations

import linecache
import sys
import traceback

from . import _colors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

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


def find_source(file: str) -> None:
    """Have the lines of FILE found where the loader of its module has them, such as in a zip file."""
    linecache.checkcache(file)
    frame: FrameType | None = sys._getframe(1)  # its own one would be in a cycle with this name
    while frame is not None and file not in linecache.cache:
        if frame.f_code.co_filename == file:
            linecache.lazycache(file, frame.f_globals)
            return
        frame = frame.f_back


def summary(
    file: str,
    name: str | None,
    line: int,
    end_line: int,
    column: int,
    end_column: int,
    source: str | None = None,
) -> traceback.FrameSummary:
    """A frame as the core knows it: numbers count from 1, and 0 is unknown."""
    if not line or not name:
        raise ValueError("a traceback has no such frame")
    return traceback.FrameSummary(
        file,
        line,
        name.rpartition(".")[2],
        lookup_line=False,
        line=source,
        end_lineno=end_line or None,
        colno=column - 1 if column else None,
        end_colno=end_column - 1 if end_column else None,
    )


class Look:
    """Writes Python's frames in reports of the core, which marks no columns itself.

    A live report has its lines of source from where tracebacks have them, a saved one has its own: the
    first of a statement, so both show that one.  What is not printable is left to the core, which makes
    it so.
    """

    def __init__(self, color: bool, is_live: bool) -> None:
        self._is_live = is_live
        self._color = color

    def __call__(self, *place: Any) -> str:
        need_memory()
        file, name, line, end_line, *columns, source, source_column = place
        if not self._is_live:
            source = " " * (source_column - 1) + (source or "") + "\n"
        else:
            find_source(file)
        begin, end = columns if end_line == line else (0, 0)
        shown = summary(file, name, line, line, begin, end, source)
        if not "".join([shown.filename, shown.name, shown.line or ""]).replace("\t", "").isprintable():
            raise ValueError("the core escapes it")
        text = traceback.StackSummary().format_frame_summary(shown, **options(self._color))
        return _colors.frame(text) if self._color and not HAS_COLORS else text
