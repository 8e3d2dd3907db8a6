"""A crash below Lua, and what its file tells Sentry."""

import ctypes

import stacksplice
from shop import lua

stacksplice.install(crash=True)


def name_of(address):
    return ctypes.string_at(address)


lua.globals().name_of = name_of
lua.execute("""
function describe(device)
  return "device " .. name_of(device)
end
""")
lua.globals().describe(16)
