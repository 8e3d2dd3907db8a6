"""Runtimes of lupa end as without us: none is kept alive, and none leaves memory behind."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import lupa_runtimes
import pytest
import stacksplice
from building import HERE, TESTS, ran
from raising import caught

lua = lupa_runtimes.lua
SOURCE = """
function price(currency) local found = rate(currency) return found end
function fails() error("no price") end
function wrapped()
  local resume = coroutine.wrap(function() return price("XXX") end)
  local found = resume()
  return found
end
function generate() coroutine.yield(1) fails() end
"""


def use_one(lua, kept: list[BaseException] | None = None) -> weakref.ref:
    """Make a runtime that fails in each way, also with a coroutine that has not ended."""

    class Runtime(lua.LuaRuntime):  # lupa's own takes no weak references
        pass

    runtime = Runtime()
    functions = runtime.globals()
    functions.rate = {"EUR": 1.0}.__getitem__
    runtime.execute(SOURCE)
    errors = [caught(functions.price, "XXX"), caught(functions.fails), caught(functions.wrapped)]
    coroutine, half = functions.generate.coroutine(), functions.generate.coroutine()
    assert next(coroutine) == next(half) == 1
    errors.append(caught(next, coroutine))
    assert all(stacksplice.error_info(exc) is not None for exc in errors)
    if kept is not None:
        for exc in errors:
            exc.__traceback__ = None  # its frames have the runtime
        kept += errors
    return weakref.ref(runtime)


def alive(references: list[weakref.ref]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in references)


def test_none_is_kept(lua) -> None:
    assert alive([use_one(lua) for _ in range(50)]) == 0


def test_none_is_kept_by_exceptions(lua) -> None:
    kept: list[BaseException] = []
    assert alive([use_one(lua, kept) for _ in range(20)]) == 0
    assert "price" in "".join(stacksplice.format_exception(kept[0]))


GROWTH = """
import gc, importlib, sys
sys.path.insert(0, sys.argv[2])
import stacksplice
stacksplice.install()
from test_lupa_lifetimes import use_one
lua = importlib.import_module("lupa." + sys.argv[1])

def resident_after(count):
    for done in range(count):
        use_one(lua)
        if done % 50 == 0:
            gc.collect()  # otherwise the heap is as large as the most that was garbage at a time
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

before = resident_after(1000)
print((resident_after(2000) - before) // 2000)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)
def test_memory_stays(name: str) -> None:
    """What each of 2000 runtimes leaves behind, in bytes; a state of Lua has 20,000."""
    paths = [str(Path(stacksplice.__file__).resolve().parents[1]), str(HERE), str(TESTS)]
    source = f"import sys; sys.path[:0] = {paths}\n{GROWTH}"
    done = ran(sys.executable, "-c", source, name, Path(__file__).parent, timeout=300)
    assert int(done.stdout) < 200


# Lua 5.1 to 5.3 and LuaJIT raise where C has no call left for a finalizer that is due.
FULL = """
local failures = {}
local function call()
  pcall(call)
  local done, why = pcall(collectgarbage)
  if not done then failures[#failures + 1] = why end
end
call()
return table.concat(failures, "\\n")
"""


def test_attaching_leaves_nothing_to_finalize(lua) -> None:
    """lupa calls Lua with the interpreter locked, and an error of a finalizer would leave it locked."""
    stacksplice.uninstall()
    untouched, runtime = lua.LuaRuntime(), lua.LuaRuntime()
    stacksplice.attach(runtime)
    assert runtime.execute(FULL) == untouched.execute(FULL)
