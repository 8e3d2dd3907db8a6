"""Frames as the traceback module of this Python writes them, kept for the next report.

A frame's text follows from its place and from the lines of source there, so the two are its key.  What
they cost are the marks: each takes a run of Python's parser.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
import traceback
from types import FrameType

from .._base.hints import Any
from .._base.redaction import local_of

_Place = tuple[str, int | None, str, int | None, int | None, int | None]
"""File, line, name, end line, column, end column; columns count bytes from 0."""
_Entry = tuple[_Place, dict[str, Any], list[tuple[str, str]] | None]
"""Of a traceback: its place, its globals and, if they are shown, its variables."""

_MOST = 1024  # frames
_LONGEST = 4096  # characters of a text that is kept
_LARGEST = 16 << 20  # bytes of a file of source
# Since then lines of what was typed or given with -c are found by the code itself.
_HAS_LINES_OF_CODE = sys.version_info >= (3, 13)


class KeptFrame(traceback.FrameSummary):
    """A frame, and its text once it has been written; SOURCE is its line if that is not that of its file."""

    __slots__ = ("shown_lines", "text")

    def __init__(self, place: _Place, shown_lines: list[str], source: str | None = None) -> None:
        file, line, name, last, begin, end = place
        super().__init__(
            file, line, name, lookup_line=False, line=source, end_lineno=last, colno=begin, end_colno=end
        )
        self.shown_lines = shown_lines
        self.text: str | None = None


_kept: dict[_Place, KeptFrame] = {}


def _frame_at(place: _Place, lines: list[str]) -> KeptFrame:
    """The frame of PLACE, whose file has these LINES."""
    line, end_line = place[1] or 0, place[3]
    shown_lines = lines[max(line - 1, 0) : end_line or line]
    frame = _kept.get(place)
    if frame is None or frame.shown_lines != shown_lines:
        frame = KeptFrame(place, shown_lines)
        if len(_kept) >= _MOST:
            _kept.clear()
        _kept[place] = frame
    return frame


def _is_own() -> bool:
    """Whether the traceback module writes frames itself: what others put in may look at more."""
    write = traceback.StackSummary.format_frame_summary
    return getattr(write, "__globals__", None) is vars(traceback)


class KeptSummary(traceback.StackSummary):
    """A stack whose frames may be kept ones."""

    def format(self, **kwargs: Any) -> list[str]:
        # One text: the traceback module goes through the lines of each with a function of Python.
        return ["".join(super().format(**kwargs))]

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **kwargs: Any) -> str:
        if not isinstance(frame_summary, KeptFrame) or kwargs.get("colorize") or not _is_own():
            return super().format_frame_summary(frame_summary, **kwargs)
        if frame_summary.text is not None:
            return frame_summary.text
        text = super().format_frame_summary(frame_summary, **kwargs)
        if len(text) <= _LONGEST:
            frame_summary.text = text
        return text


def with_variables(
    frame: traceback.FrameSummary, variables: list[tuple[str, str]] | None
) -> traceback.FrameSummary:
    """FRAME, or a copy that has VARIABLES: frames at one place share a frame."""
    if not variables:
        return frame
    if isinstance(frame, KeptFrame):
        place = frame.filename, frame.lineno, frame.name, frame.end_lineno, frame.colno, frame.end_colno
        frame = KeptFrame(place, frame.shown_lines)
    frame.locals = {name: local_of(name, value) for name, value in variables}
    return frame


def globals_of(file: str) -> dict[str, Any]:
    """Those of the module of FILE, if it runs: its loader may have the lines, such as in a zip file."""
    frame: FrameType | None = sys._getframe(1)  # its own one would be in a cycle with this name
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_globals
        frame = frame.f_back
    return {}


def _found(file: str) -> os.stat_result | None:
    """The file that linecache would read for FILE, or None."""
    folders = [""] if os.path.isabs(file) else ["", *[name for name in sys.path if isinstance(name, str)]]
    for folder in folders:
        try:
            return os.stat(os.path.join(folder, file))
        except (OSError, ValueError):
            pass
    return None


def unread(file: str) -> str | None:
    """Why reports do not have linecache read FILE, which reads all of it; None if they do.

    Any text can be the name of a code object's file: a device never ends, and a pipe is waited for.
    """
    if not file or file in linecache.cache or (file.startswith("<") and file.endswith(">")):
        return None
    found = _found(file)
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        return "no lines of what is no regular file"
    return "no lines of files that are longer than 16 MB" if found.st_size > _LARGEST else None


class Bounded:
    """While it lasts linecache finds no line of the files of ENTRY, the first of a traceback, and of those
    behind it that are not to be read."""

    def __init__(self, entry: Any) -> None:
        self._files: set[str] = set()
        while entry is not None:
            self._files.add(entry.tb_frame.f_code.co_filename)
            entry = entry.tb_next

    def __enter__(self) -> None:
        self._files = {file for file in self._files if unread(file)}
        for file in self._files:
            linecache.cache[file] = (0, None, [], file)  # as if a loader had it: not looked at again

    def __exit__(self, *exception: object) -> None:
        for file in self._files:
            linecache.cache.pop(file, None)


class Frames:
    """The frames of one report: each file is looked at once."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str] | None] = {}  # None: it is not to be read

    def at(self, place: _Place, names: dict[str, Any] | None = None) -> KeptFrame:
        """The frame of PLACE; NAMES are its globals, if they are known."""
        file = place[0]
        if file in self._lines:
            lines = self._lines[file]
        else:
            linecache.checkcache(file)
            if file not in linecache.cache:
                linecache.lazycache(file, globals_of(file) if names is None else names)
            lines = self._lines[file] = None if unread(file) else linecache.getlines(file)
        return KeptFrame(place, [], "") if lines is None else _frame_at(place, lines)


def stack_of(entries: list[_Entry]) -> KeptSummary | None:
    """The stack of a traceback's ENTRIES; None if its module finds more."""
    if _HAS_LINES_OF_CODE and any([place[0].startswith("<") for place, _, _ in entries]):
        return None
    frames = Frames()
    return KeptSummary([with_variables(frames.at(place, names), own) for place, names, own in entries])
