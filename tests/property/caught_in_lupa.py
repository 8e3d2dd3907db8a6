"""caught.lua under a Lua of lupa: python caught_in_lupa.py MODULE SEED PROGRAMS.  Errors leave for Python."""

import importlib
import sys
from pathlib import Path

import stacksplice

SCRIPT = Path(__file__).with_name("caught.lua")

lua = importlib.import_module(f"lupa.{sys.argv[1]}")
stacksplice.install(lua_pcall=True)
runtime = lua.LuaRuntime(unpack_returned_tuples=True)


def frame_of(frame):
    return runtime.table(
        kind=frame.kind, reason=frame.reason or None, source=frame.file, currentline=frame.line or -1
    )


def protected(function):
    try:
        function()
    except Exception as exc:
        info = stacksplice.error_info(exc)
        if info is None:  # lupa's text of nil, or Lua ended a handler: nothing is known
            return True, None, None
        stack = info.stack
        return False, None, runtime.table(stack=runtime.table(*map(frame_of, stack)))
    return True, None, None


runtime.globals().arg = runtime.table(*sys.argv[2:4])
runtime.globals().package.loaded.stacksplice = runtime.table(
    pcall=protected,
    install=lambda options: lambda: None,  # done above
)
runtime.execute(SCRIPT.read_text(), name=f"@{SCRIPT}")
