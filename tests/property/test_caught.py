"""install{pcall = true} of Lua: random programs that swallow, keep, compare, format and raise again errors
with equal texts.  A report may know less than all places where its error was raised, but nothing else.

By hand: python test_caught.py PROGRAMS [LUA [SEED]]; LuaJIT 2.0 is lupa's luajit20."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lua")]

import test_luas  # noqa: E402
import versions  # noqa: E402

LUAS = [*versions.LUAS, "luajit"]


def run(lua: str, seed: int, count: int) -> subprocess.CompletedProcess[str]:
    if lua in versions.LUPAS:
        pytest.importorskip(f"lupa.{lua}")
        program = [sys.executable, HERE / "caught_in_lupa.py", lua, str(seed), str(count)]
        return subprocess.run(program, capture_output=True, text=True)
    path = f"{test_luas.lua_module(lua)}/?.so;;"
    environment = {**os.environ, "LUA_CPATH": path, f"LUA_CPATH_{lua.replace('.', '_')}": path}
    program = [test_luas.lua_program(lua), HERE / "caught.lua", str(seed), str(count)]
    return subprocess.run(program, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("lua", [*LUAS, *versions.LUPAS])
@pytest.mark.parametrize("count", [300, pytest.param(20000, marks=pytest.mark.long)])
def test_no_error_has_the_frames_of_another(lua: str, count: int) -> None:
    done = run(lua, 1, count)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    checked, seams = map(int, re.findall(r"(?:checked|seams) (\d+)", done.stdout))
    assert checked > 4 * count, done.stdout
    assert seams > count or "jit" in lua, done.stdout  # which keeps its own pcall


if __name__ == "__main__":
    lua = sys.argv[2] if sys.argv[2:] else "5.4"
    seed = int(sys.argv[3]) if sys.argv[3:] else time.time_ns() // 1_000_000
    done = run(lua, seed, int(sys.argv[1]))
    print(f"{lua}, first seed {seed}: {done.stdout}{done.stderr}", end="")
    sys.exit(done.returncode)
