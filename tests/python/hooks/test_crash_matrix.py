"""Each signal at each place: the report and the core file have the stack that was logged right before."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crashing import BEGIN, HOW, SIGNALS, Run, reasons
from debugging import gdb
from stacksplice.__main__ import main

PLACES = ["main", "thread", "child", "callback", "collection", "lua", "between"]
OF_LUA = "lua54"  # in the name of the binary that has Lua


def core_files_are_here() -> bool:
    """Whether this system puts core files where the process is."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    return "/" not in pattern and not pattern.startswith("|")


def rows(stack: list[dict]) -> list[tuple]:
    """STACK from its innermost script frame on, in what all tellers of it know."""
    first = next(at for at, frame in enumerate(stack) if frame["kind"] == "script")
    found: list[tuple] = []
    for frame in stack[first:]:
        if frame["kind"] == "script":
            name = frame["function"] if frame["language"] == "python" else ""  # cores have no names of Lua
            found.append((frame["language"], frame["file"], frame["line"], name))
            continue
        address = frame["address"]
        row = (frame["kind"], address if isinstance(address, int) else int(address, 16))
        if found[-1] != row:  # inlined functions are at one address
            found.append(row)
    return found


def without_inside_of_lua(found: list[dict], logged: list[tuple]) -> list[dict]:
    """FOUND without the frames of Lua's own functions that captures leave out."""
    known = set(logged)
    return [
        frame
        for frame in found
        if OF_LUA not in frame.get("module", "") or ("native", int(frame["address"], 16)) in known
    ]


def stack_of_core(core: Path, capsys) -> list[dict]:
    assert main(["core", "--json", str(core)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["notes"] == []
    return document["threads"][0]["stack"]


@pytest.fixture
def core(tmp_path) -> Iterator[Callable[[], Path]]:
    """The core file of what ran there, which is large."""

    def find() -> Path:
        (found,) = tmp_path.glob("core*")
        return found

    yield find
    for each in tmp_path.glob("core*"):
        each.unlink()


def scripts_in_gdb(core: Path) -> list[tuple]:
    """The script frames that gdb's command shows of CORE, the innermost first."""
    text = gdb(f"core-file {core}", "stacksplice bt -all-frames", arguments=(sys.executable,))
    lines = re.findall(r'^    \((Python|Lua)\) File "(.*?)", line (\d+), in (\S+)', text, re.M)
    assert lines, text
    return [
        (language.lower(), file, int(line), name if language == "Python" else "")
        for language, file, line, name in reversed(lines)
    ]


WAYS = [way for way in SIGNALS if way != "fatal"]


# Each way at one place, and each place with one way.
SHORT = {*zip(WAYS, PLACES * 2)} | {("segv", place) for place in PLACES}


@pytest.mark.parametrize(
    ("way", "place"),
    [
        pytest.param(
            way, place, marks=[] if (way, place) in SHORT else [pytest.mark.any_python, pytest.mark.long]
        )
        for way in WAYS
        for place in PLACES
    ],
)
def test_report_and_core(tmp_path, capsys, core, way, place):
    if place in ("lua", "between"):
        pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    run = Run(tmp_path, BEGIN + HOW, way, place, with_core=True)
    assert run.status == -SIGNALS[way], run.err
    error = run.report["error"]
    assert error["type"] == SIGNALS[way].name
    assert run.scripts == run.logged and ["python", "crash"] in run.logged, run.err
    assert [["lua", "price"] in run.scripts] == [place in ("lua", "between")]
    assert '(Python) File "<string>", line' in run.err
    if way == "overflow":
        assert error["message"] == "the stack is used up"
    else:
        assert reasons(error["stack"]) == []
        assert rows(error["stack"]) == rows(run.logged_stack)
    if not core_files_are_here():
        return
    logged = rows(run.logged_stack)
    assert rows(without_inside_of_lua(stack_of_core(core(), capsys), logged)) == logged
    if shutil.which("gdb"):
        assert scripts_in_gdb(core()) == [row for row in logged if row[0] in ("python", "lua")]


IN_LUA_ITSELF = """
def damage(table):
    log()
    address = int(table.split()[1], 16)
    ctypes.memmove(address + 16, (8).to_bytes(8, "little"), 8)  # Table.array of Lua 5.4
stacksplice.install(crash=True)
import lupa.lua54
runtime = lupa.lua54.LuaRuntime()
runtime.execute(
    "function price(f) local t = {1} f(tostring(t)) local x = t[1] return x end\\n"
    "function other(f) return (coroutine.wrap(function() price(f) end)()) end",
    name="@rules.lua",
)
runtime.globals()[sys.argv[1]](damage)
"""


@pytest.mark.parametrize("function", ["price", "other"])
def test_in_lua_itself(tmp_path, capsys, core, function):
    """Lua's own loop faults, in no call to C."""
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    run = Run(tmp_path, BEGIN + IN_LUA_ITSELF, function, with_core=True)
    assert run.status == -signal.SIGSEGV, run.err
    stack = run.logged_stack
    logged = rows(stack[next(at for at, frame in enumerate(stack) if frame["language"] == "lua") :])
    assert [row[0] for row in logged].count("lua") == (1 if function == "price" else 3)
    assert reasons(run.report["error"]["stack"]) == []
    assert rows(run.report["error"]["stack"]) == logged
    if core_files_are_here():
        assert rows(without_inside_of_lua(stack_of_core(core(), capsys), logged)) == logged
