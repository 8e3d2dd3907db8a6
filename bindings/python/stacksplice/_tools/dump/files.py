"""Files as another process sees them, and no others.  Debuggers have a copy of this module.

The names come from that process, which may be hostile, and who asks may have more rights than it.
"""

from __future__ import annotations

import io
import os
import stat
import time
from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 16 << 20  # bytes; a name can be any file
_MOST_LINKS = 40  # as the kernel follows
_SEARCH, _READ = 1, 4  # the rights, as bits of a mode
_OF_THE_KERNEL = ("proc", "sys", "dev")
_REFER = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC  # opens nothing: a device may act on that
_OTHER_LINES = (".fnl", ".moon", ".yue", ".ts", ".tsx")  # as bindings/shared/lua_chunks.c says
_ACCESS_LIST = "system.posix_acl_access"


def _began(process: int) -> int:
    """When PROCESS began, in ticks since the machine did; 0 if that is not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _start_of(process: int) -> float:
    """By when PROCESS had begun, in seconds since the epoch, exact to a second; 0 if that is not known."""
    ticks = _began(process)
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK") + 1 if ticks else 0


def _folder_of(process: int) -> str:
    """The folder that PROCESS is in, from its root; empty if that is not known."""
    try:
        folder, root = (os.readlink(f"/proc/{process}/{name}") for name in ("cwd", "root"))
    except OSError:
        return ""
    root = root.rstrip("/")
    return folder[len(root) :] or "/" if f"{folder}/".startswith(f"{root}/") else ""


def written_at(path: str) -> float:
    """When the file PATH was written, in seconds since the epoch; 0 if that is not known."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


def _lines(content: bytes) -> list[str]:
    """The lines of a script, in the encoding that it names; SyntaxError, UnicodeDecodeError."""
    encoding = "utf-8-sig"
    if any(b"coding" in line for line in content.split(b"\n", 2)[:2]):
        import tokenize  # few scripts name one

        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    return io.TextIOWrapper(io.BytesIO(content), encoding).readlines()


class Files:
    """Those of one process, opened from its root and with its rights.

    A link does not lead out of the root.  Nothing is opened but regular files, and none of the kernel's.
    Lines are those of files that were not changed after UNTIL, in seconds since the epoch: later ones may
    have others.  FOLDER is before relative names.
    """

    def __init__(self, until: float = 0, root: str = "", folder: str = "", process: int = 0) -> None:
        self.refused: list[str] = []  # the names of files that the process may not read
        self.unread: dict[str, list[str]] = {}  # why not, and those of files of which no line is shown
        self._until, self._folder = until, folder
        self._process, self._began = process, _began(process) if process else 0
        self._user: dict[str, Any] = {}
        self._groups: frozenset[int] = frozenset()
        self._lines: dict[str, list[str]] = {}
        self._kept: dict[str, int] = {}
        self._open = ExitStack()
        try:
            self._root = os.open(root or "/", _REFER & ~os.O_NOFOLLOW | os.O_DIRECTORY)
            self._open.callback(os.close, self._root)
        except OSError:
            self._root = -1

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def belong_to(self, user: dict[str, Any] | None) -> None:
        """Read them as that USER could: what stacksplice-inspect says of the process; None: as anybody.

        Without a call nothing is read.
        """
        self._user = user or {"id": -1}
        self._groups = frozenset(map(int, self._user.get("groups", "").split()))
        if self._process and _began(self._process) != self._began:
            self._user = {}  # another one has the number now

    def _may(self, right: int, file: int) -> bool:
        """Whether the process has that RIGHT to a file or folder."""
        found = os.fstat(file)
        if self._user.get("enters_all" if right == _SEARCH else "reads_all"):
            return True
        if found.st_uid == self._user.get("id"):
            return bool(found.st_mode >> 6 & right)
        try:
            os.getxattr(f"/proc/self/fd/{file}", _ACCESS_LIST)
            return False  # its mode does not say who else may
        except OSError:
            pass
        return bool(found.st_mode >> (3 if found.st_gid in self._groups else 0) & right)

    def _found(self, name: str, opened: ExitStack) -> int:
        """What the process sees under that NAME, a descriptor that OPENED closes; OSError."""
        folders, left, links = [self._root], name.split("/")[::-1], 0
        while left:
            part = left.pop()
            if part == ".." and len(folders) > 1:
                folders.pop()
            if part in ("", ".", ".."):
                continue
            if not self._may(_SEARCH, folders[-1]):
                raise PermissionError
            if len(folders) == 1 and part in _OF_THE_KERNEL:
                raise FileNotFoundError
            file = os.open(part, _REFER, dir_fd=folders[-1])
            opened.callback(os.close, file)
            if not stat.S_ISLNK(os.fstat(file).st_mode):
                folders.append(file)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise FileNotFoundError
            target = os.readlink("", dir_fd=file)
            left += target.split("/")[::-1]
            if target.startswith("/"):
                del folders[1:]
        return folders[-1]

    def _opened(self, name: str) -> int | None:
        """The regular file of that NAME, for reading; None if it is not there for the process."""
        if not self._user or not name.startswith("/") or "\0" in name:
            return None
        try:
            with ExitStack() as opened:
                file = self._found(name, opened)
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return None
                if not self._may(_READ, file):
                    raise PermissionError
                # The file that was looked at, whatever has its name now.
                return os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except PermissionError:
            self.refused.append(name)
        except (OSError, UnicodeError):
            pass
        return None

    def path(self, name: str) -> str:
        """By which name we can open that file until the end of the block; empty if the process could not."""
        if name not in self._kept:
            file = self._opened(name)
            self._kept[name] = -1 if file is None else file
            if file is not None:
                self._open.callback(os.close, file)
        return f"/proc/self/fd/{self._kept[name]}" if self._kept[name] >= 0 else ""

    def _read(self, name: str) -> list[str]:
        file = self._opened(os.path.join(self._folder, name))
        if file is None:
            return []
        with open(file, "rb") as opened:
            found = os.fstat(file)
            why = "it has more than 16 MB" if found.st_size > _LARGEST else "it was changed since"
            if found.st_size > _LARGEST or self._changed(found) > self._until:
                self.unread.setdefault(why, []).append(name)
                return []
            try:
                return _lines(opened.read(found.st_size))
            except (OSError, SyntaxError, UnicodeDecodeError):
                return []

    def _changed(self, found: os.stat_result) -> float:
        """When the file became what it is, in seconds since the epoch.

        One that took the place of another may have been written long before, but came here later.  A core
        file may be from another machine, where the files came at other times.
        """
        return max(found.st_mtime, found.st_ctime) if self._process else found.st_mtime

    def add_source(self, frame: dict[str, Any]) -> None:
        """Give FRAME, of a script, its line of source, if it can be had."""
        file, number = frame.get("file"), frame.get("line", 0)
        if frame["kind"] != "script" or not file:
            return
        if frame["language"] == "lua" and file.endswith(_OTHER_LINES):
            return
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        line = lines[number - 1].rstrip() if 0 < number <= len(lines) else ""
        if line:
            frame["source"] = line.lstrip()
            frame["source_column"] = len(line.encode()) - len(line.lstrip().encode()) + 1


def files_of(process: int) -> Files:
    """Those of PROCESS, which runs on this machine."""
    return Files(_start_of(process), f"/proc/{process}/root", _folder_of(process), process)
