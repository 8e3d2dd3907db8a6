"""Runs a script of Lua, by a shared library: for versions of which a machine has no program."""

import ctypes
import sys

lua = ctypes.CDLL(sys.argv[1])
lua.luaL_newstate.restype = ctypes.c_void_p
lua.lua_tolstring.restype = ctypes.c_char_p
state = ctypes.c_void_p(lua.luaL_newstate())
lua.luaL_openlibs(state)
failed = lua.luaL_loadfilex(state, sys.argv[2].encode(), None)
failed = failed or lua.lua_pcallk(state, 0, 0, 0, ctypes.c_ssize_t(0), None)
if failed:
    sys.exit(lua.lua_tolstring(state, -1, None).decode())
