"""Deadlines of blocks: what a missed one reports, and which are missed."""

from __future__ import annotations

import json

import pytest
import stacksplice
from stacksplice import deadline

BEGIN = """
import glob, os, sys, threading, time
import stacksplice

def reports():
    return len(glob.glob(os.environ["STACKSPLICE_REPORT_DIR"] + "/*.json"))

def hang_until(count):
    while reports() < count:
        time.sleep(0.001)
"""


@pytest.fixture
def reported(child, tmp_path):
    """Called with a program that misses deadlines: its output, its stderr, and its reports."""

    def run(source, *arguments):
        done = child(BEGIN + source, *arguments, STACKSPLICE_REPORT_DIR=str(tmp_path))
        return done.stdout, done.stderr, [json.loads(f.read_text()) for f in tmp_path.glob("*.json")]

    return run


def functions(stack):
    return [frame["function"] for frame in stack if frame["kind"] == "script"]


# ---- The report ------------------------------------------------------------------------------------


def test_report(reported, child, tmp_path):
    _, err, (report,) = reported("""
def work():
    hang_until(1)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
with stacksplice.deadline(0.02, name="pricing"):
    work()
""")
    assert report["header"]["event"] == "deadline"
    assert report["header"]["deadline_name"] == "pricing"
    assert report["header"]["deadline_milliseconds"] == 20
    assert functions(report["error"]["stack"])[-3:] == ["hang_until", "work", "<module>"]
    assert "Thread.run" in functions(report["threads"][0]["stack"])
    assert "DeadlineExceeded: pricing did not finish within 0.02 s\nStack of thread " in err
    (file,) = tmp_path.glob("*.json")
    shown = child(
        "import runpy\nrunpy.run_module('stacksplice', run_name='__main__')", "show", str(file)
    ).stdout
    assert "pricing did not finish within 0.02 s" in shown and "in work" in shown


def test_met(reported):
    """None of those that have ended by the time the last one is missed."""
    _, _, (report,) = reported("""
def suspended():
    with stacksplice.deadline(0.2, name="suspended"):
        yield

@stacksplice.deadline(0.2)
def called():
    raise KeyError

for _ in range(100):
    with stacksplice.deadline(3600), stacksplice.deadline(0.2, name="met"):
        pass
items = suspended()
next(items)
del items
stacksplice.deadline(0.2, name="dropped").__enter__()
try:
    called()
except KeyError:
    pass
with stacksplice.deadline(0.25, name="missed"):
    hang_until(1)
""")
    assert report["header"]["deadline_name"] == "missed"


def test_function(reported):
    _, _, (report,) = reported("""
@stacksplice.deadline(0.02)
def late(count):
    hang_until(count)
late(1)
assert late.__name__ == "late"
""")
    assert report["header"]["deadline_name"] == "late"


def test_hung_in_lua(reported, crossing_folder):
    """Python calls Lua, which calls Python, which calls Lua, which hangs."""
    _, _, (report,) = reported(
        """
sys.path.insert(0, sys.argv[1])
import crossing

def inner():
    crossing.run("local done = ... local function spin() while py(done) == 0 do end end spin()", reports)

with stacksplice.deadline(0.02):
    crossing.run("local f = ... local function outer() py(f) return 1 end outer()", inner)
""",
        str(crossing_folder),
    )
    stack = [frame for frame in report["error"]["stack"] if frame["kind"] == "script"]
    stack = stack[next(i for i, frame in enumerate(stack) if frame["function"] == "spin") :]
    assert [f["language"] for f in stack] == ["lua", "lua", "python", "lua", "lua", "python"]
    assert [stack[i]["function"] for i in (0, 2, 3, 5)] == ["spin", "inner", "outer", "<module>"]


# ---- Arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e9])
def test_seconds_out_of_range(seconds):
    with pytest.raises(ValueError, match="^seconds must be between 0 and 4294967"):
        deadline(seconds)


def test_arguments():
    with pytest.raises(TypeError, match="^seconds must be a number, not str$"):
        deadline("5")
    with pytest.raises(TypeError, match="^name must be a string or None, not int$"):
        deadline(5, name=5)
    with pytest.raises(ValueError, match="^name must have no null character$"):
        deadline(5, name="a\0b")
    with pytest.raises(TypeError, match="^interrupt must be a bool, not int$"):
        deadline(5, interrupt=1)
    with pytest.raises(TypeError, match=r"^test_arguments\.<locals>\.task runs after its call has returned"):

        @deadline(1)
        async def task():
            pass

    once = deadline(3600)
    with once as same, pytest.raises(RuntimeError, match="in use"):
        assert same is once
        with once:
            pass
    with once:
        pass


# ---- Reports by signal -----------------------------------------------------------------------------


def test_a_signal_has_every_thread_reported(reported, child, tmp_path):
    """Also while a thread of C holds the interpreter's lock; the page and show read the file."""
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    _, err, (report,) = reported("""
import lupa.lua54, signal, subprocess
stacksplice.install()
stacksplice.report_on_signal(signal.SIGUSR1)
lua = lupa.lua54.LuaRuntime()
lua.globals().hang_until = hang_until
lua.execute("function rules() hang_until(1) return 1 end", name="@rules.lua")
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
threading.Timer(0.3, lambda: subprocess.run(["kill", "-USR1", str(os.getpid())])).start()
lua.globals().rules()
""")
    assert report["header"]["event"] == "report_on_signal"
    # The kernel chooses the thread that gets the signal.
    stacks = [functions(thread["stack"]) for thread in [report["error"], *report["threads"]]]
    assert ["hang_until", "rules", "<module>"] in [stack[-3:] for stack in stacks]
    assert any("Thread.run" in stack for stack in stacks)
    assert "ReportRequested: signal 10 asked for the stacks of all threads\nStack of thread " in err
    (file,) = tmp_path.glob("*.json")
    run = "import runpy\nrunpy.run_module('stacksplice', run_name='__main__')"
    assert "signal 10 asked for the stacks" in child(run, "show", str(file)).stdout
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("pygments", reason="pygments is not installed")
    assert "got the signal" in child(run, "show", "--html", "-", str(file)).stdout


def test_python_takes_the_signal_back(child):
    done = child("""
import signal, stacksplice, time
stacksplice.report_on_signal(signal.SIGUSR1)
signal.signal(signal.SIGUSR1, lambda number, frame: print("ours"))
signal.raise_signal(signal.SIGUSR1)
""")
    assert (done.stdout, done.stderr) == ("ours\n", "")


@pytest.mark.parametrize("wrong", [0, -1, 9, 11, 1 << 40, 1 << 80])
def test_what_is_no_signal_that_can_be_asked_by(wrong):
    with pytest.raises(ValueError, match=f"number must be a signal .*, not {wrong}$"):
        stacksplice.report_on_signal(wrong)


def test_a_signal_is_a_number():
    with pytest.raises(TypeError, match="number must be int, not str"):
        stacksplice.report_on_signal("SIGUSR1")
