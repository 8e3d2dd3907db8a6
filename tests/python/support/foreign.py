"""Calls of Lua for the tests of its frames in tracebacks, and what those say."""

from __future__ import annotations

import os
import traceback

E_FAIL = -2147467259
LUA_OUT = [
    ("crossing.c", "run"),
    ("crossing.c", "run_in_lua"),
    ("<chunk>", "main chunk"),
    ("pricing.lua", "price"),
]
LUA_IN = [("crossing.c", "lua_py"), ("crossing.c", "raise_python")]


def fail(*_):
    raise ValueError("bad")


def calls_lua(crossing):
    """Calls Lua, whose price() calls back; a name of the file that the tests look for."""

    def call_lua(callback):
        return crossing.run("local p = require('pricing').price({count = 3}, (...)) return p", callback)

    return call_lua


def calls_failing_lua(crossing):
    def call_failing_lua():
        return crossing.run("local p = require('pricing').price({}) return p")

    return call_failing_lua


def entries(exc) -> list[tuple[str, str]]:
    """(file's name, function) of each entry, outermost first, from the one behind caught() on.

    Lua's functions without what they are fields of: a capture does not always find that out.
    """
    found = []
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        file = os.path.basename(file) if os.path.isabs(file) else file
        file = "here" if file == "foreign.py" or file.startswith("test_foreign_frames") else file
        found.append((file, name.rpartition(".")[2] if file.endswith(".lua") else name))
    return found[1:]


def foreign(exc) -> list[tuple[str, str]]:
    return [entry for entry in entries(exc) if entry[0] != "here" and not entry[0].endswith(".py")]


def here(name: str) -> tuple[str, str]:
    """Of a function of the tests, or of this file."""
    return ("here", name)
