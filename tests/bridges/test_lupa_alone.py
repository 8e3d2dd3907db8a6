"""lupa: a Lua of its own inside an extension module."""

from __future__ import annotations

import sys

import pytest
from bridging import LUA_MODULES, Run

pytest.importorskip("lupa", reason="lupa is not installed")

BEGIN = """
import ctypes, os, sys, stacksplice
from lupa import lua54
from seen import *
modules = sys.argv[1]

def make(visible=True):
    lua = lua54.LuaRuntime(unpack_returned_tuples=True)
    lua.execute(f'package.cpath = "{modules}/?.so;" .. package.cpath')
    return lua

NESTED = '''
local function inner() %s end
local function outer() inner() return 1 end
local result = outer()
return result
'''
IN_LUA = NESTED % "error('born in Lua')"
IN_PYTHON = NESTED % "pyfail()"
TABLE = NESTED % "error({code = 7})"

def caught(lua, source):
    try:
        lua.execute(source)
    except Exception as exc:
        return exc
    raise AssertionError("no error")
"""
# lupa loads its Lua where C modules do not find it, unless it is told to.
VISIBLE = "ctypes.CDLL(lua54.__file__, mode=os.RTLD_NOW | os.RTLD_GLOBAL)\n"
INSTALL = "lua.execute('stacksplice = require \"stacksplice\"; uninstall = stacksplice.install()')\n"
READ = VISIBLE + "lua = make()\n" + INSTALL


@pytest.fixture
def run(run: Run) -> Run:
    return lambda source: run(BEGIN + source, str(LUA_MODULES))


def check_module() -> None:
    if not (LUA_MODULES / "stacksplice.so").exists():
        pytest.skip(f"there is no Lua module in {LUA_MODULES}")


def test_the_module_needs_visible_symbols(run: Run) -> None:
    """Without them Lua says which symbol is missing, as for every C module."""
    check_module()
    run(
        """
lua = make()
try:
    lua.execute('require "stacksplice"')
except lua54.LuaError as error:
    assert "undefined symbol: lua" in str(error), error
else:
    raise AssertionError("this lupa shows its Lua: the guide may say so")
"""
        + VISIBLE
        + """
assert make().execute('return require("stacksplice")._VERSION').startswith("stacksplice ")
"""
    )


def test_what_lupa_does_stays(run: Run) -> None:
    """Types, identity, first line, cause, and results, with and without the module and the hooks."""
    check_module()
    run(
        VISIBLE
        + """
def facts(lua):
    lua.globals().pyfail = fail
    in_lua, in_python, table = (caught(lua, source) for source in (IN_LUA, IN_PYTHON, TABLE))
    mine = ValueError("mine")
    def raise_mine():
        raise mine
    lua.globals().pyfail = raise_mine
    return [
        type(in_lua), str(in_lua).partition("\\n")[0], "stack traceback:" in str(in_lua),
        in_lua.__cause__, in_lua.__context__,
        type(in_python), str(in_python), in_python.__cause__,
        type(table), str(table), caught(lua, IN_PYTHON) is mine,
        lua.execute("return 1, 'two', nil"), lua.eval("pcall(error, 'x')"),
        lua.execute("return select(2, pcall(error, {7}))")[1],
        # A Python error that Lua catches is lupa's own userdata.
        str(lua.execute("local ok, e = pcall(pyfail); return tostring(e)")),
    ]

lua = make()
before = facts(lua)
"""
        + INSTALL
        + """
stacksplice.install()
assert facts(lua) == before, (before, facts(lua))
if sys.version_info >= (3, 12):
    stacksplice.install(capture_at_raise=True)
    assert facts(lua) == before
assert stacksplice.peek_error() is None
lua.execute("uninstall()")
assert facts(lua) == before
"""
    )


def test_a_lua_error_is_complete_with_our_traceback(run: Run) -> None:
    """lupa's message handler is debug.traceback: the text has all frames of both languages."""
    check_module()
    run(
        READ
        + """
def python_between(function):
    return function()

lua.globals().between = python_between
def run_it():
    return caught(lua, "local function inner() error('born in Lua') end\\n"
        "local function outer() between(inner) return 1 end\\nlocal x = outer() return x")
text = str(run_it())
at = -1
for word in ("'error'", "]:1: in function <", "python function 'python_between'", "'outer'", "main chunk",
             "python function 'caught'", "python function 'run_it'"):
    found = text.find(word, at + 1)
    assert found > at, f"no {word} behind {at} in {text}"
    at = found
"""
    )


def test_a_lua_error_without_it_has_the_text_and_a_gap(run: Run) -> None:
    run("""
lua = make()
def run_it():
    return caught(lua, IN_LUA)
exc = run_it()
info = stacksplice.originate(exc)
told = scripts(info.stack)
in_order(told, "python caught", GAP_RETURNED, "python <module>")
assert "born in Lua" in info.message and "'inner'" in info.message, info.message
""")


def test_a_lua_that_nobody_reads_is_said_to_be_there(run: Run) -> None:
    """Only the Python package is loaded: Lua's frames are not known, and its file is named."""
    run("""
lua, told, info = make(), [], None
def look():
    global info
    told.extend(scripts(stacksplice.capture()))
    info = stacksplice.originate(ValueError("on the way"))

def run_it():
    lua.globals().look = look
    lua.execute("local function f() look() return 1 end local x = f() return x")
    return 1

run_it()
gap = '[Lua frames unknown: stacksplice is not loaded in '
gap += os.path.basename(lua54.__file__) + '; Lua 5.3 to 5.5: require "stacksplice" in it, lupa: '
gap += 'stacksplice.install(), others: not supported]'
for each in (told, scripts(info.stack)):
    in_order(each, "python look", gap, "python run_it")
    assert each.count(gap) == 1, each
assert info.format().count(gap.replace("[", "[gap: ")) == 1, info.format()
assert info.to_json().count("Lua frames unknown") == 1

lua.execute('''local function f() look() return 1 end
local function g() pcall(f) return 1 end
coroutine.wrap(function() g() return 1 end)()''')
assert scripts(info.stack).count(gap) == 3, info.stack  # once for each call into Lua
lua.eval("setmetatable({}, {__index = function() look() end})")["x"]
assert scripts(info.stack).count(gap) == 2, info.stack  # lupa calls lua_gettable below lua_pcall
""")


def test_a_lua_that_is_read_is_not_said_to_be_unknown(run: Run) -> None:
    check_module()
    run(
        READ
        + """
told = []
lua.globals().look = lambda: told.extend(scripts(stacksplice.capture()))
lua.execute("local function f() look() return 1 end local x = f() return x")
in_order(told, "lua f", "lua main chunk", "python <module>")
assert not any("unknown" in line for line in told), told
"""
    )


def test_a_python_error_has_its_traceback_and_a_gap(run: Run) -> None:
    """Without captures at the raise (all there is on 3.11), what lay between is said to be unknown."""
    run("""
lua = make()
lua.globals().pyfail = fail
told = story(caught(lua, IN_PYTHON))
in_order(told, "python fail", "python caught", GAP_RETURNED, "python <module>")
assert not any(line.startswith("lua ") for line in told), told
""")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")
def test_a_python_error_is_complete_when_captured_at_its_raise(run: Run) -> None:
    check_module()
    run(
        READ
        + """
stacksplice.install(capture_at_raise=True)
lua.globals().pyfail = fail
told = story(caught(lua, IN_PYTHON))
in_order(told, "python fail", "lua inner", "lua outer", "python caught", "python <module>")
"""
    )
