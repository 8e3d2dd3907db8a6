"""What lupa does stays the same with install(): types, texts, arguments, causes, values, memory.

One thing is added: Python's exception that ended a coroutine, which lupa loses, is the cause of its LuaError.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import lupa_runtimes
import pytest
from building import HERE, PACKAGE, ran


def told(*arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUTF8": "1"}
    program = HERE / "lupa_features.py"
    options = {"stderr": subprocess.STDOUT, "env": environment, "timeout": 300}
    return ran(sys.executable, program, *arguments, **options).stdout.splitlines()


ENDED_BY = {"key": "KeyError", "interrupt": "KeyboardInterrupt"}


# What the tracebacks of LuaJIT call a function of its library, and one in C.
BUILT_IN = re.compile(r"\[builtin#\d+\]: at|\[C\]: at")
# lupa.lua51 alone returns an earlier exception here.
MISTAKEN = re.compile(r"return (?:pcall\(key\)|tostring\(select\(2, pcall\(key\)\)\)) -> ")
# LuaJIT runs the handler of its own stack overflow or not, depending on the room that is left.
OVERFLOW = "local function f() return f() + 1 end f()"
# Lua 5.2 finds a function under either name, as its hashes are seeded by addresses.
SEEDED = "_G.error"


def comparable(name: str, lines: list[str]) -> list[str]:
    kept = [BUILT_IN.sub("[C]: at", line).replace(SEEDED, "error") for line in lines]
    if "jit" in name:
        kept = [line for line in kept if not line.startswith(OVERFLOW)]
    return [line for line in kept if name != "lua51" or not MISTAKEN.match(line)]


def with_cause(line: str) -> str:
    pattern = r"(?:next|send), then (key|interrupt)\(\) -> \('lupa.lua\d+', 'LuaError', '', "
    found = re.match(pattern, line)
    if not found:
        return line
    return line.replace("('NoneType', 'NoneType', False)", f"({ENDED_BY[found[1]]!r}, 'NoneType', True)")


# What a LuaError without any text gets besides: its words (test_lupa_words.py).
NOTE = re.compile(r"(-> \('lupa\.\w+', 'LuaError', '', \('',\), \([^()]*\), )\[.*\]\)$")


@pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)
def test_everything_stays(name: str) -> None:
    without, with_us = told(name), told(name, "install")
    assert len(without) > 700 and ("afterwards -> 5" in without or name == "luajit20")
    assert any(NOTE.search(line) for line in with_us)
    with_us = [NOTE.sub(r"\1None)", line) for line in with_us]
    assert comparable(name, with_us) == comparable(name, [*map(with_cause, without)])
