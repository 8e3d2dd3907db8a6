"""Python frames in the combined stack, against the chain of sys._getframe() and the one-function oracle."""

from __future__ import annotations

import sys

import pytest
from building import TESTS
from frame_oracle import Checker
from racing import race

sys.path.append(str(TESTS / "proof"))

try:
    from workloads import IN_ANY_THREAD, signals
except ImportError as missing:  # this Python lacks one of its own modules
    WORK = [pytest.param(None, id="none", marks=pytest.mark.skip(reason=str(missing)))]
else:
    WORK = [pytest.param(work, id=work.__name__) for work in (*IN_ANY_THREAD, signals)]


@pytest.mark.parametrize("work", WORK)
def test_every_call_of_real_work(check, work):
    """By C of Python and of libraries: keys, generators, tasks, parsers, databases."""
    sys.setprofile(check)
    try:
        work()
    finally:
        sys.setprofile(None)
    check.assert_good(10)


def test_c_extension_six_nested(check, border):
    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    level(6)


def test_lock_released_in_c(check):
    check.without_lock = True
    sorted([2, 1], key=check)


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


AT_EXIT = """
import atexit, threading
import border, frame_oracle
checker = frame_oracle.Checker(border)
def last():
    list(map(checker, [1]))
    checker.assert_good(3)
    print("checked at exit")
atexit.register(last)
atexit.register(lambda: checker())
threading._register_atexit(checker)
"""


def test_atexit(child):
    assert child(AT_EXIT).stdout == "checked at exit\n"


def test_names_that_are_not_ascii(check, tmp_path):
    path = tmp_path / "größe_日本.py"
    source = "def größe_日本():\n    return check()\ndef 𝔘():\n    return größe_日本()\n𝔘()\n"
    exec(compile(source, str(path), "exec"), {"check": check})
