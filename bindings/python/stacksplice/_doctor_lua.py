"""What doctor() says of Lua: the binding of this package, the copies of Lua in this process, lupa."""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple

from . import _stacksplice
from ._doctor import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# lupa's modules whose Lua stores its frames in a way that is not known.
_REFUSED = re.compile(r"luajit\d*|lua5[12]")


def bindings() -> list[str]:
    """The versions of Lua for which this package brings a binding."""
    folder = os.path.dirname(os.path.abspath(__file__))
    found = (re.fullmatch(r"libstacksplice-lua(\d)(\d)\.so", name) for name in os.listdir(folder))
    return sorted(f"{match[1]}.{match[2]}" for match in found if match)


def _mapped_files() -> list[str]:
    """The files that this process has mapped as code."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            rows = [line.rstrip("\n").split(None, 5) for line in maps]
    except OSError:
        return []
    return sorted({row[5] for row in rows if len(row) == 6 and "x" in row[1] and row[5].startswith("/")})


def _version_in(library: ctypes.CDLL) -> str:
    """As lua_ident has it, which LuaJIT lacks."""
    try:
        ident = bytes((ctypes.c_char * 40).in_dll(library, "lua_ident"))
    except ValueError:
        return "LuaJIT, or a Lua that hides its version"
    version = re.search(rb"Lua \d+(?:\.\d+)+", ident)
    return version[0].decode() if version else "a Lua of unknown version"


def _call_of(library: ctypes.CDLL) -> int:
    """The address of the function by which LIBRARY, or what it depends on, calls Lua; or 0."""
    for name in ("lua_pcallk", "lua_pcall"):  # the latter is that of 5.1 and LuaJIT
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return 0


class Copy(NamedTuple):
    """One copy of Lua in this process."""

    file: str
    version: str
    unread: str | None  # why its frames are not known


def copies_of_lua() -> list[Copy]:
    """Each copy of Lua that others can call; loads nothing."""
    copies: dict[int, Copy] = {}
    for path in (None, *_mapped_files()):  # None: the program, and what it shares with all
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        except OSError:
            continue
        call = _call_of(library)
        if call and call not in copies:
            # Its frame as in a stack, after a gap if no binding reads that copy.
            *gaps, frame = _stacksplice.resolve(call + 1)
            unread = str(gaps[0].get("reason")) if gaps and gaps[0]["kind"] == "gap" else None
            copies[call] = Copy(frame.get("module") or "the program", _version_in(library), unread)
    return list(copies.values())


def _lupa() -> tuple[str, list[str], list[str]] | None:
    """The version of lupa, and the names of its modules that are known and those that are not."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    spec = find_spec("lupa")
    if spec is None:
        return None
    try:
        number = version("lupa")
    except PackageNotFoundError:
        number = "of unknown version"
    folders = spec.submodule_search_locations or []
    names = {name.partition(".")[0] for folder in folders for name in os.listdir(folder)}
    modules = sorted(name for name in names if re.fullmatch(r"lua(jit)?\d+", name))
    return (
        number,
        [name for name in modules if not _REFUSED.fullmatch(name)],
        [name for name in modules if _REFUSED.fullmatch(name)],
    )


def lua_findings() -> Iterator[Finding]:
    """What is known of Lua, and what is missing of it."""
    versions, lupa, copies = bindings(), _lupa(), copies_of_lua()
    if versions:
        yield Finding("ok", "Lua binding", f"for Lua {', '.join(versions)}")
    else:
        advice = "install a package of stacksplice that has it; hosts link their own (stacksplice::lua)"
        yield Finding("missing" if lupa else "note", "Lua binding", "this package has none", advice)
    if lupa is None:
        yield Finding("note", "lupa", "is not installed")
    else:
        number, known, refused = lupa
        names = ", ".join(known) or "none of its modules"
        yield Finding("ok", "lupa", f"{number}; Lua frames are read for {names}")
        if refused:
            text = f"frames of {', '.join(refused)} are not read: a gap says so"
            yield Finding("note", "lupa", text, "use one of the modules above")
    for copy in copies:
        text = f"{copy.version}, {copy.file}"
        if copy.unread is None:
            yield Finding("ok", "Lua in this process", f"{text}\nits frames are read")
        else:
            yield Finding("note", "Lua in this process", f"{text}\n{copy.unread}")
