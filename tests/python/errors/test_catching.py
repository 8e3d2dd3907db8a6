"""Frames that are both live and in the traceback: once, with the line where the exception passed."""

from __future__ import annotations

import contextlib
import sys

import stacksplice
from gap_reasons import RETURNED


class Truth:
    """Raises, and keeps the chain of sys._getframe() of that moment."""

    def __init__(self):
        self.chain = None

    def fail(self):
        self.note()
        raise ValueError("deep")

    def note(self):
        frame = sys._getframe(1)
        self.chain = [(frame.f_code.co_qualname, frame.f_lineno + 1)]  # the raise is on the next line
        while frame := frame.f_back:
            self.chain.append((frame.f_code.co_qualname, frame.f_lineno))


def shown(stack):
    return [(f.function, f.line) for f in stack if f.language == "python" and f.function]


def trusts(stack, function):
    return [f.trust for f in stack if f.function == function.__qualname__]


def gaps(stack):
    return [(i, f.reason) for i, f in enumerate(stack) if f.kind == "gap"]


def test_the_line_is_where_the_exception_passed(border):
    truth = Truth()

    def catches(originate):
        try:
            truth.fail()
        except ValueError as exc:
            pass_on = exc
        return originate(pass_on)

    for originate in stacksplice.originate, originate_in_c(border):
        stack = catches(originate).stack
        # Below the catching frame this test has gone on since.
        here = [name for name, _ in truth.chain].index(sys._getframe().f_code.co_qualname)
        assert shown(stack)[:here] == truth.chain[:here]
        assert [name for name, _ in shown(stack)] == [name for name, _ in truth.chain]
        assert trusts(stack, catches) == ["traceback"]
        assert gaps(stack) == [(1, RETURNED)]


def originate_in_c(border):
    def originate(exc):
        border.originate(exc)
        return stacksplice.take_error()

    return originate


def test_native_frames_around_the_catching_one_stay(border):
    truth = Truth()

    def catches():
        live = stacksplice.capture()
        try:
            truth.fail()
        except ValueError as exc:
            return stacksplice.originate(exc).stack, live

    stack, live = border.call_plain(catches)
    assert shown(stack) == truth.chain
    assert gaps(stack) == [(1, RETURNED)]
    assert stack[2].function == live[0].function == catches.__qualname__
    assert stack.addresses[3:] == live.addresses[1:]
    assert live[1].language == "native"


def test_recursion_changes_only_frames_of_the_traceback():
    truth = Truth()

    def down(n):
        if n == 0:
            truth.fail()
        if n != 3:
            return down(n - 1)
        try:
            return down(n - 1)
        except ValueError as exc:
            return stacksplice.originate(exc)

    stack = down(6).stack
    assert shown(stack) == truth.chain
    # fail, three that ended; the gap; the catching one; three that go on living.
    assert gaps(stack) == [(4, RETURNED)]
    assert trusts(stack, down) == ["traceback"] * 4 + ["exact"] * 3


def test_in_a_generator():
    truth = Truth()

    def numbers():
        try:
            yield 1
            truth.fail()
        except ValueError as exc:
            yield stacksplice.originate(exc).stack

    def consumes():
        generator = numbers()
        next(generator)
        return next(generator)

    stack = consumes()
    assert shown(stack) == truth.chain
    assert trusts(stack, numbers) == ["traceback"] and trusts(stack, consumes) == ["exact"]


def test_caught_in_a_suspended_generator_that_is_not_live():
    truth = Truth()

    def numbers():
        try:
            truth.fail()
        except ValueError as exc:
            yield exc

    def consumes():
        generator = numbers()
        return stacksplice.originate(next(generator)), generator

    stack = consumes()[0].stack
    assert shown(stack)[:2] == truth.chain[:2]
    assert gaps(stack) == [(2, RETURNED)]
    assert shown(stack)[2][0] == consumes.__qualname__
    assert trusts(stack, consumes) == ["exact"]


def test_two_live_frames_in_one_traceback():
    truth = Truth()

    def again(exc):
        try:
            raise exc
        except ValueError:
            return stacksplice.originate(exc)

    def catches():
        try:
            truth.fail()
        except ValueError as exc:
            kept = exc
        return again(kept)

    stack = catches().stack
    # again() was not there at the raise, and catches() is on the way to both raises.
    raised_again = (again.__qualname__, again.__code__.co_firstlineno + 2)
    assert shown(stack) == [*truth.chain[:2], raised_again, *truth.chain[1:]]
    assert gaps(stack) == [(2, RETURNED)]
    assert trusts(stack, again) == ["traceback"]
    assert trusts(stack, catches) == ["traceback", "traceback"]


def test_an_inner_live_frame_that_the_exception_passed_first():
    """The traceback begins with the outer one; the inner one, a generator, lives again."""
    truth = Truth()

    def inner():
        try:
            truth.fail()
        except ValueError as exc:
            yield exc
            yield stacksplice.originate(exc)

    def outer():
        generator = inner()
        try:
            raise next(generator)
        except ValueError:
            return next(generator)

    stack = outer().stack
    first = outer.__code__.co_firstlineno
    assert shown(stack)[:2] == truth.chain[:2]
    assert shown(stack)[2] == (outer.__qualname__, first + 3)
    assert [name for name, _ in shown(stack)] == [name for name, _ in truth.chain]
    assert gaps(stack) == [(1, RETURNED)]
    assert trusts(stack, inner) == trusts(stack, outer) == ["traceback"]


def test_in_exit_of_a_context_manager():
    truth = Truth()
    taken = []

    class Border:
        def __enter__(self):
            return self

        def __exit__(self, kind, exc, traceback):
            taken.append(stacksplice.originate(exc))
            return True

    @contextlib.contextmanager
    def border():
        try:
            yield
        except ValueError as exc:
            taken.append(stacksplice.originate(exc))

    def body(manager):
        with manager:
            truth.fail()

    body(Border())
    chain = truth.chain
    here = len(chain) - 1 - [name for name, _ in chain][::-1].index(body.__qualname__)
    assert shown(taken[0].stack)[: here + 1] == chain[: here + 1]
    body(border())
    stack = taken[1].stack
    assert (body.__qualname__, body.__code__.co_firstlineno + 2) in shown(stack)
    assert trusts(stack, body) == ["traceback", "traceback"]  # what failed, and the call of __exit__()
