"""``python -m stacksplice dump`` and ``core``: Lua functions where no stacksplice is."""

from __future__ import annotations

import contextlib
import ctypes
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, Resting
from test_core import copy_of, read
from test_dump import PROGRAM, dumped

pytestmark = pytest.mark.any_python


def luas() -> Iterator[list[str]]:
    """The commands that run a script by Lua 5.3, 5.4 and 5.5 on this machine."""
    fetched = HERE.parent.parent / "build" / "interpreters" / "lua5.5" / "usr" / "bin" / "lua5.5"
    for name in ("lua5.4", "lua5.5", str(fetched)):
        path = shutil.which(name)
        if path:
            yield [path]
    with contextlib.suppress(OSError):
        ctypes.CDLL("liblua5.3.so.0")
        yield [sys.executable, str(HERE / "run_lua_program.py"), "liblua5.3.so.0"]


def name_of(command: list[str]) -> str:
    return Path(command[-1]).name


@pytest.fixture(scope="module", params=list(luas()), ids=name_of)
def resting(request) -> Iterator[tuple[int, list[str]]]:
    """A process of Lua, and what debug.getinfo says of its frames."""
    with Resting(*request.param, HERE / "dump_frames_program.lua") as child:
        lines = [child.line, *iter(child.stdout.readline, ".\n")]
        yield child.pid, [line.rstrip("\n") for line in lines]


def lines_of(stack: list[dict]) -> list[str]:
    return [
        f"{frame['file']}:{frame['line']}:{frame['function']}"
        for frame in stack
        if frame["language"] == "lua"
    ]


def test_lines_and_names_are_those_of_debug_getinfo(resting):
    process, seen = resting
    (thread,) = dumped(process)["threads"]
    assert len(seen) > 110 and lines_of(thread["stack"]) == seen
    assert {frame["trust"] for frame in thread["stack"] if frame["kind"] != "native"} == {"exact"}
    assert "gap" not in [frame["kind"] for frame in thread["stack"]]


def test_a_core_file_has_the_same(resting, tmp_path):
    process, seen = resting
    (thread,) = read(copy_of(process, tmp_path))["threads"]
    assert lines_of(thread["stack"]) == seen


SPINNING = """
local function spin(limit)
  print() io.flush()
  local count = 0
  while count < limit do
    local inside = count % 3
    if inside == 0 then
      count = count + 2
    else
      count = count - 1
    end
  end
end
spin(math.huge)
"""


@pytest.mark.parametrize("lua", list(luas()), ids=name_of)
def test_the_line_where_lua_itself_runs(lua, tmp_path):
    script = tmp_path / "spin.lua"
    script.write_text(SPINNING.lstrip())
    with Resting(*lua, str(script)) as child:
        assert child.line == "\n"
        seen = []
        for _ in range(20):
            done = subprocess.run(
                [PROGRAM, "--pid", str(child.pid), "--locals"], stdout=subprocess.PIPE, check=True
            )
            (thread,) = json.loads(done.stdout)["threads"]
            seen.append(next(frame for frame in thread["stack"] if frame["kind"] == "script"))
    assert {frame["function"] for frame in seen} == {"spin"}
    while seen[0]["line"] == 2:  # it had not come back from that call
        assert seen.pop(0)["trust"] == "exact"
    assert {frame["line"] for frame in seen} <= set(range(4, 11))
    # Lua 5.3 has no place but in memory.
    assert {frame["trust"] for frame in seen} == {"exact" if "5.3" in lua[-1] else "inferred"}
    assert any("inside" in frame["locals"] for frame in seen)


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
    with Resting(sys.executable, program, name) as child:
        assert child.line == "ready\n"
        document = dumped(child.pid)
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
    files = [frame["file"] for frame in thread["stack"] if frame["language"] == "lua"]
    assert files == [inner, inner, outer, outer]
    assert found == [
        ("python", "rest", place["    sys.stdin.read()"]),
        ("lua", "inner", 3),
        ("lua", "main chunk", 4),
        ("python", "run", call),
        ("python", "again", place["def again(state):"] + 1),
        ("lua", "outer", 2),
        ("lua", "main chunk", 3),
        ("python", "run", call),
        ("python", "main", place["def main():"] + 1),
        ("python", "<module>", len(lines)),
    ]
    assert "gap" not in [frame["kind"] for frame in thread["stack"]]


GENERATED = """
#include <string.h>
#include <sys/mman.h>

typedef struct lua_State lua_State;
void lua_pushvalue(lua_State *L, int index);
void lua_callk(lua_State *L, int arguments, int results, long context, void *k);
void lua_pushcclosure(lua_State *L, int (*function)(lua_State *), int upvalues);
void lua_setglobal(lua_State *L, const char *name);

static lua_State *state;

static void call_again(void)
{
    lua_pushvalue(state, 1);
    lua_callk(state, 0, 0, 0, 0);
    __asm__ volatile("");
}

/* Calls its argument through code that keeps no frame pointer and has no unwind data. */
static int call_generated(lua_State *L)
{
    static const unsigned char bytes[] = {0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3};
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memcpy(code, bytes, sizeof bytes);
    state = L;
    ((void (*)(void (*)(void)))code)(call_again);
    return 0;
}

int open_generated(lua_State *L)
{
    lua_pushcclosure(L, call_generated, 0);
    lua_setglobal(L, "call_generated");
    return 0;
}
"""
CALLING_GENERATED = """
assert(package.loadlib(arg[1], "open_generated"))()
local function inner() print() io.flush() io.read() end
local function job() call_generated(inner) return 1 end
local function main() job() return 1 end
coroutine.wrap(function() main() end)()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_what_lies_behind_a_native_stack_that_ends_early(tmp_path):
    """Outer functions are never inside of what they called."""
    lua, compiler = shutil.which("lua5.4"), shutil.which("cc")
    if not lua or not compiler:
        pytest.skip("no Lua 5.4 or no C compiler")
    (tmp_path / "generated.c").write_text(GENERATED)
    (tmp_path / "calls.lua").write_text(CALLING_GENERATED.lstrip())
    module = tmp_path / "generated.so"
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", tmp_path / "generated.c", "-o", module], check=True)
    with Resting(lua, str(tmp_path / "calls.lua"), str(module)) as child:
        assert child.line == "\n"
        documents = [dumped(child.pid), read(copy_of(child.pid, tmp_path))]
    first, last = (f"function <{tmp_path / 'calls.lua'}:{line}>" for line in (2, 5))
    for document in documents:
        (thread,) = document["threads"]
        seen = [
            frame.get("function") or frame.get("reason", "").split(":")[0]
            for frame in thread["stack"]
            if frame["language"] == "lua" or frame["kind"] == "gap" or frame.get("function") == "call_again"
        ]
        assert seen == [first, "call_again", "native part truncated", "job", "main", last]
