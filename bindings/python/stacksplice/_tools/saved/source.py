"""The texts of a file of reports: one JSON document, or one on each line."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

from ..._base.output import show_progress

_DOCUMENT_MAX = 256 << 20  # bytes of a document of many lines
_BUFFER = 1 << 20
_MOST_NESTED = 400  # as stacksplice_document_read
_TOO_DEEP = "values are nested too deeply"


def _ends_too_early(fault: json.JSONDecodeError) -> bool:
    """Whether all that was read is JSON so far."""
    return fault.pos >= len(fault.doc.rstrip())


def _told(fault: json.JSONDecodeError) -> str:
    if fault.doc.lstrip()[:1] not in ("{", "["):
        return "it is not a report: no JSON"
    if _ends_too_early(fault) or fault.msg.startswith("Unterminated string"):
        return "it is cut off"
    return f"it is damaged: {fault}"


def decoded(text: bytes) -> Any:
    """The JSON of TEXT.  Raises ValueError, with what is wrong in plain words."""
    try:
        return json.loads(text.decode("utf-8-sig"))
    except json.JSONDecodeError as exc:
        raise ValueError(_told(exc)) from exc
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def may_be_deep(text: bytes) -> bool:
    """Whether the JSON of TEXT has as many values that hold others as `check_depth` counts."""
    return text.count(b"{") + text.count(b"[") > _MOST_NESTED


def check_depth(report: Any) -> None:
    """Raise ValueError if values of REPORT are nested deeper than the core reads them."""
    inside = [report]
    for _ in range(_MOST_NESTED + 1):
        if not inside:
            return
        inside = [
            value
            for each in inside
            for value in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
            if isinstance(value, (dict, list))
        ]
    raise ValueError(_TOO_DEEP)


def _goes_on(line: bytes) -> bool:
    try:
        decoded(line)
    except ValueError as exc:
        return isinstance(exc.__cause__, json.JSONDecodeError) and _ends_too_early(exc.__cause__)
    return False


class Source:
    """A file of reports; "-" is standard input."""

    skips_damage = False  # whether a document that is damaged is read by lines

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == "-" else path
        self.path = path
        self.is_document = False

    def open(self) -> IO[bytes]:
        """Its bytes.  Raises OSError."""
        if self.path == "-":
            return open(0, "rb", buffering=_BUFFER, closefd=False)
        return open(self.path, "rb", buffering=_BUFFER)

    def _parts(self, file: IO[bytes]) -> Iterable[bytes]:
        """The lines of FILE; or all of it, if that is one document of many lines."""
        head = []
        lines = _lines_of(file)
        for line in lines:
            head.append(line)
            if not line.isspace():
                break
        if not head or not _goes_on(head[-1]):
            return itertools.chain(head, lines)
        text = b"".join(head) + file.read(_DOCUMENT_MAX)
        rest = next(lines, b"")
        self.is_document = not rest and (not self.skips_damage or _is_json(text))
        return [text] if self.is_document else itertools.chain(io.BytesIO(text + rest), lines)

    def texts(self, shows_progress: bool) -> Iterator[tuple[int, int, bytes]]:
        """Number and offset of each line that is not blank, and its bytes; or those of the one document.

        A line is read when it is asked for.  Raises OSError.
        """
        offset = shown = 0
        with self.open() as file:
            size = os.fstat(file.fileno()).st_size
            for number, text in enumerate(self._parts(file), 1):
                if not text.isspace():
                    yield number, offset, text
                offset += len(text)
                if shows_progress and offset - shown >= _BUFFER:
                    shown = offset
                    show_progress(f"{number:,} lines", min(offset / size, 1) if size else None)
        show_progress("")


def _is_json(text: bytes) -> bool:
    try:
        decoded(text)
    except ValueError:
        return False
    return True


def _lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Those of FILE.  Raises OSError where one has no end, as a device's."""
    while line := file.readline(_DOCUMENT_MAX + 1):
        if len(line) > _DOCUMENT_MAX:
            raise OSError(errno.EFBIG, "a line has more than 256 MB")
        yield line
