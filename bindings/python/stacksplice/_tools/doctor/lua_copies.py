"""The copies of Lua in this process, found by the functions that they show to others."""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple

from ... import _stacksplice


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
