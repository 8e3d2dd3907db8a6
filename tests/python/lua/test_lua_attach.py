"""Runtimes of each version of Lua, attached by hand."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import stacksplice
from building import HERE, ROOT, Child
from frame_oracle import chain
from lupa_runtimes import NESTED, VERSIONS, lua_lines, module
from stacksplice import _stacksplice


def script_frames(stack: stacksplice.Stack) -> list[stacksplice.Frame]:
    return [frame for frame in stack if frame.kind == "script"]


def python_lines(stack) -> list[tuple[str, str, int]]:
    return [
        (frame.file, frame.function, frame.line)
        for frame in stack
        if (frame.kind, frame.language) == ("script", "python")
    ]


@pytest.fixture(params=VERSIONS)
def lua(request) -> Iterator:
    runtime = module(request.param).LuaRuntime()
    stacksplice.attach(runtime)
    runtime.execute(NESTED)
    yield runtime
    stacksplice.detach(runtime)


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
    assert [frame.function for frame in stack if frame.language == "lua"] == ["convert", "price"]


@pytest.mark.parametrize("version", VERSIONS)
def test_detaching_puts_all_back(version: str) -> None:
    runtime = module(version).LuaRuntime()
    source = "tostring(debug.traceback) .. tostring(coroutine.wrap) .. tostring(coroutine.resume)"
    before = runtime.eval(source)
    stacksplice.attach(runtime)
    assert runtime.eval(source) != before
    assert stacksplice.detach(runtime) and not stacksplice.detach(runtime)
    assert runtime.eval(source) == before
    runtime.execute("mine = function() return 'mine' end debug.traceback = mine")
    stacksplice.attach(runtime)
    runtime.execute("debug.traceback = mine")
    stacksplice.detach(runtime)
    assert runtime.eval("debug.traceback == mine")


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_shows_in_scripts(version: str) -> None:
    runtime = module(version).LuaRuntime()
    names = (
        "local n = {} for k in pairs(%s) do n[#n + 1] = tostring(k) end table.sort(n) return table.concat(n)"
    )
    tables = ["_G", "package.loaded", "debug", "coroutine"]
    before = [runtime.execute(names % table) for table in tables]
    stacksplice.attach(runtime)
    assert [runtime.execute(names % table) for table in tables] == before


def test_all_versions_at_once() -> None:
    runtimes = [module(version).LuaRuntime() for version in VERSIONS]
    for runtime in runtimes:
        stacksplice.attach(runtime)
        runtime.execute(NESTED)
    taken: list = []

    def innermost() -> None:
        taken.append(stacksplice.capture())

    function = innermost
    for runtime in runtimes:
        function = (lambda inner, outer: lambda: outer.globals().price(inner))(function, runtime)
    function()
    assert lua_lines(taken[0]) == [3, 7] * len(VERSIONS)


# ---- Copies of Lua -------------------------------------------------------------------------------


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


def attach_state(address: int, library: str, coroutine: object = None) -> None:
    """What attach() does, for a state at that address; the key stands for a runtime."""
    _stacksplice._lupa_attach(address, address, coroutine, library, {}, None)


def test_two_copies_of_one_version(tmp_path: Path) -> None:
    again = another_copy(tmp_path)
    first, second = module("lua54").LuaRuntime(), again.LuaRuntime()
    for runtime, file in ((first, module("lua54").__file__), (second, again.__file__)):
        bearer = runtime.compile("local f = ... return function() f() end")(_stacksplice._lupa_late)
        coroutine = bearer.coroutine()
        attach_state(int(runtime.eval("tostring")(coroutine).split()[-1], 16), file, coroutine)
        runtime.execute(NESTED)
    taken: list = []

    def rate() -> None:
        taken.append(stacksplice.capture())

    first.globals().price(lambda: second.globals().price(rate))
    assert lua_lines(taken[0]) == [3, 7, 3, 7]
    text = str(taken[0])
    assert "proc/self/fd" not in text and "libstacksplice-lua" not in text, text


def test_what_is_refused() -> None:
    with pytest.raises(OSError, match="/nowhere is not loaded"):
        attach_state(1, "/nowhere")
    with pytest.raises(OSError, match="exports no functions of Lua"):
        attach_state(1, _stacksplice.__file__)


LOADED = "import ctypes, sys\nctypes.PyDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
ATTACHED = f"""
import stacksplice
from lupa import lua54
runtime, taken = lua54.LuaRuntime(), []
stacksplice.attach(runtime)
runtime.execute({NESTED!r})
"""
CAPTURED = """
runtime.globals().price(lambda: taken.append(stacksplice.capture()))
lines = [frame.line for frame in taken[0] if (frame.kind, frame.language) == ("script", "lua")]
assert lines == [3, 7], taken
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lua_of_the_program(child: Child, when: str) -> None:
    """The loader binds lupa's calls to a Lua that is in the global scope before it."""
    library = ctypes.util.find_library("lua5.4")
    if not library:
        pytest.skip("there is no shared library of Lua 5.4")
    module("lua54")
    parts = LOADED + ATTACHED if when == "before" else ATTACHED + LOADED
    child(parts + CAPTURED, library)


def lua_source() -> Path:
    folders = sorted((ROOT / "build" / "interpreters").glob("lua5.4-source/src"))
    return folders[0] if folders else pytest.skip("there is no source of Lua 5.4")


@pytest.mark.long
@pytest.mark.any_python
@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("LUAI_MAXSTACK", "1200000", "another LUAI_MAXSTACK"),
        ("LUA_IDSIZE", "200", "another LUA_IDSIZE"),
        ("LUA_32BITS", "1", "this version of Lua"),
    ],
)
def test_a_lua_that_was_built_otherwise(
    child: Child, tmp_path: Path, name: str, value: str, reason: str
) -> None:
    """Its structures are not those that we were compiled with: it is refused, every time."""
    source = shutil.copytree(lua_source(), tmp_path / "lua")
    luaconf = source / "luaconf.h"
    text, count = re.subn(rf"(#define {name}\s+)\d+", rf"\g<1>{value}", luaconf.read_text())
    luaconf.write_text(text)
    assert count
    files = [file for file in sorted(source.glob("*.c")) if file.name not in ("lua.c", "luac.c", "onelua.c")]
    library = tmp_path / "liblua.so"
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O0", "-shared", "-fPIC", "-DLUA_USE_POSIX"]
    subprocess.run([*command, *map(str, files), "-o", str(library), "-lm"], check=True, capture_output=True)
    refused = f"""
import ctypes, sys
keep = ctypes.CDLL(sys.argv[1])
from stacksplice import _stacksplice
for _ in range(2):
    try:
        _stacksplice._lupa_attach(1, 1, None, sys.argv[1], {{}}, None)
    except (OSError, ValueError) as error:
        assert {reason!r} in str(error), error
    else:
        raise AssertionError("it was not refused")
"""
    child(refused, str(library))


def test_the_objects_need_no_lua(child: Child) -> None:
    """Everything of Lua is found by name later: nothing is left to the dynamic loader."""
    files = [str(file) for file in Path(_stacksplice.__file__).parent.glob("libstacksplice-lua*.so.0")]
    child("import ctypes, os, sys\nfor file in sys.argv[1:]: ctypes.CDLL(file, os.RTLD_NOW)", *files)


def test_threads_that_attach_first(child: Child) -> None:
    """Of all versions at the same time, and then a child process that was forked."""
    source = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
import stacksplice
from lupa_runtimes import NESTED, VERSIONS, lua_lines, module

start = threading.Barrier(2 * len(VERSIONS))
seen, keep = [], []

def work(version):
    lua = module(version).LuaRuntime()
    keep.append(lua)
    start.wait()
    stacksplice.attach(lua)
    lua.execute(NESTED)
    for _ in range(50):
        lua.globals().price(lambda: seen.append(lua_lines(stacksplice.capture())))

threads = [threading.Thread(target=work, args=(version,)) for version in VERSIONS * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert seen == [[3, 7]] * 50 * len(threads), seen[:10]
forked = os.fork()
seen.clear()
for lua in keep:
    lua.globals().price(lambda: seen.append(lua_lines(stacksplice.capture())))
assert seen == [[3, 7]] * len(keep)
if not forked: os._exit(0)
assert os.waitpid(forked, 0)[1] == 0
"""
    for version in VERSIONS:
        module(version)
    child(source, str(HERE))
