"""What doctor() says of Lua: the binding of this package, the copies of Lua in this process, lupa."""

from __future__ import annotations

import os
import re

from ... import _stacksplice
from ..._base import PACKAGE
from ..._hooks.lupa import _runtimes as all_runtimes
from .findings import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lua_copies import Copy


def _names_in(folder: str) -> list[str]:
    """The files of FOLDER; none if it is in an archive."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def bindings() -> list[str]:
    """The versions of Lua for which this package brings a binding."""
    names = _names_in(PACKAGE)
    found = (re.fullmatch(r"libstacksplice-lua(\d)(\d)\.so\.0", name) for name in names)
    return sorted(f"{match[1]}.{match[2]}" for match in found if match)


def _copies() -> list[Copy]:
    try:
        from .lua_copies import copies_of_lua
    except ImportError:  # this Python has no ctypes
        return []
    return copies_of_lua()


def _lupa() -> tuple[str, list[str]] | None:
    """The version of lupa, and its modules: one for each version of Lua."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        spec = find_spec("lupa")
    except ValueError:  # something else has that name in sys.modules
        spec = None
    if spec is None:
        return None
    try:
        number = version("lupa")
    except PackageNotFoundError:
        number = "of unknown version"
    folders = spec.submodule_search_locations or []
    names = {name.partition(".")[0] for folder in folders for name in _names_in(folder)}
    return number, sorted(name for name in names if re.fullmatch(r"lua(jit)?\d+", name))


def _lupa_findings(versions: list[str]) -> Iterator[Finding]:
    lupa = _lupa()
    if lupa is None:
        yield Finding("note", "lupa", "is not installed")
        return
    number, modules = lupa
    ours = {f"lua{version.replace('.', '')}" for version in versions}
    read, unread = [name for name in modules if name in ours], [name for name in modules if name not in ours]
    yield Finding(
        "ok", "lupa", f"{number}; Lua frames are read in {', '.join(read) or 'none of its modules'}"
    )
    if read and unread:
        text = f"Lua frames are not read in {', '.join(unread)}: a gap says so"
        yield Finding("note", "lupa", text, f"use {read[-1]}")


def _runtime_findings() -> Iterator[Finding]:
    """Those of lupa in this process."""
    runtimes = all_runtimes()
    attached = sum(_stacksplice._lupa_attached(id(runtime)) for runtime in runtimes)
    if attached < len(runtimes):
        text = f"{attached} of {len(runtimes)} are attached"
        advice = "stacksplice.install() attaches them; stacksplice.attach(runtime) says why it cannot"
        yield Finding("note", "lupa's runtimes", text, advice)
    elif runtimes:
        yield Finding("ok", "lupa's runtimes", f"{attached} of {attached} are attached")


def lua_findings() -> Iterator[Finding]:
    """What is known of Lua, and what is missing of it."""
    versions = bindings()
    if versions:
        yield Finding("ok", "Lua binding", f"for Lua {', '.join(versions)}")
    else:
        advice = "install a package of stacksplice that has it; hosts link their own (stacksplice::lua)"
        yield Finding("missing" if _lupa() else "note", "Lua binding", "this package has none", advice)
    yield from _lupa_findings(versions)
    yield from _runtime_findings()
    for copy in _copies():
        text = f"{copy.version}, {copy.file}"
        if copy.unread is None:
            yield Finding("ok", "Lua in this process", f"{text}\nits frames are read")
        else:
            yield Finding("note", "Lua in this process", f"{text}\n{copy.unread}")
