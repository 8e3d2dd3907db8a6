"""Python frames in the combined stack, against the chain of sys._getframe() and the one-function oracle."""

from __future__ import annotations

import contextlib
import sys

import pytest
from building import HERE
from frame_oracle import Checker
from racing import race

sys.path.append(str(HERE.parent / "proof"))

import workloads  # noqa: E402


@pytest.mark.parametrize(
    "work", [*workloads.IN_ANY_THREAD, workloads.signals], ids=lambda work: work.__name__
)
def test_every_call_of_real_work(check, work):
    """By C of Python and of libraries: special methods, keys, generators, tasks, parsers, databases."""
    sys.setprofile(check)
    try:
        work()
    finally:
        sys.setprofile(None)
    check.assert_good(10)


def test_200_inlined_calls(check):
    def down(n):
        return check() if n == 0 else down(n - 1)

    down(200)


def test_c_extension_six_nested(check, border):
    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    level(6)


def test_lock_released_in_c(check):
    check.without_lock = True
    sorted([2, 1], key=check)


def test_while_exceptions_are_handled(check):
    with contextlib.suppress(ValueError):
        try:
            raise ValueError
        except ValueError:
            try:
                raise KeyError
            except KeyError:
                check()
            raise
        finally:
            check()


def test_init(check):
    class Plain:
        def __init__(self):
            check()

    for _ in range(50):  # long enough for the call to be specialised
        Plain()
    check.assert_good(50)


@pytest.mark.parametrize("without_lock", [False, True])
def test_six_threads_racing(border, without_lock):
    """At a switch interval of 10 µs."""
    checkers = [Checker(border) for _ in range(6)]

    def work(checker):
        checker.without_lock = without_lock
        for _ in range(40):
            sorted([2, 1], key=lambda x: checker())

    race(work, [(checker,) for checker in checkers])
    for checker in checkers:
        checker.assert_good(80)


def test_inside_settrace(check):
    def trace(frame, event, argument):
        if frame.f_code.co_name == "traced":
            check()
        return trace

    def traced():
        return 1

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        traced()
    finally:
        sys.settrace(old)


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
