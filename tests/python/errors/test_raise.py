"""install(capture_at_raise=True): the stack at the raise itself, once for each exception."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest
import stacksplice
from building import ran
from gap_reasons import AWAITED, KEPT, RUN_BY_LOOP
from raising import caught, names, reasons, without_names  # noqa: F401

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring before 3.12")


@pytest.fixture
def at_raise():
    stacksplice.install(capture_at_raise=True)
    yield
    stacksplice.uninstall()


def raise_deep(n):
    if n:
        return sorted([n], key=lambda x: raise_deep(n - 1))
    raise ValueError("deep")


def test_the_stack_is_whole(at_raise):
    exc = caught(raise_deep, 2)
    info = stacksplice.originate(exc)
    found = names(info.stack)
    assert found[:5] == ["raise_deep", "<lambda>", "raise_deep", "<lambda>", "raise_deep"]
    assert found[5:7] == ["caught", "test_the_stack_is_whole"]
    assert reasons(info.stack) == []
    assert all(frame.trust == "exact" for frame in info.stack)
    # Between the Python frames stand the native ones that were unwound: those of sorted().
    first = [frame.kind for frame in info.stack].index("native")
    last = max(i for i, frame in enumerate(info.stack) if (frame.function or "").endswith("raise_deep"))
    assert first < last
    lines = [frame.line for frame in info.stack if (frame.function or "").endswith("raise_deep")]
    assert lines[0] == raise_deep.__code__.co_firstlineno + 3
    assert set(lines[1:]) == {raise_deep.__code__.co_firstlineno + 2}
    assert stacksplice.error_info(exc) == info
    stacksplice.take_error()


def test_raised_in_c_functions(at_raise):
    for function, argument in [(int, "x"), (json.loads, "{"), ({}.__getitem__, 1), (len, 1)]:
        info = stacksplice.originate(caught(function, argument))
        assert reasons(info.stack) == []
        assert names(info.stack)[-1:] and "caught" in names(info.stack)


def test_first_sight_wins(at_raise):
    def first():
        raise KeyError("kept")

    def again(exc):
        raise exc

    exc = caught(first)
    assert caught(again, exc) is exc
    assert names(stacksplice.originate(exc).stack)[:2] == ["first", "caught"]


def test_tasks_and_threads(at_raise):
    found = []

    async def fail():
        await asyncio.sleep(0)
        raise OSError("task")

    async def main():
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        return task.exception()

    found.append(stacksplice.originate(asyncio.run(main())))
    thread = threading.Thread(target=lambda: found.append(caught(raise_deep, 0)))
    thread.start()
    thread.join()
    found[1] = stacksplice.originate(found[1])
    assert names(found[0].stack)[0] == "fail" and "run_forever" in names(found[0].stack)
    assert names(found[1].stack)[-1] == "_bootstrap"
    assert [reasons(info.stack) for info in found] == [[AWAITED, RUN_BY_LOOP], []]


def test_nothing_is_kept_alive(at_raise):
    class Error(Exception):
        alive = 0

        def __init__(self):
            Error.alive += 1

        def __del__(self):
            Error.alive -= 1

    def fail():
        raise Error

    gc.disable()
    try:
        for _ in range(100):
            caught(fail).__traceback__ = None
        # The frames of the last traceback may hold one; nothing of ours does.
        assert Error.alive <= 1
    finally:
        gc.enable()


def test_tool_ids_are_shared_politely(at_raise):
    monitoring = sys.monitoring
    stacksplice.install(capture_at_raise=True)  # again: nothing new
    assert [monitoring.get_tool(tool) for tool in range(6)].count("stacksplice") == 1
    stacksplice.uninstall()
    assert "stacksplice" not in [monitoring.get_tool(tool) for tool in range(6)]
    taken = [tool for tool in (3, 4, 5) if monitoring.get_tool(tool) is None]
    for tool in taken:
        monitoring.use_tool_id(tool, f"tool {tool}")
    try:
        hook = sys.excepthook
        with pytest.raises(RuntimeError, match="in use: 3 by 'tool 3'"):
            stacksplice.install(capture_at_raise=True)
        assert sys.excepthook is hook
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)
    stacksplice.install()  # it takes one by itself where others' code may be on the stack
    assert [monitoring.get_tool(tool) for tool in range(6)].count("stacksplice") <= 1
    stacksplice.uninstall()
    assert "stacksplice" not in [monitoring.get_tool(tool) for tool in range(6)]


def test_it_is_the_same_exception_to_everybody_else(at_raise):
    exc = caught(raise_deep, 1)
    text = "".join(traceback.format_exception(exc))
    stacksplice.uninstall()
    plain = caught(raise_deep, 1)
    assert text == "".join(traceback.format_exception(plain))
    assert repr(exc) == repr(plain)
    assert dir(exc) == dir(plain) and vars(exc) == {}
    assert exc.__reduce__() == plain.__reduce__() and pickle.dumps(exc) == pickle.dumps(plain)


def test_at_the_end_of_the_interpreter(child):
    done = child("""
import atexit, stacksplice
stacksplice.install(capture_at_raise=True)
class Late:
    def __del__(self):
        try:
            {}["x"]
        except KeyError:
            print("late")
late = Late()
""")
    assert done.stdout == "late\n"


# ---- Beside coverage, debuggers and profilers ----------------------------------------------------


# Says what it found as one line of JSON: the stack of an exception that was unwound to a border, and
# that of the same exception when it was raised again.
SCRIPT = """\
import json, sys
import border, stacksplice
stacksplice.install(capture_at_raise=True)


def deep(n):
    if n:
        return sorted([n], key=lambda x: deep(n - 1))
    raise ValueError("deep")


def again(exc):
    raise exc


def look():
    try:
        border.call(deep, 2)
    except ValueError as exc:
        kept = exc
    try:
        border.call(again, kept)
    except ValueError as exc:
        assert exc is kept
    stack = stacksplice.error_info(kept).stack
    names = [frame.function.rpartition(".")[2] for frame in stack if frame.kind == "script"]
    gaps = [frame.reason for frame in stack if frame.kind == "gap"]
    tools = [sys.monitoring.get_tool(tool) for tool in range(6)]
    print(json.dumps({"names": names, "gaps": gaps, "tools": tools}))


look()
"""


WHOLE = ["deep", "<lambda>", "deep", "<lambda>", "deep", "look", "again", "look"]


GAPS = [KEPT, "unknown frames in between"]


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(child, script: Path, *arguments: str, typed: str = "", **environment: str):
    """What SCRIPT found, run by the module and with the arguments given; and the whole output."""
    done = ran(
        sys.executable, *arguments, input=typed, env={**child.environment, **environment}, cwd=script.parent
    )
    lines = [line[line.index('{"names"') :] for line in done.stdout.splitlines() if '{"names"' in line]
    found = [json.loads(line) for line in lines]
    for one in found:
        assert one["names"][: len(WHOLE)] == WHOLE and one["gaps"] == GAPS, one
        assert one["tools"].count("stacksplice") == 1
    return found, done.stdout + done.stderr


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage(child, script, core):
    pytest.importorskip("coverage")
    environment = {"COVERAGE_CORE": core, "COVERAGE_FILE": str(script.parent / ".coverage")}
    (found,), output = run(child, script, "-m", "coverage", "run", str(script), **environment)
    if core == "sysmon":
        assert found["tools"][sys.monitoring.COVERAGE_ID] == "coverage.py", output
    run_report = [sys.executable, "-m", "coverage", "json", "-q", "-o", "report.json"]
    subprocess.run(run_report, check=True, cwd=script.parent, env={**child.environment, **environment})
    files = json.loads((script.parent / "report.json").read_text())["files"]
    (measured,) = (values for name, values in files.items() if name.endswith("script.py"))
    assert measured["missing_lines"] == [] and len(measured["executed_lines"]) > 20


def test_pdb(child, script):
    line = SCRIPT.splitlines().index('    raise ValueError("deep")') + 1
    typed = f"break {line}\ncontinue\nwhere\nnext\nnext\nclear 1\ncontinue\nquit\n"
    (found,), output = run(child, script, "-m", "pdb", str(script), typed=typed)
    assert f"script.py({line})deep()" in output
    assert "ValueError: deep" in output  # `next` stops where it is raised


def test_a_debugger_of_sys_monitoring(child, script):
    """One that sees each event and raises exceptions of its own meanwhile."""
    watching = """\
import sys
monitoring, seen = sys.monitoring, []
monitoring.use_tool_id(monitoring.DEBUGGER_ID, "debugger")
def inner(*arguments):
    try:
        {}["inside"]
    except KeyError:
        seen.append(arguments[-1])
for event in ("RAISE", "RERAISE", "PY_UNWIND", "EXCEPTION_HANDLED"):
    monitoring.register_callback(monitoring.DEBUGGER_ID, getattr(monitoring.events, event), inner)
events = monitoring.events
monitoring.set_events(
    monitoring.DEBUGGER_ID,
    events.RAISE | events.RERAISE | events.PY_UNWIND | events.EXCEPTION_HANDLED,
)
"""
    script.write_text(watching + SCRIPT + "assert len(seen) > 10\n")
    (found,), _ = run(child, script, str(script))
    assert found["tools"][0] == "debugger"


@pytest.mark.parametrize("module", ["cProfile", "trace --count --coverdir=."])
def test_profilers(child, script, module):
    (found,), output = run(child, script, "-m", *module.split(), str(script))
    if module == "cProfile":
        assert "script.py:6(deep)" in output


def test_bdb_by_monitoring(child, script):
    if sys.version_info < (3, 14):
        pytest.skip("bdb uses sys.monitoring from 3.14 on")
    debugging = """
import bdb
class Debugger(bdb.Bdb):
    seen = 0
    def user_exception(self, frame, info): Debugger.seen += 1; self.set_step()
    def user_line(self, frame): self.set_step()
debugger = Debugger(backend="monitoring")
debugger.runcall(look)
assert Debugger.seen
"""
    script.write_text(SCRIPT + debugging)
    found, _ = run(child, script, str(script))
    assert [one["tools"][0] for one in found] == [None, "bdbtracer"]
