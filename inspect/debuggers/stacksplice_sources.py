"""Lines of source of scripts, from the files that the process had them from, where those are here."""

import linecache
import os
import stat
import time

LARGEST_FILE = 16 << 20  # bytes; a name can be any file


def _start_of(process):
    """By when PROCESS had begun, in seconds since the epoch; 0 if that is not known."""
    try:
        with open("/proc/{}/stat".format(process), "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK") + 1


def written_at(path):
    """When the file PATH was written, a core file; 0 if that is not known."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0


class Sources:
    """Files as they were before UNTIL: one that was changed later may have other lines."""

    def __init__(self, until=0, root="", folder=""):
        """ROOT is before the paths of the process, FOLDER before its relative ones."""
        self.until, self.root, self.folder = until, root, folder
        linecache.checkcache()

    def _is_usable(self, path):
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_FILE and found.st_mtime <= self.until

    def line(self, frame):
        """That of FRAME without its indentation; empty if it cannot be had."""
        if not self.until or frame["kind"] != "script" or not frame.get("file") or not frame.get("line"):
            return ""
        path = os.path.join(self.folder, frame["file"])
        if not os.path.isabs(path) or not self._is_usable(self.root + path):
            return ""
        return linecache.getline(self.root + path, frame["line"]).strip()


def sources_of(process):
    """Those of PROCESS, which runs on this machine."""
    own = "/proc/{}/".format(process)
    try:
        folder = os.readlink(own + "cwd")
    except OSError:
        folder = ""
    return Sources(_start_of(process), own + "root", folder)
