"""Debug files from the servers that DEBUGINFOD_URLS names, through elfutils' library for them."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Iterator

_LIBRARY = "libdebuginfod.so.1"


def _open() -> ctypes.CDLL:
    import ctypes

    library = ctypes.CDLL(_LIBRARY)
    library.debuginfod_begin.restype = ctypes.c_void_p
    library.debuginfod_end.argtypes = [ctypes.c_void_p]
    library.debuginfod_end.restype = None
    library.debuginfod_find_debuginfo.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p),
    ]
    return library


class Servers:
    """Debug files of servers.  They are asked only where the environment names some."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._refused: dict[str, str] = {}

    def why_not(self, build_id: str) -> str | None:
        """Why there is no file with this build-id; None: it was not asked for, or is there."""
        return self._refused.get(build_id)

    def files(self, build_id: str) -> Iterator[str]:
        """The debug file with this build-id, which the library keeps in its cache."""
        if not os.environ.get("DEBUGINFOD_URLS"):
            return
        try:
            self._library = self._library or _open()
        except OSError:
            self._refused[build_id] = f"{_LIBRARY} not found (Debian package: libdebuginfod1)"
            return
        found = self._fetch(self._library, build_id)
        if isinstance(found, str):
            yield found
        elif found == errno.ENOENT:
            self._refused[build_id] = "no server has it"
        else:
            self._refused[build_id] = os.strerror(found)

    @staticmethod
    def _fetch(library: ctypes.CDLL, build_id: str) -> str | int:
        """The path of the file, or why there is none, as errno."""
        import ctypes

        client = library.debuginfod_begin()
        if not client:
            return errno.ENOMEM
        path = ctypes.c_void_p()
        try:
            # A length of 0: the build-id is a text.
            fd = library.debuginfod_find_debuginfo(client, build_id.encode(), 0, ctypes.byref(path))
            if fd < 0:
                return -int(fd)
            os.close(fd)
            return os.fsdecode(ctypes.string_at(path)) if path else errno.ENOMEM
        finally:
            library.debuginfod_end(client)
            free = ctypes.CDLL(None).free
            free.argtypes = [ctypes.c_void_p]
            free(path)
