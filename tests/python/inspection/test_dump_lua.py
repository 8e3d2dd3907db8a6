"""``dump`` and ``core`` where no stacksplice is: Lua's functions and variables, read without running code."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, ROOT, Resting, command, lua_with_stacksplice
from debugging import begun
from test_core import copy_of, damage, read
from test_dump import PAGE, PROGRAM, dumped, locals_of
from test_dump_python import FRAMES, VARIABLES

pytestmark = pytest.mark.any_python


def luas() -> Iterator[list[str]]:
    """The commands that run a script by Lua 5.3, 5.4 and 5.5 on this machine."""
    fetched = ROOT / "build" / "interpreters" / "lua5.5" / "usr" / "bin" / "lua5.5"
    for name in ("lua5.4", "lua5.5", str(fetched)):
        path = shutil.which(name)
        if path:
            yield [path]
    with contextlib.suppress(OSError):
        ctypes.CDLL("liblua5.3.so.0")
        yield [sys.executable, str(HERE / "run_lua_program.py"), "liblua5.3.so.0"]


each_lua = pytest.mark.parametrize("lua", list(luas()), ids=lambda command: Path(command[-1]).name)


def lua_frames(document: dict) -> list[dict]:
    (thread,) = document["threads"]
    return [frame for frame in thread["stack"] if frame["language"] == "lua"]


# ---- Frames --------------------------------------------------------------------------------------


@each_lua
def test_lines_and_names_are_those_of_debug_getinfo(lua, tmp_path):
    with Resting(*lua, HERE / "dump_frames_program.lua") as child:
        seen = [child.line.rstrip("\n"), *(line.rstrip("\n") for line in iter(child.stdout.readline, ".\n"))]
        assert len(seen) > 110
        for read_it in (lambda: dumped(child.pid), lambda: read(copy_of(child.pid, tmp_path))):
            (thread,) = (document := read_it())["threads"]
            assert {frame["trust"] for frame in thread["stack"] if frame["kind"] != "native"} == {"exact"}
            assert "gap" not in [frame["kind"] for frame in thread["stack"]]
            assert [f"{f['file']}:{f['line']}:{f['function']}" for f in lua_frames(document)] == seen


OLDER = """
local function rest() print() io.flush() io.read("*a") return 1 end
local object = setmetatable({}, { __index = function() local x = rest() return x end })
function deep(n, ...)
  if n == 0 then return (object.missing) end
  local result = deep(n - 1, ...)
  return result
end
local function first() deep(1, 2, 3) return false end
local sorter = { sort = function() table.sort({ 2, 1 }, first) return 1 end }
local function inside()
  local step = coroutine.wrap(function()
    coroutine.yield()
    sorter:sort()
    return 1
  end)
  step() step()
  return 1
end
pcall(function()
  string.gsub("a", ".", function() inside() return "b" end)
end)
"""


@pytest.mark.parametrize("name", ["lua5.1", "lua5.2", "luajit"])
def test_older_luas_are_read_in_their_order(name, tmp_path):
    """Metamethods, sort, gsub, a coroutine that has yielded and pcall, which in LuaJIT is no native frame."""
    lua = shutil.which(name)
    if not lua:
        pytest.skip(f"no {name}")
    script = tmp_path / "older.lua"
    script.write_text(OLDER.lstrip())
    with Resting(lua, str(script)) as child:
        assert child.line == "\n"
        documents = [dumped(child.pid), read(copy_of(child.pid, tmp_path))]
    unnamed = f"function <{script}:{{}}>".format
    expected = [
        *[(1, "rest"), (2, unnamed(2) if name == "lua5.1" else "metamethod '__index'")],
        *[(4, "deep"), (5, "deep"), (8, unnamed(8)), (9, "sort"), (13, unnamed(11))],
        *[(16, "inside"), (20, unnamed(20)), (20, unnamed(19)), (19, "main chunk")],
    ]
    for document in documents:
        frames = [frame for frame in lua_frames(document) if frame["file"] != "[C]"]  # LuaJIT's own
        assert [(frame["line"], frame["function"]) for frame in frames] == expected
        assert {frame["file"] for frame in frames} == {str(script)}
        (thread,) = document["threads"]
        assert "gap" not in [frame["kind"] for frame in thread["stack"]]


LOADED = """
local found, stacksplice = pcall(require, "stacksplice")
local function rest()
  local names = {}
  for _, frame in ipairs(found and stacksplice.capture() or {}) do
    if frame.language == "lua" and frame.source ~= "[C]" then names[#names + 1] = frame.name end
  end
  print(table.concat(names, " ")) io.flush() io.read("*a") return 1
end
function tick() local x = rest() return x end
function twice() local x = pcall(tick) return x end
again = twice
package.loaded["shop.rules"] = { price = function() local x = pcall(twice) return x end, number = 1, {} }
package.loaded.alone = function() local x = pcall(package.loaded["shop.rules"].price) return x end
_G[("long"):rep(40)] = function() local x = pcall(package.loaded.alone) return x end
local function unnamed() local x = pcall(_G[("long"):rep(40)]) return x end
pcall(unnamed)
"""


@pytest.mark.parametrize(
    "lua",
    [*luas(), *([name] for name in ("lua5.1", "lua5.2", "luajit", "stacksplice"))],
    ids=lambda command: Path(command[-1]).name,
)
def test_what_c_calls_has_the_name_that_package_loaded_has(lua, tmp_path):
    """As in reports of the process itself: a global's, or that of a module's member; of several the first."""
    variables: dict[str, str] = {}
    if lua == ["stacksplice"]:
        program, variables = lua_with_stacksplice()
        lua = [program]
    if not shutil.which(lua[0]):
        pytest.skip(f"no {lua[0]}")
    script = tmp_path / "loaded.lua"
    script.write_text(LOADED.lstrip())
    with Resting(*lua, str(script), **variables) as child:
        documents = [dumped(child.pid), read(copy_of(child.pid, tmp_path))]
    unnamed = [f"function <{script}:{line}>" for line in (14, 15)]
    expected = ["rest", "tick", "again", "shop.rules.price", "alone", *unnamed, "main chunk"]
    for document in documents:
        names = [frame["function"] for frame in lua_frames(document) if frame["file"] != "[C]"]
        assert names == expected
    if variables:
        told = " ".join(expected).replace(f"<{tmp_path}/", "<")
        assert re.sub(r"<\S*/", "<", child.line) == told + "\n"
    else:
        assert child.line == "\n"


def luajits() -> Iterator[list[str]]:
    """The commands that run a script by LuaJIT: a program, and lupa's modules, one with 32-bit references."""
    root = os.environ.get("STACKSPLICE_LUAJIT_ROOT", "")
    for path in filter(None, (shutil.which("luajit"), root and f"{root}/bin/luajit")):
        yield [path]
    for name in ("luajit20", "luajit21"):
        if importlib.util.find_spec(f"lupa.{name}"):
            lines = f"lua = lupa.{name}.LuaRuntime(); lua.globals().form = sys.argv[2]"
            yield [
                sys.executable,
                "-c",
                f"import lupa.{name}, sys; {lines}; lua.globals().dofile(sys.argv[1])",
            ]


def jit_name(command: list[str]) -> str:
    return re.search(r"luajit(\d\d)?", command[-1])[0]


SCHEDULE = """
typedef struct lua_State lua_State;
lua_State *lua_newthread(lua_State *L);
void lua_pushvalue(lua_State *L, int index);
void lua_xmove(lua_State *from, lua_State *to, int count);
int lua_resume(lua_State *L, int arguments);

static __attribute__((noinline)) void run(lua_State *L, int index)
{
    lua_State *volatile thread = lua_newthread(L);

    lua_pushvalue(L, index);
    lua_xmove(L, thread, 1);
    lua_resume(thread, 0);
}

/* Runs each of its two functions in a coroutine. */
int c_schedule(lua_State *L)
{
    for (int i = 1; i <= 2; i++)
        run(L, i);
    return 0;
}
"""
SCHEDULED = """
jit.off()
local schedule = package.loadlib(arg[1], "c_schedule")
local function wait() coroutine.yield() return 1 end
local function leaf()
  print() io.flush() os.time() for i = 1, math.huge do local x = i end
  return 1
end
local function child() string.gsub("a", ".", function() leaf() return "b" end) return 1 end
local function main() child() return 1 end
local function parent() wait() return 1 end
schedule(parent, main)
"""
each_jit = pytest.mark.parametrize("lua", list(luajits()), ids=jit_name)
JIT_PROGRAM = HERE / "dump_jit_program.lua"


@contextlib.contextmanager
def jit_resting(lua: list[str], form: str) -> Iterator[tuple[int, list[str]]]:
    """The process, and what it said of its stack: without the function that said it."""
    libraries = f"{os.environ.get('STACKSPLICE_LUAJIT_ROOT', '/usr')}/lib/{platform.machine()}-linux-gnu"
    with Resting(*lua, JIT_PROGRAM, form, LD_LIBRARY_PATH=libraries) as child:
        told = list(iter(child.stdout.readline, ".\n"))
        assert child.line.startswith(f"{JIT_PROGRAM}:")
        yield child.pid, [line.rstrip("\n") for line in told]


def places(frames: list[dict]) -> list[str]:
    return [f"{frame['file']}:{frame.get('line')}" for frame in frames if frame["file"] != "[C]"]


def own(names: list[str]) -> list[str]:
    return [name for name in names if name in ("pcall", "xpcall")]


@each_jit
@pytest.mark.parametrize(
    "form", ["interpreted", "metamethods", "builtins", "callback", "reader", "hook", "hot"]
)
def test_luajit_is_shown_as_it_shows_itself(lua, form, tmp_path):
    """Lines as in debug.traceback, which ends where a coroutine begins."""
    with jit_resting(lua, form) as (process, told):
        documents = [dumped(process), read(copy_of(process, tmp_path))]
    truth = [":".join(line.split(":")[:2]) for line in told if not line.startswith("[")]
    truth_own = own([line.split("'")[-2] for line in told if line.startswith("[C]: in function '")])
    for document in documents:
        frames = [frame for frame in document["threads"][0]["stack"] if frame["language"] == "lua"]
        seen = places(frames)
        assert len(seen) >= len(truth) > 4
        assert seen[: len(truth)] == truth
        assert form == "builtins" or len(seen) == len(truth)
        assert own([frame["function"] for frame in frames])[: len(truth_own)] == truth_own
        assert form != "builtins" or own([frame["function"] for frame in frames]) == [
            "xpcall",
            "pcall",
            "pcall",
        ]
        assert "gap" not in [frame["kind"] for frame in document["threads"][0]["stack"]]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiled code is followed on x86-64 only")
@each_jit
@pytest.mark.parametrize("form", ["compiled", "calling"])
def test_the_callers_of_code_that_luajit_compiled(lua, form, tmp_path):
    """Their lines are as before, and a gap stands for what was compiled."""
    with jit_resting(lua, form) as (process, told):
        time.sleep(0.5)
        documents = [dumped(process, "--locals"), read(copy_of(process, tmp_path))]
    truth = [":".join(line.split(":")[:2]) for line in told if not line.startswith("[")]
    for document in documents:
        stack = document["threads"][0]["stack"]
        assert places([frame for frame in stack if frame["language"] == "lua"]) == truth
        kinds = [frame["kind"] for frame in stack]
        assert kinds.count("gap") == 1
        assert stack[kinds.index("gap")]["reason"].startswith(
            "Lua functions unknown: JIT-compiled code runs here"
        )
        assert kinds[kinds.index("gap") + 1] == "script"
        assert ("usleep" in [frame.get("function") for frame in stack]) == (form == "calling")
        first = stack[kinds.index("gap") + 1]
        assert first["trust"] == "inferred" and "locals" not in first  # it stores none
        assert {f["trust"] for f in stack if f["kind"] == "script" and f is not first} == {"exact"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiled code is followed on x86-64 only")
@each_jit
@pytest.mark.parametrize("looks", [12, pytest.param(30, marks=pytest.mark.long)])
def test_luajit_between_compiled_code_and_all_else(lua, looks):
    """Its stack is whole at any moment: in parts of the loop that move the pointer, too."""
    with jit_resting(lua, "exits") as (process, told):
        time.sleep(0.3)
        stacks = [dumped(process)["threads"][0]["stack"] for _ in range(looks)]
    truth = [line.split(":")[1] for line in told if not line.startswith("[")]
    for stack in stacks:
        frames = [
            f for f in stack if f["language"] == "lua" and f["file"] != "[C]" and f["function"] != "step"
        ]
        assert [str(frame["line"]) for frame in frames[1:]] == truth[1:]
        assert frames[0]["function"].endswith(f":{int(truth[0]) - 8}>")
        reasons = [frame["reason"] for frame in stack if frame["kind"] == "gap"]
        assert all(
            reason.endswith("jit.off() has them shown") and "where that" in reason for reason in reasons
        )
        assert "main" in str(stack[-3:]) or "python" in str(stack[-3:])


@each_jit
@pytest.mark.parametrize("form", ["returned", "returned_inside", "helpers", "kept"])
@pytest.mark.parametrize("looks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_luajit_in_a_loop_whose_calls_have_returned(lua, form, looks, tmp_path):
    """What its state had stored before them names functions that ended; the loop's registers are right."""
    with jit_resting(lua, form) as (process, told):
        time.sleep(0.2)
        documents = [
            dumped(process, "--all-frames")
            for _ in range(looks if form.startswith("returned") else 3 * looks)
        ]
        documents.append(read(copy_of(process, tmp_path)))
    truth = [":".join(line.split(":")[:2]) for line in told if not line.startswith("[")]
    assert len(truth) > 1
    for document in documents:
        stack = document["threads"][0]["stack"]
        assert [frame["reason"] for frame in stack if frame["kind"] == "gap"] == []
        seen = places([frame for frame in stack if frame["language"] == "lua"])
        assert seen[: len(truth)] == truth
        outside = 4 if form == "returned_inside" else 0  # debug.traceback tells of one coroutine
        assert len(seen) >= len(truth) + outside
        assert "main" in [frame.get("function") for frame in stack[-4:]] or "python" in str(stack[-4:])


@each_jit
def test_a_coroutine_of_luajit_that_has_yielded_does_not_run(lua, tmp_path):
    """Its address is still on the stack, as where a host in C resumes the next one."""
    compiler = shutil.which("cc")
    if not compiler or lua[0] == sys.executable:
        pytest.skip("no C compiler, or lupa's LuaJIT, which exports nothing")
    (tmp_path / "schedule.c").write_text(SCHEDULE)
    (tmp_path / "schedule.lua").write_text(SCHEDULED.lstrip())
    module = tmp_path / "schedule.so"
    subprocess.run([compiler, "-O0", "-fPIC", "-shared", tmp_path / "schedule.c", "-o", module], check=True)
    with Resting(*lua, tmp_path / "schedule.lua", module) as child:
        assert child.line == "\n"
        time.sleep(0.2)
        documents = [dumped(child.pid) for _ in range(5)]
        documents.append(read(copy_of(child.pid, tmp_path)))
    for document in documents:
        assert [(frame["line"], frame["function"]) for frame in lua_frames(document)] == [
            (5, "leaf"),
            (8, f"function <{tmp_path / 'schedule.lua'}:8>"),
            (8, "child"),
            (9, f"function <{tmp_path / 'schedule.lua'}:9>"),
            (11, "main chunk"),
        ]
        assert "gap" not in [frame["kind"] for frame in document["threads"][0]["stack"]]


@each_jit
def test_variables_of_luajit(lua, tmp_path):
    with jit_resting(lua, "interpreted") as (process, _):
        live = dumped(process, "--locals")
        core = command("core", "--json", "--locals", copy_of(process, tmp_path)).stdout
    for document in (live, json.loads(core)):
        frames = [frame for frame in document["threads"][0]["stack"] if frame["language"] == "lua"]
        shown = frames[0]["locals"]
        cdata = shown.pop("cdata")
        assert re.fullmatch(OBJECT.format("cdata"), cdata)
        listed = shown.pop("list")
        assert sorted(re.findall(r"\[[-\d]+\] = [^,}]+|\w+ = \{3\}|\"x\"|\b2\b", listed)) == sorted(
            ['[0] = "zero"', '"x"', "2", "key = {3}", "[-1] = 7"]
        )
        assert shown == {
            "number": "1.5",
            "text": r'"a\000b"',
            "flag": "false",
            "password": "[redacted: password]",
        }
        assert [frame["locals"] for frame in frames[1:3]] == [{"count": "0"}, {"count": "1"}]


FIBER = """
#include <stdio.h>
#include <ucontext.h>

typedef struct lua_State lua_State;
void lua_pushvalue(lua_State *L, int index);
void CALL(lua_State *L, int arguments, int results CONTINUATION);

static ucontext_t host, fiber;
static char stack[1 << 18];
static lua_State *state;

int c_leave(lua_State *L)
{
    (void)L;
    swapcontext(&fiber, &host);
    return 0;
}

static void run_fiber(void)
{
    lua_pushvalue(state, 1);
    CALL(state, 0, 0 NO_CONTINUATION);
}

/* Rests while its coroutine is in use on the fiber, too. */
int c_outer(lua_State *L)
{
    state = L;
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = sizeof stack;
    fiber.uc_link = &host;
    makecontext(&fiber, run_fiber, 0);
    swapcontext(&host, &fiber);
    puts("");
    fflush(stdout);
    return getchar() == 'x';
}
"""
FIBERS = """
local outer, leave = package.loadlib(arg[1], "c_outer"), package.loadlib(arg[1], "c_leave")
local function in_fiber() leave() return 1 end
local function mid() outer(in_fiber) return 1 end
local function top() mid() return 1 end
top()
"""


@pytest.mark.parametrize("name", ["lua5.1", "lua5.2", "luajit", "lua5.4"])
def test_what_runs_on_a_suspended_fiber_is_not_on_this_stack(name, tmp_path):
    """The state's order of calls has it inside of what rests."""
    lua, compiler = shutil.which(name), shutil.which("cc")
    if not lua or not compiler:
        pytest.skip(f"no {name}, or no C compiler")
    (tmp_path / "fiber.c").write_text(FIBER)
    (tmp_path / "fibers.lua").write_text(FIBERS.lstrip())
    module = tmp_path / "fiber.so"
    call = ["-DCALL=lua_call", "-DCONTINUATION=", "-DNO_CONTINUATION="]
    if name in ("lua5.2", "lua5.4"):
        call = ["-DCALL=lua_callk", "-DCONTINUATION=,long context,void*k", "-DNO_CONTINUATION=,0,0"]
    build = [compiler, *call, "-O1", "-fPIC", "-shared", tmp_path / "fiber.c", "-o", module]
    subprocess.run(build, check=True)
    with Resting(lua, str(tmp_path / "fibers.lua"), str(module)) as child:
        assert child.line == "\n"
        documents = [dumped(child.pid), read(copy_of(child.pid, tmp_path))]
    for document in documents:
        assert [(frame["line"], frame["function"]) for frame in lua_frames(document)] == [
            (3, "mid"),
            (4, "top"),
            (5, "main chunk"),
        ]


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


@each_lua
def test_the_line_where_lua_itself_runs(lua, tmp_path):
    script = tmp_path / "spin.lua"
    script.write_text(SPINNING.lstrip())
    seen = []
    with Resting(*lua, str(script)) as child:
        assert child.line == "\n"
        for _ in range(20):
            told = subprocess.check_output([PROGRAM, "--pid", str(child.pid), "--locals"])
            (thread,) = json.loads(told)["threads"]
            seen.append(next(frame for frame in thread["stack"] if frame["kind"] == "script"))
    assert {frame["function"] for frame in seen} == {"spin"}
    while seen[0]["line"] == 2:  # it had not come back from that call
        assert seen.pop(0)["trust"] == "exact"
    assert {frame["line"] for frame in seen} <= set(range(4, 11))
    # Lua 5.3 has no place but in memory.
    assert {frame["trust"] for frame in seen} == {"exact" if "5.3" in lua[-1] else "inferred"}
    assert any("inside" in frame["locals"] for frame in seen)


def test_python_and_lua_call_each_other():
    with begun() as process:
        (thread,) = dumped(process)["threads"]
    scripts = [frame for frame in thread["stack"] if frame["kind"] == "script"]
    lines = (HERE / "dump_lua_program.py").read_text().splitlines()
    place = {text: number for number, text in enumerate(lines, 1)}
    call = place["    assert lua.lua_pcallk(state, 0, 0, 0, None, None) == 0"]
    files = [frame["file"] for frame in scripts if frame["language"] == "lua"]
    assert files == [f'[string "local function {name}()..."]' for name in ("inner",) * 2 + ("outer",) * 2]
    assert [(frame["language"], frame["function"], frame["line"]) for frame in scripts] == [
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


# ---- Variables -----------------------------------------------------------------------------------

OBJECT = "<{}: 0x[0-9a-f]+>"
EXPECTED = {
    "others": {
        **{"parameter": "1", "unset": "nil", "yes": "true", "no": "false", "zero": "0", "negative": "-7"},
        **{"least": str(-(2**63)), "half": "0.5", "whole": "2.0", "large": "1e+300", "infinite": "-inf"},
        **{"small": "-4.9406564584125e-324", "empty": '""', "text": r'"naïve\000\n\"\\\127' + '\ufffd"'},
        **{"long": '"' + "é" * 100 + '"...', "longer": '"' + "x" * 200 + '"...'},
        **{"thread": OBJECT.format("thread"), "file": OBJECT.format("userdata")},
        **dict.fromkeys(("closure", "builtin"), OBJECT.format("function")),
    },
    "scopes": {"index": "1", "value": '"a"', "shadowed": "2"},
    "main chunk": dict.fromkeys(("rest", "tables", "scopes", "others"), OBJECT.format("function")),
    "rest": {},
    "tables": {
        **{"empty": "{}", "sequence": "{1, 2, 3}", "record": '{x = "a"}', "holes": "{1, [3] = 3}"},
        **{"removed": "{b = 2}", "nested": "{{{{...}}}}", "itself": "{itself = {itself = {itself = {...}}}}"},
        **{"array": "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...}", "short": "{1, 2, 3, 4, 5, 6, 7}", "length": "7"},
        **{"keys": "{[2.5] = true}", "odd": '{["not a name"] = 1}', "number": "{[-1] = 1}"},
        **{"truth": "{[true] = false}", "watched": "{1}", "password": "[redacted: password]", "ended": "1"},
        **{"shop": '{password = "[redacted: password]", card = {api_key = "[redacted: key]"}}'},
    },
}


@pytest.fixture(scope="module", params=list(luas()), ids=lambda command: Path(command[-1]).name)
def resting(request) -> Iterator[int]:
    with Resting(*request.param, HERE / "dump_locals_program.lua") as child:
        yield child.pid


def test_variables_of_each_version(resting, tmp_path):
    document = dumped(resting, "--locals")
    found = {frame["function"]: frame["locals"] for frame in lua_frames(document) if "locals" in frame}
    del found["main chunk"]["hostile"]
    assert found.keys() == EXPECTED.keys()
    for function, expected in EXPECTED.items():
        assert list(found[function]) == sorted(expected), function
        for name, text in expected.items():
            if "0x" in text:
                assert re.fullmatch(text, found[function][name]), name
            else:  # pairs have no order
                assert sorted(found[function][name]) == sorted(text), name
    for form in ([], ["--json"], *PAGE):
        text = command("dump", "--locals", *form, str(resting)).stdout
        assert "hunter" not in text and text.count("[redacted: ") >= 3
    assert locals_of(dumped(resting)) == {}
    core = command("core", "--json", "--locals", copy_of(resting, tmp_path)).stdout
    assert locals_of(json.loads(core)) == locals_of(dumped(resting, "--locals"))


REPORTED = r"""
local stacksplice = require "stacksplice"
local values = {
  {1, 2, {3, {4, {5, {}}}}}, {}, {{}, {{}}, {{{}}}},
  {("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60)},
  {{("y"):rep(190)}, {("y"):rep(190)}, {("y"):rep(190)}, 1},
  ("é"):rep(100), ("é"):rep(101), "x" .. ("é"):rep(100),
  ("x"):rep(190) .. "password=" .. ("hunter2 "):rep(30),
  {password = {1}}, {[1.5] = {}}, {[-1] = "a\nb"}, {["a b"] = "\0"},
  1e15, 1e100, -0.0, 0.1, 3, "\27[1m", true,
}
local sequence, mixed = {}, {1, 2, 3, x = 4}
for i = 1, 12 do sequence[i] = {i} end
table.insert(values, sequence)
table.insert(values, mixed)
require 'stacksplice.host'.install {locals = true}
local function fails(value) error {} end
for _, value in ipairs(values) do
  local _, failure = xpcall(function() fails(value) end, stacksplice.handler)
  print((stacksplice.error_info(failure):text():match "        value = ([^\n]+)"))
end
local function shown(number, value)
  if values[number + 1] ~= nil then
    shown(number + 1, values[number + 1])
  else
    print() io.flush() io.read "a"
  end
  return number
end
shown(1, values[1])
"""


def test_texts_of_variables_are_those_of_reports():
    lua, variables = lua_with_stacksplice()
    with Resting(lua, "-e", REPORTED, **variables) as child:
        lines = [child.line, *iter(child.stdout.readline, "\n")]
        (thread,) = dumped(child.pid, "--locals")["threads"]
    reported = [line.rstrip("\n") for line in lines]
    frames = [frame["locals"] for frame in thread["stack"] if frame.get("function") == "shown"]
    assert len(reported) == len(frames) == 22
    assert [frame["value"] for frame in reversed(frames)] == reported


HANDLED = """
local stacksplice = require "stacksplice"
if ASKED then stacksplice.install{pcall = true} end
local function rest(message) print() io.flush() io.read "a" return message end
local function second() table.sort({2, 1}, function() local r = rest() return r end) end
local function handler(message) local ok, e = pcall(second) return message, ok, e end
local function deep(value) local r = ("x"):gsub("x", function() error(value, 0) end) return r end
local function outer()
  local co = coroutine.wrap(function() local ok, e = xpcall(deep, handler, "text") return ok, e end)
  local r = co()
  return r
end
local r = outer()
"""


def test_a_message_handler_of_xpcall_that_runs():
    """Ours has called it, and its own activation has ended; its native frames are still on the stack."""
    lua, variables = lua_with_stacksplice()
    frames = []
    for asked in ("false", "true"):
        with Resting(lua, "-e", HANDLED.replace("ASKED", asked), **variables) as child:
            document = dumped(child.pid)
        assert "gap" not in [frame["kind"] for frame in document["threads"][0]["stack"]]
        frames.append([(f["function"], f["line"], f["trust"]) for f in lua_frames(document)])
    assert frames[0] == frames[1]
    assert [line for _, line, _ in frames[0]] == [4, 5, 5, 6, 7, 7, 9, 10, 13]


LARGE = """
local function inner(n) if n > 0 then inner(n - 1) else print() io.flush() io.read "a" end return n end
local function many()
  local a01, a02, a03 = {}, {}, ("x"):rep(50000000)
  for i = 1, 1000000 do a01[i] = i a02[-i] = i end
  local a04 = {} for _ = 1, 100000 do a04 = {a04} end
  local a05 = {} for i = 1, 200000 do a05[-i] = i end for i = 1, 199999 do a05[-i] = nil end
  local a06, a07, a08, a09, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21
  inner(DEPTH)
end
many()
"""


@pytest.mark.long
def test_large_values_are_bounded():
    (lua, *_) = luas()
    with Resting(*lua, "-e", LARGE.replace("DEPTH", "50")) as child:
        raw = subprocess.run([PROGRAM, "--pid", str(child.pid), "--locals"], capture_output=True).stdout
    assert len(raw) < 1 << 20 and raw.count(b'"locals":') == FRAMES + 1
    with Resting(*lua, "-e", LARGE.replace("DEPTH", "5")) as child:
        found = locals_of(dumped(child.pid, "--locals"))["many"]
    assert len(found) == VARIABLES + 1 and "a20" in found and found["..."] == "<more are not shown>"
    assert found["a01"] == "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...}"
    assert all(len(text) < 600 for text in found.values())


def test_a_note_says_that_there_are_more_copies_of_lua(tmp_path):
    library = ctypes.util.find_library("lua5.4") or pytest.skip("there is no shared Lua 5.4")
    script = f"""
import ctypes, shutil, sys
with open("/proc/self/maps") as maps:
    ctypes.CDLL({library!r})
    path = next(line.split()[-1] for line in maps if {library!r}.partition(".so")[0] in line)
for number in range(int(sys.argv[1]) - 1):
    ctypes.CDLL(shutil.copy(path, f"{tmp_path}/copy{{number}}.so"))
print(flush=True)
sys.stdin.read()
"""
    note = "not all Lua frames are shown: the process has more than 8 copies of Lua"
    for copies, notes in ((8, []), (9, [note])):
        with Resting(sys.executable, "-c", script, str(copies)) as child:
            assert dumped(child.pid)["notes"] == notes


@pytest.mark.parametrize("seed", range(3))
def test_damaged_values_do_no_harm(resting, tmp_path, seed):
    core = copy_of(resting, tmp_path)
    damage(core, tmp_path, seed, "--locals", near=rb"not a name|shadowed|api_key", reach=12000)


def test_no_line_is_read_from_the_file_of_a_language_that_is_compiled_to_lua(tmp_path):
    """Its lines are those of the Lua code.  Teal keeps lines."""
    listed = (ROOT / "bindings" / "shared" / "lua_chunks.c").read_text()
    ends = re.findall(r'"(\.\w+)"', re.search(r"ends\[\] = \{(.*?)\};", listed).group(1))
    assert len(ends) == 5
    for end in (*ends, ".tl"):
        file = tmp_path / f"rules{end}"
        file.write_text("; a comment\n(local unrelated 1)\n")
        os.utime(file, (0, 0))
        program = f"io.stdout:setvbuf('no') load('\\n print(1) io.read()', '@{file}')() print(2)"
        with Resting(lua_with_stacksplice()[0], "-e", program) as child:
            (frame, *_) = [f for f in lua_frames(dumped(child.pid)) if f["file"] == str(file)]
        assert frame["line"] == 2 and ("source" in frame) == (end == ".tl"), frame
