"""Who keeps what alive: no leaks, no cycles, releases from anywhere."""

from __future__ import annotations

import gc
import sys
import threading
import time

import pytest
import stacksplice
from racing import race
from stacksplice import _stacksplice, winrt


class Tracked(ValueError):
    """An exception whose end can be seen."""

    alive = 0
    counting = threading.RLock()  # += is no single step where threads run at once

    def __init__(self, *arguments):
        super().__init__(*arguments)
        with self.counting:
            Tracked.alive += 1

    def __del__(self):
        with self.counting:
            Tracked.alive -= 1


@pytest.fixture(autouse=True)
def none_left():
    gc.collect()
    Tracked.alive = 0
    yield
    winrt.RoClearError()
    gc.collect()
    assert Tracked.alive == 0


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def fail(message="x"):
    raise Tracked(message)


def cross(border, function=fail) -> None:
    try:
        border.call(function)
    except (Tracked, ExceptionGroup):
        pass
    else:
        raise AssertionError


def test_exception_in_the_slot_is_alive_until_the_slot_is_cleared(border, no_gc):
    border.originate(Tracked("in the slot"))
    assert Tracked.alive == 1
    info = stacksplice.peek_error()
    assert str(info.language_exception) == "in the slot"
    del info
    winrt.RoClearError()
    assert Tracked.alive == 0


def test_replacing_the_slot_drops_the_former(border, no_gc):
    for number in range(10):
        border.originate(Tracked(str(number)))
        assert Tracked.alive == 1


def test_error_info_keeps_the_exception(no_gc):
    info = stacksplice.originate(Tracked("kept"))
    winrt.RoClearError()
    assert Tracked.alive == 1 and info.language_exception.args == ("kept",)
    assert info.message == "kept"
    del info
    assert Tracked.alive == 0


def test_cycle_through_error_info_is_collected():
    exc = Tracked("cycle")
    exc.info = stacksplice.originate(exc)
    winrt.RoClearError()
    del exc
    assert Tracked.alive == 1
    gc.collect()
    assert Tracked.alive == 0


def test_cause_lives_as_long_as_the_error_is_held(border, no_gc):
    effect = Tracked("effect")
    effect.__cause__ = Tracked("cause")
    border.originate(effect)
    del effect
    info = stacksplice.take_error()
    assert info.transformed.language_exception.args == ("cause",)
    del info
    assert Tracked.alive == 0


def test_a_cause_that_was_removed_is_told_by_value(border, no_gc):
    effect = Tracked("effect")
    effect.__cause__ = Tracked("cause")
    border.originate(effect)
    winrt.RoClearError()
    effect.__cause__ = None
    assert Tracked.alive == 1
    info = stacksplice.error_info(effect)
    assert info.transformed.message == "cause"
    assert info.transformed.language_exception is None
    border.originate(effect)
    assert stacksplice.take_error() == info
    del info, effect
    assert Tracked.alive == 0


def test_copy_that_outlives_the_original(border, no_gc):
    import copy

    exc = Tracked("original")
    border.originate(exc)
    winrt.RoClearError()
    other = copy.copy(exc)
    del exc
    for _ in range(50):  # a new object may get the old address
        again = copy.copy(other)
        border.originate(again)
        assert stacksplice.take_error().language_exception is again
    del other, again


def test_dict_that_was_emptied(border, no_gc):
    exc = Tracked("emptied")
    border.originate(exc)
    exc.__dict__.clear()
    winrt.RoClearError()
    assert stacksplice.error_info(exc).language_exception is exc  # nothing of ours was in it
    border.originate(exc)
    assert stacksplice.take_error().language_exception is exc


def test_release_on_a_thread_of_c(border, no_gc):
    exc = Tracked("held by C")
    number = border.hold(exc)
    del exc
    assert Tracked.alive == 1
    border.release_elsewhere(number)
    for _ in range(1000):  # the pending call runs between two instructions
        if Tracked.alive == 0:
            break
    assert Tracked.alive == 0


def test_many_releases_on_threads_of_c(border, no_gc):
    def work():
        for _ in range(50):
            border.release_elsewhere(border.hold(Tracked("x")))

    race(work, [()] * 4)
    stacksplice.originate(ValueError("our next entry drains what is left"))
    assert Tracked.alive == 0


def test_exception_in_the_slot_of_a_thread_that_ends(border):
    thread = threading.Thread(target=lambda: border.originate(Tracked("thread")))
    thread.start()
    thread.join()
    for _ in range(1000):  # join() returns before the thread's own end
        if Tracked.alive == 0:
            break
        time.sleep(0.01)
    assert Tracked.alive == 0


def test_del_of_the_exception_may_call_us(border, no_gc):
    seen = []

    class Calls(Tracked):
        def __del__(self):
            super().__del__()
            seen.append(border.originate(KeyError("from __del__")))

    border.originate(Calls("x"))
    winrt.RoClearError()
    assert seen == [_stacksplice.hresult_of(KeyError())]


@pytest.mark.parametrize("many", [4_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_errors_of_c_need_no_more_memory(border, no_gc, many):
    """Those of scripts are in tests/host/test_memory.py."""

    def blocks(count):
        for _ in range(count):
            try:
                border.fail(0x80070057, "native")
            except ValueError:
                pass
        return sys.getallocatedblocks()

    before = blocks(2000)
    assert blocks(many) - before < 2000


# ---- The end of things ---------------------------------------------------------------------------


def test_fork_while_threads_release(child):
    done = child("""
import os, threading, border, warnings
warnings.simplefilter("ignore")
stop = False
def work():
    while not stop:
        border.release_elsewhere(border.hold(ValueError("x")))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        border.release_elsewhere(border.hold(ValueError("child")))
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop = True
for thread in threads: thread.join()
print(set(codes))
""")
    assert done.stdout == "{0}\n"


def test_threads_that_release_while_the_interpreter_ends(child):
    """Neither C's threads nor daemon threads of Python's may meet an interpreter that is gone."""
    for _ in range(5):
        child("""
import threading, border
class Mine(ValueError): pass
held = [border.hold(Mine(number)) for number in range(500)]
def work():
    while True:
        border.release_elsewhere(border.hold(Mine()))
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for number in held:
    border.release_later(number)
""")
