"""The Python package of one installation and the Lua module of another, in this one process.

usage: two_installs.py LUA_LIBRARY PYTHON_FOLDER LUA_PREFIX python-first|lua-first shared|refused

"shared": both load, there is one core, and one error slot.  "refused": what comes second needs a
newer core than the one that is there; it says so, and what came first goes on working.
"""

import ctypes
import glob
import os
import re
import sys


class Lua:
    """A Lua state, as an embedding host makes one."""

    def __init__(self, library, prefix):
        # Global: a Lua module finds the functions of its interpreter in the process.
        self.lua = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        self.lua.luaL_newstate.restype = ctypes.c_void_p
        self.lua.lua_tolstring.restype = ctypes.c_char_p
        self.state = ctypes.c_void_p(self.lua.luaL_newstate())
        self.lua.luaL_openlibs(self.state)
        modules = glob.glob(
            os.path.join(glob.escape(prefix), "lib*", "**", "lua", "5.4", "stacksplice.so"), recursive=True
        )
        assert len(modules) == 1, modules
        self.run(f"package.cpath = [[{os.path.dirname(modules[0])}/?.so]]")

    def run(self, code):
        """What CODE returns, as text, or its error raised as a RuntimeError."""
        failed = self.lua.luaL_loadstring(self.state, code.encode()) or self.lua.lua_pcallk(
            self.state, 0, 1, 0, ctypes.c_void_p(0), None
        )
        text = self.lua.lua_tolstring(self.state, -1, None)
        self.lua.lua_settop(self.state, 0)
        text = text.decode() if text is not None else None
        if failed:
            raise RuntimeError(text)
        return text


def cores():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {line.split(None, 5)[5].strip() for line in maps if "/libstacksplice.so" in line}


def load_python(folder):
    sys.path.insert(0, folder)
    import stacksplice

    return stacksplice


def check_one_slot(stacksplice, lua):
    assert stacksplice.peek_error() is None
    lua.run("stacksplice.originate('born in Lua')")
    error = stacksplice.peek_error()
    assert error is not None and "born in Lua" in error.message, error
    assert stacksplice.take_error() is not None
    assert lua.run("return tostring(stacksplice.peek_error())") == "nil"
    stacksplice.originate(ValueError("born in Python"))
    assert "born in Python" in lua.run("return stacksplice.peek_error().message")
    lua.run("stacksplice.take_error()")
    assert stacksplice.peek_error() is None


def check_words(error, file, folder):
    """The Python package says which version is there, which is needed, and what to upgrade."""
    core = ctypes.CDLL(file)
    core.stacksplice_version.restype = ctypes.c_char_p
    there = core.stacksplice_version().decode()
    assert isinstance(error.__cause__, ImportError), error.__cause__
    needed = re.search(r"STACKSPLICE_([.0-9]+)", str(error.__cause__))[1]
    assert [int(n) for n in needed.split(".")] > [int(n) for n in there.split(".")], (needed, there)
    assert f"loaded: {file}, version {there}\n" in str(error), error
    assert f"needed: version {needed} or newer, by {folder}" in str(error), error
    assert f"Upgrade the installation in {os.path.dirname(file)}" in str(error), error
    assert (error.name, error.path) == (error.__cause__.name, error.__cause__.path)
    assert "stacksplice" not in sys.modules


def check_goes_on(stacksplice, lua):
    """What was loaded first works as before; STACKSPLICE is None when that was Lua."""
    if stacksplice:
        assert stacksplice.originate(ValueError("still here")) is not None
        assert stacksplice.take_error() is not None
    else:
        lua.run("stacksplice.originate('still here')")
        assert "still here" in lua.run("return stacksplice.take_error().message")


def main(library, folder, prefix, order, expected):
    lua = Lua(library, prefix)
    steps = [lambda: load_python(folder), lambda: lua.run("stacksplice = require 'stacksplice'")]
    if order == "lua-first":
        steps.reverse()
    loaded = [steps[0]()]
    first = cores()
    assert len(first) == 1, first
    try:
        loaded.append(steps[1]())
    except (ImportError, RuntimeError) as error:
        print("the second says:", error)
        assert expected == "refused", "both were expected to load"
        # Which file is in the way, and what is wanted instead.
        named = re.search(r"(/[^\n]*libstacksplice\.so\.0[.0-9]*)", str(error))
        assert named and os.path.realpath(named[1]) == os.path.realpath(first.pop()), error
        if isinstance(error, ImportError):
            check_words(error, named[1], folder)
        else:
            assert "STACKSPLICE_0." in str(error), error
        check_goes_on(loaded[0], lua)
    else:
        assert expected == "shared", "the second was expected to refuse"
        assert cores() == first, (first, cores())
        check_one_slot(loaded[order == "lua-first"], lua)
        print("one core:", first.pop(), loaded[order == "lua-first"].__file__)
    print("\nok")


if __name__ == "__main__":
    main(*sys.argv[1:])
