"""A program without stacksplice in which Python and Lua call each other through ctypes."""

import ctypes
import sys

lua = ctypes.CDLL(sys.argv[1])
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
for name in ("luaL_newstate", "lua_pushcclosure", "lua_setglobal", "luaL_loadstring", "lua_pcallk"):
    getattr(lua, name).restype = ctypes.c_void_p if name == "luaL_newstate" else ctypes.c_int
lua.lua_pushcclosure.argtypes = [ctypes.c_void_p, FUNCTION, ctypes.c_int]
lua.lua_setglobal.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
lua.luaL_loadstring.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
lua.lua_pcallk.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_void_p, ctypes.c_void_p]


def run(state, text):
    assert lua.luaL_loadstring(state, text) == 0
    assert lua.lua_pcallk(state, 0, 0, 0, None, None) == 0


def rest(state):
    print("ready", flush=True)
    sys.stdin.read()
    return 0


def again(state):
    run(second, b"local function inner()\n\nrest() end\ninner()")
    return 0


def main():
    run(first, b"local function outer()\nagain() end\nouter()")


first, second = lua.luaL_newstate(), lua.luaL_newstate()
functions = {name: FUNCTION(globals()[name]) for name in ("rest", "again")}
for state in (first, second):
    for name, function in functions.items():
        lua.lua_pushcclosure(state, function, 0)
        lua.lua_setglobal(state, name.encode())
main()
