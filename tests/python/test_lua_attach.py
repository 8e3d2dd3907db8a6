"""States of Lua that others made are attached by their address: lupa's, of each version."""

from __future__ import annotations

import ctypes.util
import importlib
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import stacksplice
from building import Child
from frame_oracle import chain
from stacksplice import _stacksplice

lupa = pytest.importorskip("lupa", reason="lupa is not installed")

VERSIONS = ["lua53", "lua54", "lua55"]
NESTED = """
function convert(f)
    local result = f()
    return result
end
function price(f)
    local result = convert(f)
    return result
end
function lines()
    local found = {}
    for level = 2, 100 do
        local info = debug.getinfo(level, "Sl")
        if not info then break end
        if info.what ~= "C" then found[#found + 1] = info.currentline end
    end
    return table.concat(found, " ")
end
"""


def module(version: str) -> types.ModuleType:
    return pytest.importorskip(f"lupa.{version}", reason=f"lupa has no {version}")


def address(lua) -> int:
    return int(lua.eval("tostring(coroutine.running())").split()[-1], 16)


def attach(lua, library: str | None = None):
    return _stacksplice._lua_attach(address(lua), library or sys.modules[type(lua).__module__].__file__)


@pytest.fixture(params=VERSIONS)
def lua(request) -> Iterator:
    runtime = module(request.param).LuaRuntime()
    handle = attach(runtime)
    runtime.execute(NESTED)
    yield runtime
    _stacksplice._lua_detach(handle)


def script_frames(stack: stacksplice.Stack) -> list[stacksplice.Frame]:
    return [frame for frame in stack if frame.kind == "script"]


def lua_lines(stack) -> list[int]:
    return [frame.line for frame in stack if (frame.kind, frame.language) == ("script", "lua")]


def python_lines(stack) -> list[tuple[str, str, int]]:
    return [
        (frame.file, frame.function, frame.line)
        for frame in stack
        if (frame.kind, frame.language) == ("script", "python")
    ]


def test_frames_in_true_order(lua) -> None:
    taken: list = []

    def rate():
        taken.append((stacksplice.capture(), chain(sys._getframe()), lua.globals().lines()))
        return 1

    assert lua.globals().price(rate) == 1
    stack, python, lines = taken[0]
    assert python_lines(stack)[1:] == python[1:]
    assert [str(line) for line in lua_lines(stack)] == lines.split() == ["3", "7"]
    languages = [frame.language for frame in script_frames(stack)]
    assert languages[:4] == ["python", "lua", "lua", "python"]


def test_in_a_coroutine(lua) -> None:
    taken: list = []

    def rate():
        taken.append(stacksplice.capture())

    lua.eval("function(f) coroutine.wrap(function() price(f) end)() end")(rate)
    assert lua_lines(taken[0])[:2] == [3, 7]
    assert not [frame for frame in taken[0] if frame.kind == "gap"]


FAILING = [
    "error('boom')",
    "error('boom', 0)",
    "error({code = 1})",
    "error(nil)",
    "local a = nil + 1",
    "local t = setmetatable({}, {__tostring = function() return 'told' end}) error(t)",
    "coroutine.wrap(function() error('inside') end)()",
    "coroutine.resume(1)",
    "return (function() return error('tail') end)()",
    "string.rep()",
    "xpcall(error, debug.traceback) error(select(2, xpcall(error, debug.traceback, 'x')))",
    "error(debug.traceback('text', 1))",
    "error(debug.traceback(coroutine.create(print)))",
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("source", FAILING)
def test_the_text_stays(version: str, source: str) -> None:
    """That of a runtime that is attached, of one that is not, and of one that was."""
    texts = []
    for steps in ("", "attach", "attach detach"):
        runtime = module(version).LuaRuntime()
        handle = attach(runtime) if steps else None
        if steps == "attach detach":
            _stacksplice._lua_detach(handle)
        with pytest.raises(Exception) as caught:
            runtime.execute(f"local function f()\n{source}\nend\nf()")
        texts.append((type(caught.value), str(caught.value).partition("0x")[0]))
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("version", VERSIONS)
def test_detaching_puts_all_back(version: str) -> None:
    runtime = module(version).LuaRuntime()
    source = "tostring(debug.traceback) .. tostring(coroutine.wrap) .. tostring(coroutine.resume)"
    before = runtime.eval(source)
    first = attach(runtime)
    second = attach(runtime)
    assert runtime.eval(source) != before and not _stacksplice._lua_is_closed(first)
    _stacksplice._lua_detach(first)
    assert runtime.eval(source) == before and _stacksplice._lua_is_closed(second)
    runtime.execute("mine = function() return 'mine' end debug.traceback = mine")
    third = attach(runtime)
    runtime.execute("debug.traceback = mine")
    _stacksplice._lua_detach(third)
    assert runtime.eval("debug.traceback == mine")


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_shows_in_scripts(version: str) -> None:
    runtime = module(version).LuaRuntime()
    names = (
        "local n = {} for k in pairs(%s) do n[#n + 1] = tostring(k) end table.sort(n) return table.concat(n)"
    )
    tables = ["_G", "package.loaded", "debug", "coroutine"]
    before = [runtime.execute(names % table) for table in tables]
    handle = attach(runtime)
    assert [runtime.execute(names % table) for table in tables] == before
    _stacksplice._lua_detach(handle)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_closed_state(version: str) -> None:
    """The handle does not keep the state, and outlives it."""
    runtime = module(version).LuaRuntime()
    handle = attach(runtime)
    del runtime
    assert _stacksplice._lua_is_closed(handle)
    _stacksplice._lua_detach(handle)


def test_all_versions_at_once() -> None:
    runtimes = [module(version).LuaRuntime() for version in VERSIONS]
    for runtime in runtimes:
        attach(runtime)
        runtime.execute(NESTED)
    taken: list = []

    def innermost() -> None:
        taken.append(stacksplice.capture())

    function = innermost
    for runtime in runtimes:
        function = (lambda inner, outer: lambda: outer.globals().price(inner))(function, runtime)
    function()
    assert lua_lines(taken[0]) == [3, 7] * 3


def another_copy(folder: Path) -> types.ModuleType:
    """lupa's Lua 5.4 again, in a file of its own."""
    original = Path(module("lua54").__file__)
    package = folder / "lupa_again"
    package.mkdir()
    for name in ("version.py", original.name):
        shutil.copy2(original.parent / name, package / name)
    (package / "__init__.py").touch()
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("lupa_again.lua54")
    finally:
        sys.path.remove(str(folder))


def test_two_copies_of_one_version(tmp_path: Path) -> None:
    again = another_copy(tmp_path)
    first, second = module("lua54").LuaRuntime(), again.LuaRuntime()
    for runtime, file in ((first, module("lua54").__file__), (second, again.__file__)):
        attach(runtime, file)
        runtime.execute(NESTED)
    taken: list = []

    def rate() -> None:
        taken.append(stacksplice.capture())

    first.globals().price(lambda: second.globals().price(rate))
    assert lua_lines(taken[0]) == [3, 7, 3, 7]
    text = str(taken[0])
    assert "proc/self/fd" not in text and "libstacksplice-lua" not in text, text


def test_what_is_refused() -> None:
    for version, name in (("lua51", "Lua 5.1"), ("lua52", "Lua 5.2"), ("luajit21", "LuaJIT")):
        try:
            other = importlib.import_module(f"lupa.{version}")
        except ImportError:
            continue
        with pytest.raises(ValueError, match=rf"{name} in .*{version}.* is not supported"):
            _stacksplice._lua_attach(1, other.__file__)
    with pytest.raises(OSError, match="/nowhere is not loaded"):
        _stacksplice._lua_attach(1, "/nowhere")
    with pytest.raises(OSError, match="exports no functions of Lua"):
        _stacksplice._lua_attach(1, _stacksplice.__file__)
    with pytest.raises(OSError, match="this program exports no functions of Lua"):
        _stacksplice._lua_attach(1, None)


def test_a_coroutine_that_is_suspended(lua) -> None:
    suspended = lua.eval(
        "(function() co = coroutine.create(coroutine.yield) coroutine.resume(co) return tostring(co) end)()"
    )
    file = sys.modules[type(lua).__module__].__file__
    with pytest.raises(RuntimeError, match="suspended"):
        _stacksplice._lua_attach(int(suspended.split()[-1], 16), file)


def test_the_package_has_an_object_for_each_version() -> None:
    folder = Path(_stacksplice.__file__).parent
    assert sorted(file.name for file in folder.glob("libstacksplice-lua*.so.0")) == [
        f"libstacksplice-{version}.so.0" for version in VERSIONS
    ]


SHARED_LUA = """
import ctypes, sys
lua = ctypes.PyDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
import stacksplice
from stacksplice import _stacksplice
for name, result in ("luaL_newstate", ctypes.c_void_p), ("lua_tolstring", ctypes.c_char_p):
    getattr(lua, name).restype = result
taken = []

def capture(*_):
    taken.append(stacksplice.capture())
    return 0

function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(capture)

def run(L, source):
    failed = lua.luaL_loadstring(L, source) or lua.lua_pcallk(L, 0, -1, 0, ctypes.c_void_p(), None)
    assert not failed, lua.lua_tolstring(L, -1, None)

def lines(stack):
    return [frame.line for frame in stack if (frame.kind, frame.language) == ("script", "lua")]

def memory_copies():
    with open("/proc/self/maps") as maps:
        return sum("memfd:stacksplice-lua" in line for line in maps)
"""
OWN_STATE = """
L = ctypes.c_void_p(lua.luaL_newstate())
lua.luaL_openlibs(L)
lua.lua_pushcclosure(L, function, 0)
lua.lua_setglobal(L, b"capture")
handle = _stacksplice._lua_attach(L.value, where)
run(L, b"local function f()\\n\\ncapture()\\nend\\nf()")
assert lines(taken.pop()) == [3, 5]
"""


@pytest.fixture
def shared_lua() -> str:
    name = ctypes.util.find_library("lua5.4")
    return name or pytest.skip("there is no shared library of Lua 5.4")


@pytest.mark.parametrize("where", ["None", "sys.argv[1]"])
def test_a_lua_of_the_program(child: Child, shared_lua: str, where: str) -> None:
    """Found in the global scope, or by its file; a closed state is closed."""
    child(
        SHARED_LUA
        + f"where = {where}"
        + OWN_STATE
        + "lua.lua_close(L)\nassert _stacksplice._lua_is_closed(handle)",
        shared_lua,
    )


def test_a_file_that_calls_another_lua_than_its_own(child: Child, shared_lua: str) -> None:
    """With a Lua in the global scope the loader binds lupa's calls to that one."""
    file = module("lua54").__file__
    done = child(
        SHARED_LUA
        + f"where = {file!r}\nfrom lupa import lua54\n"
        + "runtime = lua54.LuaRuntime()\n"
        + OWN_STATE
        + "handle = _stacksplice._lua_attach(L.value, None)\nprint(memory_copies())",
        shared_lua,
    )
    assert done.stdout == "0\n"


def test_two_mappings_for_two_copies(child: Child, shared_lua: str) -> None:
    """The Lua of the program, loaded after lupa has bound its calls, is another copy."""
    file = module("lua54").__file__
    done = child(
        "from lupa import lua54\nruntime = lua54.LuaRuntime()\n"
        + SHARED_LUA
        + "address = int(runtime.eval('tostring(coroutine.running())').split()[-1], 16)\n"
        + f"keep = _stacksplice._lua_attach(address, {file!r})\nassert memory_copies() == 0\n"
        + "where = None"
        + OWN_STATE
        + "print(memory_copies() > 0)",
        shared_lua,
    )
    assert done.stdout == "True\n"
