"""Fails on purpose: lupa_program.py LUA CASE.  At the raise it prints what it sees of its stack.

That is a line of JSON, innermost first: [FILE, LINE] for what sys._getframe and debug.getinfo show.
The two are merged at the functions that Lua calls.
"""

import importlib
import json
import os
import sys
import threading

RULES = """
local function levels(first)
  local found = ""
  for level = first, 100 do
    local info = debug.getinfo(level, "Sl")
    if not info then return found end
    found = found .. (info.what == "C" and "C" or info.currentline) .. " "
  end
end
local behind, resumer -- the lines outside of a coroutine: in every Lua only its resumer can see them
function note()
  behind, resumer = levels(3), coroutine.running()
end
function look()
  return levels(3) .. (coroutine.running() ~= resumer and behind or "")
end
function price(currency)
  local total = convert(currency)
  return total
end
function convert(currency)
  local found = rate(currency)
  return found
end
function fails(text)
  error(tell(look()) or text)
end
function outer()
  local result = middle()
  return result
end
function in_coroutine()
  local resume = coroutine.wrap(function()
    local result = rate("XXX")
    return result
  end)
  local result = resume(note())
  return result
end
function generate()
  coroutine.yield(1)
  fails("born in a generator")
end
"""


def tell(seen):
    """Print the truth: SEEN are Lua's lines, and C where Lua calls a function that is not Lua's."""
    runs = [[["rules", int(line)] for line in run.split()] for run in seen.split("C") if run.strip()]
    frame, told = sys._getframe(1), runs.pop(0) if not seen.startswith("C") else []
    while frame:
        told.append([os.path.basename(frame.f_code.co_filename), frame.f_lineno])
        if frame.f_code.co_name in CALLED_BY_LUA and runs:
            told += runs.pop(0)
        frame = frame.f_back
    print(json.dumps(told))


CALLED_BY_LUA = {"rate", "middle"}


def rate(currency):
    raise KeyError(tell(lua.globals().look()) or currency)


def middle():
    return lua.globals().fails("born in Lua")


def python_below_lua():
    return lua.globals().price("XXX")


def lua_below_python():
    return lua.globals().outer()


def coroutine():
    return lua.globals().in_coroutine()


def generator():
    return list(lua.globals().generate.coroutine())


def thread():
    started = threading.Thread(target=python_below_lua)
    started.start()
    started.join()


lua = importlib.import_module("lupa." + sys.argv[1]).LuaRuntime()
for function in (tell, rate, middle):
    lua.globals()[function.__name__] = function
lua.execute(RULES, name="@rules")
globals()[sys.argv[2]]()
