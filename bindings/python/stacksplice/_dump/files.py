"""Files of scripts, as another process had read them.  Debuggers have a copy of this module."""

from __future__ import annotations

import linecache
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 16 << 20  # bytes; a name can be any file


def start_of(process: int) -> float:
    """By when PROCESS had begun, in seconds since the epoch, exact to a second; 0 if that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK") + 1


def folder_of(process: int) -> str:
    """The folder that PROCESS is in; empty if that is not known."""
    try:
        return os.readlink(f"/proc/{process}/cwd")
    except OSError:
        return ""


def written_at(path: str) -> float:
    """When the file PATH was written, in seconds since the epoch; 0 if that is not known."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


class Files:
    """Those that were not changed after UNTIL, in seconds since the epoch: later ones may have other lines.

    ROOT is before the paths of a process that sees other files, FOLDER before relative ones.
    """

    def __init__(self, until: float = 0, root: str = "", folder: str = "") -> None:
        self._until, self._root, self._folder = until, root, folder
        self._lines: dict[str, list[str]] = {}
        linecache.checkcache()

    def _read(self, file: str) -> list[str]:
        path = self._root + os.path.join(self._folder, file)
        if not os.path.isabs(path):
            return []
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST or found.st_mtime > self._until:
            return []
        return linecache.getlines(path)

    def line(self, frame: dict[str, Any]) -> str:
        """That of FRAME, of a script; empty if it cannot be had."""
        file, number = frame.get("file"), frame.get("line", 0)
        if frame["kind"] != "script" or not file:
            return ""
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        return lines[number - 1].rstrip() if 0 < number <= len(lines) else ""
