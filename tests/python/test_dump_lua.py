"""``python -m stacksplice dump`` and ``core``: Lua functions where no stacksplice is."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE
from test_core import copy_of, read
from test_dump import dumped, end


def luas() -> Iterator[str]:
    """The programs of Lua 5.4 and 5.5 that this machine has."""
    fetched = HERE.parent.parent / "build" / "interpreters" / "lua5.5" / "usr" / "bin" / "lua5.5"
    for name in ("lua5.4", "lua5.5", str(fetched)):
        path = shutil.which(name)
        if path:
            yield path


def started(*arguments: str) -> subprocess.Popen[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LUA_CPATH")
    }
    return subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.fixture(scope="module", params=list(luas()))
def resting(request) -> Iterator[tuple[int, list[str]]]:
    """A process of Lua, and what debug.getinfo says of its frames."""
    child = started(request.param, str(HERE / "dump_frames_program.lua"))
    assert child.stdout is not None
    yield child.pid, [line.rstrip("\n") for line in iter(child.stdout.readline, ".\n")]
    end(child)


def lines_of(stack: list[dict]) -> list[str]:
    return [f"{frame['file']}:{frame['line']}" for frame in stack if frame["kind"] == "script"]


def test_lines_are_those_of_debug_getinfo(resting):
    process, seen = resting
    (thread,) = dumped(process)["threads"]
    assert len(seen) > 20 and lines_of(thread["stack"]) == seen
    assert "gap" not in [frame["kind"] for frame in thread["stack"]]
    script = [frame for frame in thread["stack"] if frame["kind"] == "script"]
    assert script[-1]["function"] == "main chunk"
    assert script[0]["function"] == f"function <{HERE / 'dump_frames_program.lua'}:27>"


def test_a_core_file_has_the_same(resting, tmp_path):
    process, seen = resting
    (thread,) = read(copy_of(process, tmp_path))["threads"]
    assert lines_of(thread["stack"]) == seen


def test_python_and_lua_call_each_other():
    for name in ("liblua5.4.so.0", "liblua5.4-system.so.0"):
        try:
            ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        pytest.skip("no shared Lua 5.4")
    program = str(HERE / "dump_lua_program.py")
    child = started(sys.executable, program, name)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    try:
        document = dumped(child.pid)
    finally:
        end(child)
    (thread,) = document["threads"]
    found = [
        (frame["language"], frame["function"], frame["line"])
        for frame in thread["stack"]
        if frame["kind"] == "script"
    ]
    lines = Path(program).read_text().splitlines()
    place = {text: lines.index(text) + 1 for text in lines}
    inner = '[string "local function inner()..."]'
    outer = '[string "local function outer()..."]'
    call = place["    assert lua.lua_pcallk(state, 0, 0, 0, None, None) == 0"]
    assert found == [
        ("python", "rest", place["    sys.stdin.read()"]),
        ("lua", f"function <{inner}:1>", 3),
        ("lua", "main chunk", 4),
        ("python", "run", call),
        ("python", "again", place["def again(state):"] + 1),
        ("lua", f"function <{outer}:1>", 2),
        ("lua", "main chunk", 3),
        ("python", "run", call),
        ("python", "main", place["def main():"] + 1),
        ("python", "<module>", len(lines)),
    ]
    assert "gap" not in [frame["kind"] for frame in thread["stack"]]
