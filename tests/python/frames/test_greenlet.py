"""Greenlets: the running one's frames are exact; outside of its base nothing is shown but a gap."""

from __future__ import annotations

import random

import pytest
import stacksplice
from frame_oracle import Checker, is_token, python_frames
from gap_reasons import OWN_STACK_ENDS
from racing import race

greenlet = pytest.importorskip("greenlet")


class GreenletChecker(Checker):
    """As its base; in a greenlet the gap OWN_STACK_ENDS is due, and the end of the stack with it."""

    def compare(self, hr, combined, native, truth) -> None:
        stack = stacksplice.Stack(combined)
        reasons = [frame.reason for frame in stack if frame.kind == "gap"]
        if greenlet.getcurrent().parent is None:
            super().compare(hr, combined, native, truth)
            return
        self.count += 1
        found = python_frames(stack)
        if [frame[:2] for frame in found] != [frame[:2] for frame in truth] or found[1:] != truth[1:]:
            self.problems.append((found, truth))
        if reasons[:1] != [OWN_STACK_ENDS] or len(reasons) > 2:
            self.problems.append(reasons)
        # What is shown outside of the outermost Python frame is how the greenlet began.
        base = combined.index(next(frame.address for frame in stack if frame.reason == OWN_STACK_ENDS))
        tail = combined[max(i for i, a in enumerate(combined[:base]) if is_token(a)) + 1 : base]
        if any(not is_token(address) for address in combined[base:]):
            self.problems.append("native frames behind the base")
        if not 1 <= len(tail) <= 8:
            self.problems.append(("frames outside of the base", [hex(address) for address in tail]))


def base_of(stack) -> int:
    return next(i for i, frame in enumerate(stack) if frame.reason == OWN_STACK_ENDS)


def pause():
    return greenlet.getcurrent().parent.switch()


def test_a_greenlet_without_a_python_frame(border):
    """Its function is C: the capture finds no loop, and still ends at the base."""
    made = greenlet.greenlet(border.capture_both)
    hr, combined, native = made.switch()
    stack = stacksplice.Stack(combined)
    assert [frame for frame in stack if frame.kind == "script"] == []
    assert 0 < base_of(stack) <= 8


def test_random_switches_in_threads(border):
    """Many greenlets in three threads, each resumed from wherever the others happen to be."""

    def work(checker, seed):
        choose = random.Random(seed)
        made = []

        def body(n):
            if n:
                return body(n - 1)
            for _ in range(4):
                checker()
                pause()
                sorted([1, 2], key=lambda x: (pause(), x)[1])
            return None

        def jump(depth):
            if depth:
                return sorted([1], key=lambda x: (jump(depth - 1), x)[1])
            alive = [item for item in made if not item.dead]
            return choose.choice(alive).switch() if alive else None

        for number in range(8):
            made.append(greenlet.greenlet(lambda number=number: body(number)))
            made[-1].switch()
        for _ in range(60):
            jump(choose.randrange(6))
            checker()
        # A greenlet that is not run to its end is unwound by an exception when it is dropped.
        for item in made:
            if not item.dead:
                item.throw()

    checkers = [GreenletChecker(border) for _ in range(3)]
    race(work, zip(checkers, range(3)))
    for checker in checkers:
        checker.assert_good(60)
