"""Python frames where interpreters, threads and the C library call Python in unusual ways.

Each scenario compares with the chain of sys._getframe() and with the one-function oracle.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from building import HERE, PACKAGE, ran
from frame_oracle import Checker
from racing import race

# ---- The interpreter calls back ---------------------------------------------------------------------


def test_import_and_warnings(check, tmp_path, monkeypatch):
    (tmp_path / "checked_module.py").write_text("import builtins\nbuiltins.checked_here()\n")
    monkeypatch.setattr("builtins.checked_here", check, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("checked_module")
    monkeypatch.setattr(sys, "displayhook", check)
    exec(compile("1", "<shown>", "single"))
    monkeypatch.setattr(sys, "unraisablehook", check)

    class Bad:
        def __del__(self):
            raise ValueError

    Bad()
    assert check.count == 3


def test_trace_of_every_opcode(check):
    def trace(frame, event, argument):
        if frame.f_code.co_name != "traced":
            return None
        frame.f_trace_opcodes = True
        check()
        return trace

    def traced(n):
        total = [i for i in range(n)]
        try:
            raise ValueError(total)
        except ValueError:
            return total

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        traced(3)
    finally:
        sys.settrace(old)
    assert check.count > 10


def test_generators_thrown_into_and_closed(check):
    def inner():
        try:
            yield check()
        except ValueError:
            yield check()
        finally:
            check()

    def outer():
        return (yield from inner())

    generator = outer()
    next(generator)
    generator.throw(ValueError())
    generator.close()
    dropped = outer()
    next(dropped)
    del dropped
    assert check.count == 5


# ---- Signals, threads ----------------------------------------------------------------------------


def test_signals_from_a_timer(check):
    """The handler runs wherever the interpreter happens to be."""

    def work():
        end = time.monotonic() + 10
        while check.count < 25 and time.monotonic() < end:
            sorted(range(50), key=lambda x: -x)

    def handler(*_):
        check()
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # only now: the check is slower than the timer

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    check.assert_good(25)


def test_threads_that_raise_collect_and_generate(border):
    """Racing threads in the middle of everything, at a switch interval of 10 µs."""

    class Cycle:
        def __init__(self, checker):
            self.me, self.checker = self, checker

        def __del__(self):
            self.checker()

    def work(checker):
        for number in range(25):
            checker.without_lock = number % 2 == 1
            Cycle(checker)
            try:
                next(checker() for _ in (1,))
                raise KeyError(number)
            except KeyError:
                list(map(checker, [1]))
            checker.without_lock = False
            border.call_plain(checker)

    checkers = [Checker(border) for _ in range(6)]
    race(work, [(checker,) for checker in checkers])
    for checker in checkers:
        checker.assert_good(75)


# ---- Whole processes -----------------------------------------------------------------------------

JIT = """
import sys
import border, frame_oracle, stacksplice
capture = border.capture_both
def hot(n):
    seen = []
    for i in range(n):
        seen.append(capture())
        i & 3
    return seen
def keyed(n):
    seen = []
    sorted(range(n), key=lambda x: seen.append(capture()) or x)
    return seen
expected = {hot: ["hot", "<module>"], keyed: ["keyed.<locals>.<lambda>", "keyed", "<module>"]}
gaps = count = 0
for function, names in expected.items():
    for _ in range(2):
        found = function(5000)
        for hr, combined in {(hr, tuple(combined)) for hr, combined, native in found}:
            stack = stacksplice.Stack(combined)
            assert [f[1] for f in frame_oracle.python_frames(stack)] == names, stack
            reasons = [f.reason for f in stack if f.kind == "gap"]
            # What the walk could not pass is said, and it is nothing of Python's.
            assert not [f for f in stack if f.kind == "gap" and f.language == "python"], stack
            assert reasons or stack[-1].function in ("_start", None), stack
            gaps += bool(reasons)
        count += len(found)
print(getattr(sys, "_jit", None) is not None and sys._jit.is_enabled(), gaps, count)
"""


def test_hot_loop_with_the_jit(child):
    """3.14 on, where it is built in: Python's frames are complete; what is hidden is said."""
    enabled, _, count = child(JIT, PYTHON_JIT="1").stdout.split()
    available = sys.version_info >= (3, 14) and sys._jit.is_available()
    assert (enabled, count) == (str(available), "20000")


def executable() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def has_symbols(program: Path) -> bool:
    listed = subprocess.run(["readelf", "-SW", str(program)], capture_output=True, text=True)
    return " .symtab " in listed.stdout


def test_stripped_interpreter(tmp_path, border_path):
    """The scenarios of test_frames.py in a copy of the interpreter without a symbol table."""
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and not has_symbols(executable()):
        pytest.skip("the interpreter is a shared library")
    if not has_symbols(executable()):
        pytest.skip("this interpreter is stripped: every test here runs without its symbols")
    program = tmp_path / "python"
    subprocess.run(["strip", "-o", str(program), str(executable())], check=True)
    assert not has_symbols(program)
    paths = [PACKAGE.parent, HERE, sysconfig.get_path("purelib")]
    environment = {
        **os.environ,
        "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    command = [str(program), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_frames.py")]
    command += ["-k", "not interpreter"]  # those start children of sys.executable
    ran(*command, env=environment)
    assert shutil.which("strip")
