"""Runtimes of each version of Lua, attached by hand."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
import stacksplice
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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_closed_state(version: str) -> None:
    """Attaching does not keep the state."""
    runtime = module(version).LuaRuntime()
    key = id(runtime)
    stacksplice.attach(runtime)
    assert _stacksplice._lupa_attached(key)
    del runtime
    gc.collect()
    assert not _stacksplice._lupa_attached(key)


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
    assert lua_lines(taken[0]) == [3, 7] * 3
