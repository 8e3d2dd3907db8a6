"""Lines of source of other processes, from the files that their scripts were read from."""

from __future__ import annotations

import linecache
import os
import stat
import time

from .errors import with_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LARGEST_FILE = 16 << 20  # bytes; a name can be any file


def start_of(process: int) -> float:
    """By when PROCESS had begun, in seconds since the epoch, exact to a second; 0 if that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK") + 1


def _folder_of(process: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/cwd")
    except OSError:
        return ""


class _Files:
    def __init__(self, root: str, folder: str, until: float) -> None:
        self._root = root
        self._folder = folder
        self._until = until
        self._lines: dict[str, list[str]] = {}

    def _read(self, file: str) -> list[str]:
        path = self._root + os.path.join(self._folder, file)
        if not os.path.isabs(path):
            return []
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE or found.st_mtime > self._until:
            return []
        return linecache.getlines(path)

    def line(self, file: str, number: int) -> str:
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        return lines[number - 1].rstrip() if 0 < number <= len(lines) else ""


def _stacks(document: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    for owner in with_stacks(document):
        yield owner["stack"]
    for thread in document["threads"]:
        for exception in thread.get("exceptions", ()):
            yield exception["stack"]
            yield from (cause["stack"] for cause in exception["transformed"])


def add_sources(document: dict[str, Any], until: float, root: str = "", process: int = 0) -> None:
    """Give the script frames of DOCUMENT their lines of source.

    UNTIL is when the process had read its scripts, in seconds since the epoch: a file that was changed
    later may have other lines.  ROOT is before the paths of a process that sees other files.  Relative
    names are those of a living PROCESS; without one they are not looked for.
    """
    files = _Files(root, _folder_of(process) if process else "", until)
    for stack in _stacks(document):
        for frame in stack:
            if frame["kind"] != "script" or not frame.get("file") or not frame.get("line"):
                continue
            line = files.line(frame["file"], frame["line"])
            if line.strip():
                frame["source"] = line.lstrip()
                frame["source_column"] = len(line.encode()) - len(line.lstrip().encode()) + 1
