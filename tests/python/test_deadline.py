"""Deadlines of blocks: what a missed one reports, and the exception that ends the block."""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
import threading
import time

import pytest
import stacksplice
from stacksplice import DeadlineExceeded, deadline
from subinterpreters import CREATE

SOON = 0.02
NEVER = 3600

BEGIN = """
import glob, os, sys, threading, time
import stacksplice

def reports():
    return len(glob.glob(os.environ["STACKSPLICE_REPORT_DIR"] + "/*.json"))

def hang_until(count):
    while reports() < count:
        time.sleep(0.001)
"""


def quick(**options):
    return deadline(SOON, interrupt=True, report=False, **options)


def hang(*unused):
    """As a script does that never ends: in bytecode.  The end is that of a broken test."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        pass
    raise AssertionError("never interrupted")


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
    _, err, (report,) = reported(
        """
def work():
    hang_until(1)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
with stacksplice.deadline(0.02, name="pricing"):
    work()
"""
    )
    assert report["header"]["event"] == "deadline"
    assert report["header"]["deadline_name"] == "pricing"
    assert report["header"]["deadline_milliseconds"] == 20
    assert functions(report["error"]["stack"])[-3:] == ["hang_until", "work", "<module>"]
    assert "Thread.run" in functions(report["threads"][0]["stack"])
    assert "DeadlineExceeded: pricing has not ended within 0.02 s\nStack of thread " in err
    (file,) = tmp_path.glob("*.json")
    shown = child(
        "import runpy\nrunpy.run_module('stacksplice', run_name='__main__')", "show", str(file)
    ).stdout
    assert "pricing has not ended within 0.02 s" in shown and "in work" in shown


def test_met(reported):
    out, err, reports = reported(
        """
for _ in range(100):
    with stacksplice.deadline(3600), stacksplice.deadline(3600, interrupt=True):
        pass
"""
    )
    assert (out, err, reports) == ("", "", [])


def test_two_threads_at_once(reported):
    _, _, reports = reported(
        """
def late():
    with stacksplice.deadline(0.02):
        hang_until(2)
threads = [threading.Thread(target=late) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    assert len({report["error"]["thread_id"] for report in reports}) == 2
    for report in reports:
        assert "late" in functions(report["error"]["stack"])


def test_child(reported):
    out, _, (report,) = reported(
        """
with stacksplice.deadline(3600, interrupt=True):
    pid = os.fork()
    if not pid:
        try:
            with stacksplice.deadline(0.02, interrupt=True):
                while True: pass
        except stacksplice.DeadlineExceeded as exc:
            print(exc, flush=True)
    else:
        assert os.waitpid(pid, 0)[1] == 0
"""
    )
    assert out == "this block has not ended within 0.02 s\n"
    assert report["header"]["pid"] == report["error"]["thread_id"]


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


# ---- The exception ---------------------------------------------------------------------------------


def test_exception():
    with pytest.raises(DeadlineExceeded) as caught, quick(name="work"):
        hang()
    exc = caught.value
    assert isinstance(exc, TimeoutError)
    assert str(exc) == "work has not ended within 0.02 s"
    assert caught.traceback[-1].name == "hang"
    assert repr(pickle.loads(pickle.dumps(exc))) == repr(exc)
    assert repr(DeadlineExceeded()) == "DeadlineExceeded()"


def test_exception_crosses_borders(price):
    """It passes through Lua as any other does, and has its hresult."""
    with pytest.raises(DeadlineExceeded) as caught, quick():
        price(hang)
    info = stacksplice.error_info(caught.value)
    assert info.hresult & 0xFFFFFFFF == 0x800705B4
    languages = [frame.language for frame in info.stack if frame.kind == "script"]
    assert "lua" in languages and languages[0] == "python"


def test_in_each_thread():
    said = []

    def late(name):
        try:
            with quick(name=name):
                hang()
        except DeadlineExceeded as exc:
            said.append(str(exc).split()[0])

    threads = [threading.Thread(target=late, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["a", "b", "c"]


def test_caught_in_the_block():
    """Whoever catches it in the block and goes on gets it again."""
    caught = 0
    with pytest.raises(DeadlineExceeded), quick():
        while True:
            try:
                hang()
            except DeadlineExceeded:
                caught += 1
                if caught == 2:
                    raise
    assert caught == 2


def test_cleared_in_the_block():
    """SQLite clears what its callbacks raise, before 3.12 without making the exception."""
    connection = pytest.importorskip("sqlite3").connect(":memory:")
    connection.set_trace_callback(hang)
    with pytest.raises(DeadlineExceeded, match="^this block"), quick():
        connection.execute("select 1")
        hang()
    connection.set_trace_callback(None)
    connection.close()


def test_nested():
    with pytest.raises(DeadlineExceeded, match="^outer"):  # noqa: SIM117
        with quick(name="outer"):
            with pytest.raises(DeadlineExceeded):
                with quick(name="inner"):
                    hang()
            hang()
    with deadline(NEVER, interrupt=True):
        with pytest.raises(DeadlineExceeded, match="^inner"), quick(name="inner"):
            hang()
        for _ in range(1000):
            pass


def test_function():
    @deadline(SOON, interrupt=True, report=False)
    def late(then):
        """What it does."""
        then()
        return 1

    assert late.__doc__ == "What it does."
    for _ in range(2):
        with pytest.raises(DeadlineExceeded, match=r"^test_function\.<locals>\.late has not ended"):
            late(hang)
    with pytest.raises(TypeError, match="^test_function.<locals>.task runs after its call has returned"):

        @deadline(1)
        async def task():
            pass


def test_never_after_the_block():
    """The block ends at about the time of its deadline."""
    inside = 0
    for i in range(300):
        try:
            with deadline(0.001, interrupt=True, report=False):
                for _ in range(i * 100):
                    pass
        except DeadlineExceeded:
            inside += 1
        for _ in range(1000):
            pass
    assert inside <= 300


# Everything between the two is one call of C, in which nothing can be raised.
ENDS_IN_C = """
import collections, functools, operator, signal, sys, time
import stacksplice

signal.alarm(30)
block = stacksplice.deadline(0.02, interrupt=True, report=False)
block.__enter__()
calls = [functools.partial(time.sleep, 0.2), functools.partial(block.__exit__, None, None, None)]
collections.deque(map(operator.call, calls), maxlen=0)
sys.settrace(lambda *_: None)
print((lambda: "goes on")())
"""


# The late thread sleeps until it is told to stop.
STRUCK_IN_C = """
import os, signal, sys, threading, time
import stacksplice

def late():
    try:
        with stacksplice.deadline(0.02, interrupt=True, report=False):
            os.read(reader, 1)
    except stacksplice.DeadlineExceeded:
        print("late")

signal.alarm(30)
reader, writer = os.pipe()
thread = threading.Thread(target=late)
thread.start()
time.sleep(0.2)
sys.settrace(lambda *_: None)
(lambda: 0)()
os.write(writer, b"x")
thread.join()
"""


def test_others_go_on_while_the_late_thread_is_in_c(child):
    """Also if they are traced by 3.11."""
    assert child(STRUCK_IN_C).stdout == "late\n"


def test_nothing_stays_of_an_exception_that_was_not_raised(child):
    """Else a traced call of 3.11 never begins."""
    assert child(ENDS_IN_C).stdout == "goes on\n"


# Finalizers of garbage may run in the thread that strikes.
FINALIZERS = """
import gc, sys, threading, time
import stacksplice

class Cycle:
    def __init__(self): self.me = self
    def __del__(self): (lambda: 0)()

def make():
    while time.monotonic() < stop: Cycle()

def late():
    while time.monotonic() < stop:
        try:
            with stacksplice.deadline(0, interrupt=True, report=False):
                while True: pass
        except stacksplice.DeadlineExceeded:
            pass

others = []
sys.unraisablehook = lambda raised: others.append(raised.exc_type)
gc.set_threshold(1)
stop = time.monotonic() + 1
threads = [threading.Thread(target=f) for f in (make, late, late, late, late)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(others.count(TimeoutError))
"""


def test_finalizers_get_no_exception_of_ours(child):
    assert child(FINALIZERS).stdout == "0\n"


def hang_in_except():
    try:
        raise KeyError("x")
    except KeyError:
        hang()


def hang_in_finally():
    try:
        raise KeyError("x")
    finally:
        hang()


def hang_in_exit():
    with contextlib.ExitStack() as stack:
        stack.push(hang)
        raise KeyError("x")


@pytest.mark.parametrize("late", [hang_in_except, hang_in_finally, hang_in_exit])
def test_in_clean_up_code(late):
    """It is interrupted, too, as by Ctrl-C, and the exception on its way is not lost."""
    with pytest.raises(DeadlineExceeded) as caught, quick():
        late()
    assert isinstance(caught.value.__context__, KeyError)


def test_ends_by_another_exception():
    with pytest.raises(KeyError), quick():
        {}["x"]
    time.sleep(SOON * 2)


def test_many_late_at_once(child):
    """One thread serves them all.  Each suspended task gets its exception once it runs."""
    source = """
import asyncio, os, time
import stacksplice

async def late(ready):
    try:
        with stacksplice.deadline(0.02, interrupt=True, report=False):
            await ready.wait()
            while True: pass
    except stacksplice.DeadlineExceeded:
        return 1

async def main():
    ready = asyncio.Event()
    few = [asyncio.create_task(late(ready)) for _ in range(3)]
    many = [asyncio.create_task(late(asyncio.Event())) for _ in range(400)]
    await asyncio.sleep(0.2)
    print(len(os.listdir("/proc/self/task")))
    ready.set()
    print(sum(await asyncio.gather(*few)))
    for task in many: task.cancel()
    print(len(await asyncio.gather(*many, return_exceptions=True)))

asyncio.run(main())
"""
    threads, few, many = child(source).stdout.split()
    assert int(threads) <= 3 and (few, many) == ("3", "400")


def test_many_late_threads():
    """Blocks in blocks, in many threads: each thread gets an exception, one block after the other."""
    said = []

    def nest(depth):
        with quick(name=str(depth)):
            nest(depth - 1) if depth else hang()

    def late():
        try:
            nest(10)
        except DeadlineExceeded as exc:
            said.append(exc)

    threads = [threading.Thread(target=late) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 20


@pytest.mark.parametrize("isolated", [False, True])
def test_subinterpreter(child, isolated):
    if isolated and sys.version_info < (3, 12):
        pytest.skip("no interpreter has a lock of its own")
    source = f"""
import stacksplice
made = create({isolated})
run(made, '''
import stacksplice
try:
    with stacksplice.deadline(0.02, interrupt=True, report=False):
        while True: pass
except stacksplice.DeadlineExceeded as exc:
    print(exc, flush=True)
''')
interpreters.destroy(made)
"""
    assert child(CREATE + source).stdout == "this block has not ended within 0.02 s\n"


@pytest.mark.parametrize("where", ["thread", "generator", "exit"])
def test_at_exit(child, where):
    """The interpreter ends while a block is late."""
    source = {
        "thread": """
def late():
    with stacksplice.deadline(0.01, interrupt=True, report=False):
        started.set()
        time.sleep(1000)
threading.Thread(target=late, daemon=True).start()
started.wait()
time.sleep(0.03)
""",
        "generator": """
def late():
    with stacksplice.deadline(0.01, interrupt=True, report=False):
        yield
items = late()
next(items)
time.sleep(0.03)
""",
        "exit": """
import atexit
@atexit.register
def late():
    with stacksplice.deadline(0, interrupt=True, report=False):
        time.sleep(0.03)
with stacksplice.deadline(1000, interrupt=True):
    pass
""",
    }[where]
    begin = "import stacksplice, threading, time\nstarted = threading.Event()\n"
    assert child(begin + source + "print('done')").stdout == "done\n"


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
    with pytest.raises(ValueError, match="^report can only be false if interrupt is true$"):
        deadline(5, report=False)
    once = deadline(NEVER)
    with once as same, pytest.raises(RuntimeError, match="in use"):
        assert same is once
        with once:
            pass
    with once:
        pass
    with pytest.raises(RuntimeError, match="__init__"):
        deadline.__new__(deadline).__enter__()
