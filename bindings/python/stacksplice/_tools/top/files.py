"""Reads files of reports once, and the examples again."""

from __future__ import annotations

import io
import itertools
import json
import os
import stat
import sys
import tempfile

from .groups import Groups
from .lines import fast_key, reports_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO, Any

    from ..._base.progress import Progress
    from .groups import Group, Place
    from .lines import Found

_DOCUMENT_MAX = 256 << 20  # bytes of a file that is one JSON document
_BUFFER = 1 << 20


class File:
    """A file; of one that cannot be read again, such as a pipe, the first line of each group is kept."""

    def __init__(self, number: int, path: str) -> None:
        self.number = number
        self.name = "standard input" if path == "-" else path
        self.is_document = False
        self._path = path
        self._kept: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        """Its bytes.  Raises OSError."""
        if self._path == "-":
            file = open(sys.stdin.fileno(), "rb", buffering=_BUFFER, closefd=False)
        else:
            file = open(self._path, "rb", buffering=_BUFFER)
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file
        self._kept = tempfile.TemporaryFile()
        return file

    def size(self) -> int:
        """Bytes; 0 if unknown."""
        try:
            return 0 if self._path == "-" else os.path.getsize(self._path)
        except OSError:
            return 0

    def keep(self, place: Place, text: bytes) -> Place:
        """Where TEXT, which is at PLACE, can be read again."""
        if self._kept is None:
            return place
        offset = self._kept.seek(0, os.SEEK_END)
        if self.is_document and offset:  # it is there already
            return place
        self._kept.write(text)
        return (place[0], place[1], offset, place[3])

    def example(self, place: Place) -> dict[str, Any]:
        """The report at PLACE.  Raises OSError, or ValueError or LookupError if the file has changed."""
        file = self._kept or open(self._path, "rb")
        try:
            file.seek(place[2])
            text = file.read() if self.is_document else file.readline()
        finally:
            if file is not self._kept:
                file.close()
        return reports_of(text, False)[place[3]].report


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _begin(file: IO[bytes]) -> tuple[Iterable[bytes], bytes | None]:
    """The lines of FILE, or its text if it is one JSON document of many lines."""
    head = [file.readline(), file.readline()]
    if _is_json(head[0]) or not head[1] or _is_json(head[1]):
        return itertools.chain(head, file), None
    text = b"".join(head) + file.read(_DOCUMENT_MAX)
    rest = file.readline()
    if not rest and _is_json(text):
        return (), text
    return itertools.chain(io.BytesIO(text + rest), file), None


class Counter:
    """Counts the reports of files."""

    def __init__(self, is_loose: bool, progress: Progress) -> None:
        self.groups = Groups()
        self.reports = 0
        self.without_loose = 0
        self.broken = 0
        self.first_broken = ""
        self._is_loose = is_loose
        self._progress = progress
        self._done = 0  # bytes of the files before

    def read(self, source: File) -> None:
        """Count those of SOURCE.  Raises OSError."""
        with source.open() as file:
            lines, document = _begin(file)
            if document is not None:
                source.is_document = True
                self._add_slowly(source, document, (source.number, 1, 0, 0))
                return
            self._read_lines(source, lines)

    def _read_lines(self, source: File, lines: Iterable[bytes]) -> None:
        number, is_loose, offset, before = source.number, self._is_loose, 0, self._done
        for at, line in enumerate(lines, 1):
            place = (number, at, offset, 0)
            offset += len(line)
            found = fast_key(line, is_loose)
            if found is not None:
                self._count(source, found[0], found[1], place, line)
            elif line.strip():
                self._add_slowly(source, line, place)
            if not at & 1023:
                self._progress.show(before + offset, self.reports)
        self._done += offset

    def _count(self, source: File, key: str, is_strict: bool, place: Place, text: bytes) -> Group:
        group = self.groups.add(key, place)
        self.reports += 1
        if is_strict and self._is_loose:
            self.without_loose += 1
        if group.count == 1:
            group.first = source.keep(place, text)
        return group

    def _add_slowly(self, source: File, text: bytes, place: Place) -> None:
        try:
            reports: list[Found] = reports_of(text, self._is_loose)
        except (ValueError, RecursionError):
            self.broken += 1
            self.first_broken = self.first_broken or f"{source.name}:{place[1]}"
            return
        for index, found in enumerate(reports):
            group = self._count(source, found.key, found.is_strict, (*place[:3], index), text)
            if found.time is not None:
                group.seen(found.time)
