"""Where the symbols of a binary may be: the candidates, whose build-id is still to be compared."""

from __future__ import annotations

import os
import re

from .debuginfod import Servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SYSTEM = "/usr/lib/debug"
_BUILD_ID = re.compile(r"[0-9a-f]{4,128}\Z")


def is_build_id(text: object) -> bool:
    """Whether TEXT, from a report, can be part of a path."""
    return isinstance(text, str) and _BUILD_ID.match(text) is not None


def _caches() -> Iterator[str]:
    """Where debuginfod's programs keep what they fetched."""
    path = os.environ.get("DEBUGINFOD_CACHE_PATH")
    if path:
        yield path
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(home, "debuginfod_client")


class SymbolFiles:
    """The files of the FOLDERS given by the user, and of the system.

    By the name that HERE gives, a binary can be opened; without it, by its own.
    """

    def __init__(self, folders: Sequence[str], here: Callable[[str], str] | None = None) -> None:
        self.servers = Servers()
        self.here = here or (lambda module: module if os.path.isabs(module) else "")
        self._folders = folders
        self._by_name: dict[str, list[str]] | None = None

    def _named(self, name: str) -> list[str]:
        """All files of that name in the folders, which are listed once."""
        if self._by_name is None:
            self._by_name = {}
            for folder in self._folders:
                for root, _, files in os.walk(folder):
                    for file in sorted(files):
                        self._by_name.setdefault(file, []).append(os.path.join(root, file))
        return self._by_name.get(name, [])

    def candidates(self, module: str, build_id: str) -> Iterator[str]:
        """Files that may describe the binary MODULE, the likeliest first; some do not exist."""
        by_id = os.path.join(".build-id", build_id[:2], build_id[2:])
        name = os.path.basename(module)
        for folder in self._folders:
            yield os.path.join(folder, by_id + ".debug")
            yield os.path.join(folder, by_id)
            yield os.path.join(folder, build_id, "debuginfo")
        for end in (".debug", ".dbg", ""):
            yield from self._named(name + end)
        here = self.here(module)
        if here:
            yield here
        yield os.path.join(_SYSTEM, by_id + ".debug")
        for cache in _caches():
            yield os.path.join(cache, build_id, "debuginfo")
            yield os.path.join(cache, build_id, "executable")
        yield from self.servers.files(build_id)
