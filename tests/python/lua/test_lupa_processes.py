"""lupa and install() in other processes, at exit, and where lupa calls back deeply."""

from __future__ import annotations

import subprocess
import sys

import lupa_runtimes
import pytest
import stacksplice
from building import ran
from lupa_runtimes import runtime_of
from raising import caught

lua = lupa_runtimes.lua
each_lua = pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)

BEGIN = """
import atexit, gc, importlib, multiprocessing, os, sys, threading, time
import stacksplice
stacksplice.install()

def make():
    runtime = importlib.import_module("lupa." + sys.argv[1]).LuaRuntime()
    runtime.globals().rate = {}.__getitem__
    runtime.execute('''
    function price(currency) local found = rate(currency) return found end
    function fails() error("no price") end
    function generate() coroutine.yield(1) fails() end
    function spin() while true do end end
    ''', name="@rules")
    return runtime

def told(function, *arguments):
    try:
        function(*arguments)
    except Exception as exc:
        frames = stacksplice.error_info(exc).stack
        return type(exc).__name__, [frame.function for frame in frames if frame.file == "rules"]
"""
PRICE = "('KeyError', ['price'])\n"
FAILS = "('LuaError', ['fails'])\n"


@pytest.fixture
def run(tmp_path):
    """Runs SOURCE behind BEGIN: its output and errors."""

    def run(name: str, source: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"  # a file, which spawned processes import
        program.write_text(BEGIN + source)
        done = ran(sys.executable, program, name, status=status, NO_COLOR="1")
        return done

    return run


# ---- Processes -----------------------------------------------------------------------------------


@each_lua
def test_fork(run, name: str) -> None:
    """Runtimes made before and after it, and a fork by a function that Lua called."""
    done = run(
        name,
        """
runtime = make()
def fork():
    child = os.fork()
    if child == 0:
        raise KeyError("in the child")
    return os.waitpid(child, 0)[1]

child = os.fork()
if child == 0:
    print(told(runtime.globals().price, "XXX"), told(make().globals().fails), sep="\\n", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
runtime.globals().fork = fork
assert runtime.execute("local status = fork() return status") == 256
print(told(runtime.globals().price, "XXX"))
""",
    )
    assert done.stdout == PRICE + FAILS + PRICE
    assert done.stderr.endswith("KeyError: 'in the child'\n") and "(Lua)" in done.stderr


# ---- The end of the process ----------------------------------------------------------------------


@each_lua
def test_the_end_while_threads_fail(run, name: str) -> None:
    """Threads that raise, one that Lua keeps, a coroutine that has not ended, a late finalizer."""
    done = run(
        name,
        """
started = threading.Barrier(6)

def fail():
    functions = make().globals()
    started.wait()
    while True:
        told(functions.price, "XXX")
        told(functions.fails)
        told(lambda: list(functions.generate.coroutine()))

def spin():
    functions = make().globals()
    started.wait()
    functions.spin()

for target in (fail, fail, fail, fail, spin):
    threading.Thread(target=target, daemon=True).start()
started.wait()
keep = make()
half = keep.globals().generate.coroutine()
next(half)

class Late:
    def __del__(self):
        try:
            keep.globals().price("late")
        except KeyError:
            pass

cycle = [Late()]
cycle.append(cycle)
atexit.register(lambda: print(told(keep.globals().price, "XXX"), flush=True))
""",
    )
    assert done.stdout == PRICE and done.stderr == ""


@each_lua
def test_sub_interpreters(run, name: str) -> None:
    """lupa refuses them, and goes on in the first one."""
    done = run(
        name,
        """
make()
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
try:
    failed = interpreters.run_string(other, f"import lupa.{sys.argv[1]}")
except Exception as exc:
    failed = exc
print("ImportError" in str(failed))
failed = interpreters.run_string(other, "import stacksplice; stacksplice.install()")
interpreters.destroy(other)
print(told(make().globals().price, "XXX"))
""",
    )
    assert done.stdout == "True\n" + PRICE


# ---- Depth ---------------------------------------------------------------------------------------


def test_recursion_without_end(lua) -> None:
    """Of Python below Lua, and through both: each ends in its own error, whose report can be written."""
    runtime = runtime_of(lua)
    functions = runtime.globals()

    def alone() -> object:
        return alone()

    functions.alone, functions.both = alone, lambda: functions.through()
    runtime.execute(
        "function first() local found = alone() return found end "
        "function through() local found = both() return found end"
    )
    exc = caught(functions.first)
    assert type(exc) is RecursionError
    assert any("omitted here" in (frame.reason or "") for frame in stacksplice.error_info(exc).stack)
    for exc in (exc, caught(functions.through)):
        assert type(exc) in (RecursionError, lua.LuaError)
        assert stacksplice.format_exception(exc)
