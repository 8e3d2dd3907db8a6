"""install(lua_pcall=True): what a script under lupa caught and raises again has its first place."""

from __future__ import annotations

import sys
import traceback
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


# ---- Exceptions of Python ---------------------------------------------------------------------------

# Line 2 calls Python, line 3 raises.
PRICES = """function price(f)
  local ok, e = pcall(f)
  if not ok then error("cannot price: " .. tostring(e), 0) end
end
function again(f)
  local ok, e = pcall(f)
  if not ok then error(e, 0) end
end
function direct(f) local result = f() return result end
function swallow(f) return (pcall(f)) end
function unrelated(f) local ok, e = pcall(f) error("something else") return e end
function set(f) local ok, e = pcall(f) e = nil error("'XXX'", 0) return ok, e end
function newest(f)
  local ok, e = pcall(f)
  local fine, other = pcall(error, "second " .. tostring(e), 0)
  if not fine then error("third " .. other, 0) end
  return ok
end
function traced()
  local body = coroutine.wrap(function() local nothing = nil; local field = nothing.field; return field end)
  local ok, text = xpcall(body, debug.traceback)
  return text
end
"""


def prices(lua, *, keeps: bool = True):
    if keeps and "jit" in lua.__name__:
        pytest.skip("LuaJIT keeps its own pcall")
    runtime = lua.LuaRuntime()
    runtime.execute(PRICES, name="@prices")
    return runtime.globals()


def test_an_error_around_an_exception_has_it_as_its_context(lua, installed) -> None:
    def rate():
        raise KeyError("XXX")

    exc = caught(prices(lua).price, rate)
    assert str(exc).startswith("cannot price: 'XXX'")
    assert isinstance(exc.__context__, KeyError)
    assert not exc.__suppress_context__
    names = [frame.name for frame in traceback.extract_tb(exc.__context__.__traceback__)]
    assert names[-1] == "rate"
    info = stacksplice.error_info(exc)
    assert info.context.message == "'XXX'"
    assert any(note.startswith("inferred:") for note in info.context.notes)
    assert [f.line for f in info.context.stack if f.file == "prices"] == [2]
    text = "".join(stacksplice.format_exception(exc))
    assert text.index("KeyError: 'XXX'") < text.index("During handling") < text.index("cannot price")


def test_it_says_so_once_of_an_exception_that_led_to_two(lua, installed) -> None:
    mine = KeyError("XXX")

    def rate():
        raise mine

    shop = prices(lua)
    for _ in range(2):
        exc = caught(shop.price, rate)
        assert exc.__context__ is mine
        assert len(stacksplice.error_info(mine).notes) == 1


@pytest.mark.parametrize("name", ["unrelated", "set"])
def test_it_has_none_where_nothing_shows_that_it_came_from_it(lua, installed, name) -> None:
    def rate():
        raise KeyError("XXX")

    exc = caught(prices(lua)[name], rate)
    assert exc.__context__ is None
    assert stacksplice.error_info(exc).context is None


def test_the_newest_error_whose_text_it_has_is_its_context(lua, installed) -> None:
    def rate():
        raise KeyError("XXX")

    info = stacksplice.error_info(caught(prices(lua).newest, rate))
    assert info.message == "third second 'XXX'"
    assert info.context.message == "second 'XXX'"


def test_an_exception_that_cannot_be_shown_is_no_context(lua, installed) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def rate():
        raise Silent

    assert caught(prices(lua).unrelated, rate).__context__ is None


def test_an_exception_that_is_raised_again_has_both_lines(lua, installed) -> None:
    def rate():
        raise KeyError("XXX")

    exc = caught(prices(lua).again, rate)
    assert isinstance(exc, KeyError)
    stack = stacksplice.error_info(exc).stack
    assert [f.line for f in stack if f.file == "prices"] == [6, 7]
    shown = [f for f in traceback.extract_tb(exc.__traceback__) if "prices" in f.filename]
    assert [f.lineno for f in shown] == [7, 6]


def test_one_that_is_raised_anew_has_the_lines_of_that(lua, installed) -> None:
    mine = KeyError("XXX")

    def rate():
        raise mine

    shop = prices(lua)
    assert shop.swallow(rate) is False
    if sys.version_info >= (3, 12):  # where Python tells of the first raise alone
        mine = KeyError("XXX")
    exc = caught(shop.direct, rate)
    assert [f.line for f in stacksplice.error_info(exc).stack if f.file == "prices"] == [9]


def test_a_traceback_of_a_script_begins_with_the_coroutine_that_ended(lua, installed) -> None:
    text = prices(lua, keeps=False).traced()
    lines = text.split("\n")
    assert lines[1] == "stack traceback:"
    assert "prices" in lines[2] and "in function <prices:" in lines[2]
    assert "the coroutine ended here" in lines[3]


def test_the_text_of_a_lua_error_stays_that_of_lupa(lua) -> None:
    code = "function fails() error('no price', 0) end function outer() fails() return 1 end"

    def text() -> str:
        runtime = lua.LuaRuntime()
        runtime.execute(code, name="@prices")
        return str(caught(runtime.globals().outer))

    plain = text()
    stacksplice.install(lua_pcall=True)
    try:
        assert text() == plain
    finally:
        stacksplice.uninstall()
