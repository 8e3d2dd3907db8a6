"""lupa's runtimes: attach() and detach(), and the watch that attaches new ones by itself."""

from __future__ import annotations

import sys

from .. import _stacksplice
from . import at_raise, fakeredis
from .lock import add_finder, remove_finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def _is_module(name: str) -> bool:
    """Whether NAME is that of a module of lupa, which has one for each Lua: lupa.lua54, lupa.luajit21."""
    return name.startswith("lupa.lua") and name.removeprefix("lupa.lua").removeprefix("jit").isdecimal()


def _version_of(module: Any) -> str:
    return ".".join(map(str, module.LUA_VERSION))


def _type_of(runtime: object) -> Any:
    """The class LuaRuntime from which RUNTIME is."""
    for kind in type(runtime).__mro__:
        module = sys.modules.get(kind.__module__)
        if kind.__name__ == "LuaRuntime" and getattr(module, "LuaRuntime", None) is kind:
            return kind
    raise TypeError(f"runtime must be a LuaRuntime of lupa, not {type(runtime).__name__}")


def _address_of(coroutine: object) -> int:
    """The address of the lua_State of COROUTINE."""
    text = repr(coroutine)
    digits = text.rpartition("0x")[2]  # <Lua thread at 0x55d0c8a0>
    if not text.endswith(">") or digits == text:
        raise OSError(f"this lupa does not tell the address of a coroutine: {text}")
    return int(digits.removesuffix(">"), 16)


def _checked_limit(limit: float) -> int:
    from .deadline import milliseconds

    if isinstance(limit, bool):
        raise TypeError("limit must be a number, not bool")
    if limit == 0:
        raise ValueError("limit must be more than 0")
    return milliseconds(limit, "limit")


def attach(runtime: Any, /, *, limit: float | None = None) -> None:
    """Have the errors of a LuaRuntime of lupa keep their combined stack.

    install() does this for every runtime.  From now on exceptions that leave Lua in this runtime,
    those of Python and LuaErrors, have an error object and Lua's lines in their __traceback__.
    Types, texts and identities stay lupa's.  Attaching does not keep the runtime alive; doing it
    again changes nothing but the limit, if one is given.

    limit: how many seconds a call from Python may take: of a function of the runtime, of execute() and
    eval(), and of a coroutine that is resumed.  Lua that is late ends by a TimeoutError as
    in a block of deadline(limit, interrupt=True), without a report.  Calls inside of one share its
    limit.  Reading or writing a table has none.  In LuaJIT this turns the compiler off.

    Raises TypeError when runtime is no LuaRuntime; ValueError for a Lua that is not known, such as a
    newer one; OSError when the functions of its Lua cannot be found, when it was built with
    another luaconf.h than usual, or for a lupa that does not show its locks; lupa's own exceptions
    when the runtime has no memory left.
    """
    kind = _type_of(runtime)
    module: Any = sys.modules[kind.__module__]
    most = None if limit is None else _checked_limit(limit)
    known = _stacksplice._LUAS
    if not known.partition(" ")[0] <= _version_of(module) <= known.rpartition(" ")[2]:  # nothing is touched
        raise ValueError(f"Lua {_version_of(module)} is not supported: known are Lua {known} and LuaJIT")
    if not _stacksplice._lupa_attached(id(runtime)):
        _watch(module)
        _attach_locked(runtime, kind)
        at_raise.begin_below_others()
    if most is not None:
        if "jit" in module.__name__:  # compiled code calls no hook
            kind.execute(runtime, "jit.off() jit.flush()", name="@stacksplice")
        _stacksplice._lupa_limit(id(runtime), most, kind.globals(runtime))


def _attach_locked(runtime: Any, kind: Any) -> None:
    """Attach RUNTIME while no other thread runs it; only what no script can change takes part.

    Nothing of this is left to Lua's collector with a finalizer.  Where C has no more calls for Lua 5.1 to
    5.3 and LuaJIT to make, a finalizer that is due raises in whatever function of Lua the bridge calls: it
    would jump over Python's frames and leave the interpreter locked.
    """
    lock = _lock_of(runtime)
    if lock is None:
        raise OSError("this lupa does not show the lock of its runtimes")
    with lock:
        bearer = kind.compile(runtime, "local f = ... return function() f() end")(_stacksplice._lupa_late)
        coroutine = bearer.coroutine()
        module: Any = sys.modules[kind.__module__]
        checked = lock if hasattr(lock, "_is_owned") else None
        file, at = str(module.__file__), _address_of(coroutine)
        _stacksplice._lupa_attach(id(runtime), at, coroutine, file, module.__dict__, checked)
        bearer()  # f has become a function of ours


def detach(runtime: Any, /) -> bool:
    """Undo attach(); whether runtime was attached.  Raises TypeError when it is no LuaRuntime."""
    _type_of(runtime)
    if not _stacksplice._lupa_attached(id(runtime)):
        return False
    with _lock_of(runtime):
        _stacksplice._lupa_detach(id(runtime))
    return True


# ---- All runtimes --------------------------------------------------------------------------------

is_begun = False
# pcall and xpcall of the runtimes keep what they catch.
keeps_caught = False
# Why the Lua of a module is not read, by the file of the module.
unread: dict[str, str] = {}


def _say_unread(module: Any, why: Exception) -> None:
    """One line, and a gap in reports: WHY the Lua of MODULE is not read."""
    file = str(module.__file__)
    if file in unread:
        return
    kind = "LuaJIT, like Lua" if "jit" in module.__name__ else "Lua"
    unread[file] = f"{module.__name__} ({kind} {_version_of(module)}): {why}"
    _stacksplice._lupa_unread(file, unread[file])
    at_raise.begin_below_others()
    if sys.stderr is None:
        return
    try:
        print(f"stacksplice: errors through {module.__name__} are shown without Lua: {why}", file=sys.stderr)
    except (OSError, ValueError):  # a closed file: who makes a runtime has nothing to do with it
        pass


def _attach_or_say(runtime: Any) -> None:
    """attach(), for install(): reports have a gap for what cannot be attached."""
    try:
        module = sys.modules[_type_of(runtime).__module__]
    except TypeError:  # the module is not there any more
        return
    try:
        attach(runtime)
        if keeps_caught:
            with _lock_of(runtime):
                _stacksplice._lupa_keep_caught(id(runtime))
        fakeredis.begin()
    except MemoryError:  # this runtime has none left
        pass
    except Exception as why:
        _say_unread(module, why)


# The runtimes for which a thread of ours waits.
_awaited: set[int] = set()


def _begin_to_wait(runtime: Any, lock: Any) -> None:
    import threading

    def attach_later() -> None:
        with lock:
            _awaited.discard(id(runtime))
            if is_begun:
                _attach_or_say(runtime)

    if id(runtime) in _awaited:
        return
    _awaited.add(id(runtime))
    try:
        threading.Thread(None, attach_later, "stacksplice waits for a runtime of lupa", daemon=True).start()
    except RuntimeError:  # there can be no more threads: reports have the gap
        _awaited.discard(id(runtime))


def _lock_of(runtime: Any) -> Any:
    """The lock that every call of RUNTIME holds; None if this lupa does not show it."""
    import gc

    held = [each for each in gc.get_referents(runtime) if type(each).__name__ == "FastRLock"]
    return held[0] if held else None


def _attach_existing(runtime: Any) -> None:
    """_attach_or_say() without waiting for another thread that runs RUNTIME."""
    lock = _lock_of(runtime)
    if lock is not None and not lock.acquire(False):
        _begin_to_wait(runtime, lock)
        return
    try:
        _attach_or_say(runtime)
    finally:
        if lock is not None:  # else nothing tells whether it would wait
            lock.release()


def _created(runtime: Any) -> None:
    """Called while lupa makes RUNTIME, before it begins to count memory, or else afterwards."""
    if not is_begun or _stacksplice._lupa_attached(id(runtime)):
        return
    _attach_or_say(runtime)
    kind = _type_of(runtime)
    if _stacksplice._lupa_attached(id(runtime)) and kind.get_max_memory(runtime) is not None:
        kind.gccollect(runtime)  # what is free now is not to be had in addition to the limit


def _watch(module: ModuleType) -> None:
    """Notice new runtimes and errors of MODULE."""
    _stacksplice._lupa_watch(module.LuaRuntime, module.LuaError, _created)


def _modules() -> list[ModuleType]:
    # No generator: without memory for one, CPython 3.12 and 3.13 release its function twice.
    ours = [each for name, each in list(sys.modules.items()) if _is_module(name)]
    return [each for each in ours if isinstance(getattr(each, "LuaRuntime", None), type)]


def _runtimes() -> list[Any]:
    kinds = (*[module.LuaRuntime for module in _modules()],)
    if not kinds:
        return []
    if sys.version_info >= (3, 12):
        return _stacksplice._lupa_existing(*kinds)
    import gc

    return [each for each in gc.get_objects() if issubclass(type(each), kinds)]


class _Finder:
    """Stands first in sys.meta_path and watches the modules of lupa that are imported later."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_module(name):
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not _finder else None
            if spec is not None:
                _watch_when_loaded(spec.loader)
                return spec
        return None


_finder = _Finder()


def _watch_when_loaded(loader: Any) -> None:
    """Have LOADER, which is for one module, tell when that is there; its type stays."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        if is_begun and module in _modules():
            _watch(module)

    loader.exec_module = exec_module


def begin(keep_caught: bool = False, bridges: bool = False) -> None:
    """Attach every runtime, those that exist and those made from now on.  False takes nothing back."""
    if bridges:
        _stacksplice._lupa_bridges(True)
    global is_begun, keeps_caught
    is_begun = True
    keeps_caught = keeps_caught or keep_caught
    add_finder(_finder)
    for module in _modules():
        _watch(module)
    for runtime in _runtimes():
        if keeps_caught or not _stacksplice._lupa_attached(id(runtime)):
            _attach_existing(runtime)


def end() -> None:
    """Detach every runtime, and notice no more."""
    global is_begun, keeps_caught
    is_begun = keeps_caught = False
    remove_finder(_finder)
    _stacksplice._lupa_unwatch()
    _stacksplice._lupa_bridges(False)
    fakeredis.end()
    for runtime in _runtimes():
        try:
            detach(runtime)
        except Exception:  # it has no memory left: it stays as it is
            pass
