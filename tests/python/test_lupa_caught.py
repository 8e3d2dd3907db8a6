"""install(lua_pcall=True): what a script under lupa caught and raises again has its first place."""

from __future__ import annotations

from collections.abc import Iterator

import lupa_runtimes
import pytest
import stacksplice
from lupa_runtimes import runtime_of
from raising import caught

lua = lupa_runtimes.lua
SEAM = "caught by pcall here, raised again"
SCRIPT = """
function deep(value) local result = error(value, 0) return result end
function again() local ok, e = pcall(deep, "no price") if not ok then error(e, 0) end end
function handled()
  local ok, e = xpcall(function() local r = deep("no price") return r end, debug.traceback)
  if not ok then error(e, 0) end
end
function equal() local ok, e = pcall(deep, "no price") if not ok then error("no price", 0) end return e end
function around() local ok, e = pcall(deep, "no price") if not ok then error("cannot: " .. e, 0) end end
function is_original() return pcall == original, xpcall == original_xpcall end
"""


@pytest.fixture
def installed() -> Iterator[None]:
    stacksplice.install(lua_pcall=True)
    yield
    stacksplice.uninstall()


def shop(lua):
    runtime = lua.LuaRuntime()
    if "jit" in lua.__name__:
        pytest.skip("LuaJIT keeps its own pcall")
    runtime.execute(SCRIPT, name="@shop")
    return runtime.globals()


def lines(exc: BaseException) -> list[object]:
    """The lines of the script, and the seam."""
    info = stacksplice.error_info(exc)
    assert info is not None
    found = [SEAM if f.reason == SEAM else f.line if f.file == "shop" else None for f in info.stack]
    return [each for each in found if each is not None]


def test_an_error_that_is_raised_again_has_its_first_place(lua, installed) -> None:
    exc = caught(shop(lua).again)
    assert lines(exc) == [2, SEAM, 3]
    assert "no price" in str(exc)


def test_a_handler_that_made_a_traceback_leaves_one_message(lua, installed) -> None:
    exc = caught(shop(lua).handled)
    assert lines(exc) == [2, 5, SEAM, 6]
    assert stacksplice.error_info(exc).message == "no price"


def test_an_error_with_the_old_text_in_its_own_has_the_old_one_as_its_context(lua, installed) -> None:
    info = stacksplice.error_info(caught(shop(lua).around))
    assert info.message == "cannot: no price"
    assert info.context is not None and info.context.message == "no price"


def test_an_equal_text_is_another_error(lua, installed) -> None:
    assert SEAM not in lines(caught(shop(lua).equal))


def test_runtimes_that_exist_get_it_and_lose_it(lua) -> None:
    runtime = runtime_of(lua)
    runtime.execute("original, original_xpcall = pcall, xpcall")
    runtime.execute(SCRIPT, name="@shop")
    is_original = runtime.globals().is_original
    replaced = (True, True) if "jit" in lua.__name__ else (False, False)
    stacksplice.install()
    assert is_original() == (True, True)
    try:
        stacksplice.install(lua_pcall=True)
        assert is_original() == replaced
        stacksplice.install(lua_pcall=True)  # again: one uninstall() undoes it
        assert is_original() == replaced
        assert stacksplice.detach(runtime)
        assert is_original() == (True, True)
        stacksplice.install()  # does not take it back
        assert is_original() == replaced
    finally:
        stacksplice.uninstall()
    assert is_original() == (True, True)
    stacksplice.install()
    try:
        assert is_original() == (True, True)
        assert lua.LuaRuntime().eval("pcall ~= nil")
    finally:
        stacksplice.uninstall()


def test_exceptions_of_python_pass_as_before(lua, installed) -> None:
    runtime = lua.LuaRuntime()
    mine = KeyError("XXX")

    def rate():
        raise mine

    runtime.globals().rate = rate
    assert runtime.eval("pcall(rate)") == (False, mine)
    assert runtime.eval("xpcall(rate, function(e) return e end)") == (False, mine)
    assert caught(runtime.execute, "local ok, e = pcall(rate) error(e, 0)") is mine
    assert caught(runtime.execute, "local ok, e = xpcall(rate, function(e) return e end) error(e)") is mine


def test_a_runtime_with_a_limit_of_memory_keeps_within_it(lua, installed) -> None:
    if "jit" in lua.__name__:
        pytest.skip("LuaJIT keeps its own pcall")
    runtime = lua.LuaRuntime(max_memory=400_000)
    runtime.execute(SCRIPT, name="@shop")
    for _ in range(200):
        assert isinstance(caught(runtime.globals().again), lua.LuaError)
    assert (
        type(caught(runtime.execute, "local t = {} while true do t[#t + 1] = {} end")) is lua.LuaMemoryError
    )
