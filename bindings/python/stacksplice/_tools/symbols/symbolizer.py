"""Functions, files and lines for native frames, out of files with their build-id."""

from __future__ import annotations

import errno
import os
import re
from functools import lru_cache

from ... import _stacksplice
from ..._base.hints import Any, Callable, Iterator, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

_LIBRARY = "libdebuginfod.so.1"


def _fetch(build_id: str) -> str:
    """The path of the debug file that a server has.  Raises OSError, without errno if there is no library."""
    import ctypes

    library, path = ctypes.CDLL(_LIBRARY), ctypes.c_char_p()
    library.debuginfod_begin.restype = ctypes.c_void_p
    client = ctypes.c_void_p(library.debuginfod_begin())
    if not client:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    try:
        # A length of 0: the build-id is a text.
        fd = library.debuginfod_find_debuginfo(client, build_id.encode(), 0, ctypes.byref(path))
        if fd >= 0:
            os.close(fd)
        if path.value is not None:
            return os.fsdecode(path.value)
        number = -fd if fd < 0 else errno.ENOMEM
        raise OSError(number, os.strerror(number))
    finally:
        library.debuginfod_end(client)
        ctypes.CDLL(None).free(path)


_SYSTEM = "/usr/lib/debug"
_BUILD_ID = re.compile(r"[0-9a-f]{4,128}\Z")


def is_build_id(text: object) -> bool:
    return isinstance(text, str) and _BUILD_ID.match(text) is not None


def _caches() -> Iterator[str]:
    """Where debuginfod's programs keep what they fetched."""
    if path := os.environ.get("DEBUGINFOD_CACHE_PATH"):
        yield path
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(home, "debuginfod_client")


class SymbolFiles:
    """The files of the FOLDERS given by the user, and of the system.

    By the name that HERE gives, a binary can be opened; without it, by its own.
    """

    def __init__(self, folders: Sequence[str], here: Callable[[str], str] | None = None) -> None:
        self.refused: dict[str, str] = {}  # by build-id: why no server gave the file that was asked for
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
        if os.environ.get("DEBUGINFOD_URLS"):  # they are asked only where it names some
            yield from self._from_servers(build_id)

    def _from_servers(self, build_id: str) -> Iterator[str]:
        """The debug file with this build-id, which the library keeps in its cache."""
        try:
            yield _fetch(build_id)
        except FileNotFoundError:
            self.refused[build_id] = "no server has it"
        except OSError as exc:
            self.refused[build_id] = exc.strerror or f"{_LIBRARY} not found (Debian package: libdebuginfod1)"


_CACHED = 1 << 14  # places in a binary whose frames are kept

_MISSING, _NO_BINARY, _OTHER_BUILD = 0x80070002, 0x8007000B, 0x8007000D

# What a lookup decides; a frame's other members stay as they are.
_FOUND = ("function", "function_offset", "file", "line", "column", "inlined", "glue")


class _Module:
    """One binary of the reports, and the files that describe it; SYMBOL_ALONE: no lines are looked up."""

    def __init__(self, path: str, build_id: str, files: SymbolFiles, symbol_alone: bool) -> None:
        self.path, self.build_id, self.symbol_alone = path, build_id, symbol_alone
        self._resolve = _stacksplice._resolve_symbol if symbol_alone else _stacksplice._resolve_file
        self._left = files.candidates(path, build_id)
        self._refused_by_servers = files.refused
        self._usable: list[str] = []
        self._told: set[str] = set()
        self._refused: list[str] = []
        self.has_functions = self.has_lines = self.is_shown = False
        self.frames = lru_cache(_CACHED)(self._frames)

    def _look_up(self, file: str, offset: int) -> list[dict[str, Any]]:
        """The frames that FILE has there; empty if it cannot be used."""
        found = self._resolve(os.fsencode(file), os.fsencode(self.path), self.build_id.encode(), offset)
        if isinstance(found, list):
            return found
        if found == _OTHER_BUILD:
            self._refused.append(f"{file} has another build-id")
        elif found == _NO_BINARY:
            self._refused.append(f"{file} is damaged, or no 64-bit ELF file")
        elif found != _MISSING:
            raise MemoryError
        return []

    def _files(self, offset: int) -> Iterator[list[dict[str, Any]]]:
        for file in self._usable:
            yield self._look_up(file, offset)
        if self.has_lines:
            return  # the others have the same debug information, or less
        for file in self._left:
            try:
                real = os.path.realpath(file)
            except OSError:  # below /proc, and its process has ended
                continue
            if real in self._told or not os.path.exists(file):
                continue  # a server may bring it to this place later
            self._told.add(real)
            frames = self._look_up(file, offset)
            if frames:
                self._usable.append(file)
                yield frames

    def _frames(self, offset: int) -> list[dict[str, Any]]:
        """What the first file with lines says of OFFSET, else the first with a function."""
        best: list[dict[str, Any]] = []
        for frames in self._files(offset):
            if any("file" in frame for frame in frames):
                self.has_functions = self.has_lines = True
                return frames
            if not best and any("function" in frame for frame in frames):
                self.has_functions = True
                best = frames
                if self.symbol_alone:
                    return best
        return best

    def complaint(self) -> str | None:
        """What could not be found, as one line with the next step."""
        if self.has_lines or not self.is_shown:
            return None
        what = "no lines, only functions" if self.has_functions else "no symbols"
        why = "".join(f"; not used: {refused}" for refused in self._refused)
        if not self.has_functions:  # such a file is stripped, or was cut off
            why += "".join(f"; {file} has none" for file in self._usable)
        no_answer = self._refused_by_servers.get(self.build_id)
        if no_answer:
            why += f"; debuginfod: {no_answer}"
        return (
            f"{self.path}: {what} found for build-id {self.build_id}{why}; "
            "pass the folder with its debug file as --symbols DIR"
        )


class Symbolizer:
    """Looks up the frames of all reports of one command, in the files that SymbolFiles finds.

    Unless ALL_FRAMES, frames that are known to be hidden need nothing.  Of the binaries for which
    SYMBOL_ALONE is true, only functions are looked up.
    """

    def __init__(
        self,
        folders: list[str],
        here: Callable[[str], str] | None = None,
        all_frames: bool = True,
        symbol_alone: Callable[[str], bool] = lambda module: False,
    ) -> None:
        self._all_frames, self._symbol_alone = all_frames, symbol_alone
        self._files = SymbolFiles(folders, here)
        self._modules: dict[tuple[str, str], _Module] = {}
        self._without_id: dict[str, None] = {}

    def _resolve(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        """What the files say of a native frame; empty if nothing more than it says itself."""
        path, build_id, offset = frame.get("module"), frame.get("build_id"), frame.get("module_offset")
        if not _is_path(path) or type(offset) is not int or not 0 < offset < 2**63:
            return []
        is_shown = not frame.get("glue")  # nobody misses the lines of others
        if build_id is None and is_shown:
            self._without_id[path] = None
        if not isinstance(build_id, str) or not is_build_id(build_id):
            return []
        module = self._modules.get((path, build_id))
        if module is None:
            alone = self._symbol_alone(path)
            module = self._modules[path, build_id] = _Module(path, build_id, self._files, alone)
        module.is_shown |= is_shown
        return module.frames(offset)

    def stack(self, frames: list[Any]) -> list[Any]:
        """The frames of a stack, with what the files say of them."""
        result: list[Any] = []
        for group in _groups(frames):
            if not _is_native(group[-1]):
                result += group
                continue
            is_hidden = not self._all_frames and bool(group[-1].get("glue"))
            is_known = is_hidden or any("file" in frame for frame in group)
            named = [] if is_known else [_merge(frame, group[-1]) for frame in self._resolve(group[-1])]
            if not result and not group[-1].get("glue"):  # where a process crashed, no frame is glue
                for frame in named:
                    frame.pop("glue", None)
            result += named or group
        return result

    def complaints(self) -> Iterator[str]:
        """What could not be found, once for each binary."""
        for module in self._modules.values():
            text = module.complaint()
            if text:
                yield text
        for path in self._without_id:
            yield f"{path}: no symbols: the report has no build-id of it; link it with --build-id"


def _is_path(path: object) -> TypeGuard[str]:
    try:
        return isinstance(path, str) and "\0" not in path and bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def _is_native(frame: object) -> bool:
    return isinstance(frame, dict) and frame.get("kind") == "native"


def _groups(frames: list[Any]) -> Iterator[list[Any]]:
    """FRAMES, native ones that were inlined into one another together."""
    group: list[Any] = []
    for frame in frames:
        goes_on = group and _is_native(frame) and _is_native(group[-1]) and group[-1].get("inlined")
        if group and not (goes_on and frame.get("address") == group[0].get("address")):
            yield group
            group = []
        group.append(frame)
    if group:
        yield group


def _merge(found: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """A frame that was FOUND, with what else the report has SAVED of its place."""
    merged = {
        name: found[name] if name in _FOUND else saved.get(name, value) for name, value in found.items()
    }
    for name, value in saved.items():
        if name not in merged and name not in _FOUND:
            merged[name] = value
    if "address" in merged:
        merged["address"] = merged.pop("address")  # the last member of a frame
    return merged
