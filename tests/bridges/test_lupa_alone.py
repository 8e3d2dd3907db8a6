"""lupa: a Lua of its own inside an extension module."""

from __future__ import annotations

import os
import re
import signal
import subprocess
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
gap += os.path.basename(lua54.__file__) + '; Lua 5.1 to 5.5 and LuaJIT: require "stacksplice" in it, lupa: '
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


def test_a_crash_says_that_nobody_reads_a_lua(tmp_path) -> None:
    program = """
import ctypes, os, sys, stacksplice
from lupa import lua54
core = ctypes.CDLL(os.path.join(os.path.dirname(stacksplice.__file__), "libstacksplice.so.0"))
core.stacksplice_install_crash_handler(None)
lua = lua54.LuaRuntime()
lua.globals().crash = lambda: ctypes.string_at(8)
lua.execute("local function f() crash() return 1 end local x = f() return x")
"""
    environment = {**os.environ, "STACKSPLICE_REPORT_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr
    order = ("in <lambda>", "[gap: Lua frames unknown: stacksplice is not loaded in lua54", "in <module>")
    assert re.search(".*\n.*".join(map(re.escape, order)), done.stderr), done.stderr
