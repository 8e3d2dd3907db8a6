"""Stacks that are longer than the limit: both ends, and how many frames are not there."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import stacksplice
from gap_reasons import CAUGHT_BEFORE, RETURNED
from stacksplice import Stack

LIMIT = 512
LEFT_OUT = " frames omitted here: stack longer than the limit"
SHALLOW = 5
DEPTHS = (511, 512, 513, 3000, 100_000)


@pytest.fixture(autouse=True)
def recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    yield
    sys.setrecursionlimit(before)
    stacksplice.set_max_frames(LIMIT)


def down(n: int, f: Callable[[], Any]) -> Any:
    return down(n - 1, f) if n else f()


def fail() -> None:
    raise ValueError("bottom")


def caught(n: int) -> ValueError:
    try:
        down(n, fail)
    except ValueError as exc:
        return exc
    raise AssertionError


def by_traceback(n: int) -> Stack:
    return stacksplice.originate(caught(n)).stack


def by_live_stack(n: int) -> Stack:
    return down(n, lambda: stacksplice.originate(ValueError("here")).stack)


def by_capture(n: int) -> Stack:
    return down(n, stacksplice.capture)


def by_node(n: int) -> Stack:
    exc = ValueError("first")
    stacksplice.originate(exc)
    # A call that CPython does not specialise: it has the same native frames each time.
    return down(n, lambda: stacksplice.propagate(*(exc,)).propagation[-1].stack)


def by_cause(n: int) -> Stack:
    exc = RuntimeError("outer")
    exc.__cause__ = caught(n)
    cause = stacksplice.originate(exc).cause
    assert cause is not None
    return cause.stack


def by_handler(n: int) -> Stack:
    """Half of the frames have ended, the other half are live."""

    def catch() -> Stack:
        return stacksplice.originate(caught(n - n // 2)).stack

    return down(n // 2, catch)


WAYS = (by_traceback, by_live_stack, by_capture, by_node, by_cause, by_handler)


def in_thread(f: Callable[[int], Stack], n: int) -> Stack:
    """Where the outermost frames are the same at every depth."""
    results: list[Stack] = []
    thread = threading.Thread(target=lambda: results.append(f(n)))
    thread.start()
    thread.join()
    return results[0]


def total(stack: Stack) -> int:
    return len(stack.addresses) + stack.frames_left_out - (stack.frames_left_out > 0)


def left_out_gaps(stack: Stack) -> list[str | None]:
    return [frame.reason for frame in stack if "omitted" in (frame.reason or "")]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("way", WAYS)
def test_both_ends_are_kept(way: Callable[[int], Stack], depth: int) -> None:
    shallow, deep = in_thread(way, SHALLOW), in_thread(way, depth)
    assert shallow.frames_left_out == 0 and not left_out_gaps(shallow)
    assert total(deep) == total(shallow) + depth - SHALLOW
    assert len(deep.addresses) == LIMIT
    assert left_out_gaps(deep) == [f"{deep.frames_left_out}{LEFT_OUT}"]
    assert deep.addresses[:2] == shallow.addresses[:2]
    assert deep.addresses[-4:] == shallow.addresses[-4:]


@pytest.mark.parametrize("way", WAYS)
def test_as_many_as_the_limit_have_no_gap(way: Callable[[int], Stack]) -> None:
    depth = SHALLOW + LIMIT - total(in_thread(way, SHALLOW))
    whole, longer = in_thread(way, depth), in_thread(way, depth + 1)
    assert len(whole.addresses) == LIMIT and whole.frames_left_out == 0 and not left_out_gaps(whole)
    assert len(longer.addresses) == LIMIT and longer.frames_left_out == 2


def unfolded(text: str) -> list[str]:
    """The names of the frames in TEXT, which is folded."""
    names: list[str] = []
    for line in text.splitlines():
        again = re.fullmatch(r"  \[Previous (?:line|(\d+) frames) repeated (\d+) more times?\]", line)
        for _ in range(int(again[1] or 1) * int(again[2]) if again else 0):
            names.append(names[-int(again[1] or 1)])
        if frame := re.match(r"  (?:File \".*, in|\(C\)) (\w+)", line):
            names.append(frame[1])
    return names


@pytest.mark.parametrize("rounds", [3, 4, 21])
def test_a_cycle_over_a_border_is_folded(border: Any, rounds: int) -> None:
    def ping(n: int) -> None:
        pong(n)

    def pong(n: int) -> None:
        border.call(partial(ping, n - 1) if n else fail)

    def in_python() -> None:
        ping(rounds)

    with pytest.raises(ValueError) as caught:
        border.call(in_python)
    info = stacksplice.error_info(caught.value)
    assert info is not None
    live = "".join(stacksplice.format_exception(caught.value))
    names = unfolded(live)
    begin = names.index("in_python") + 1
    inside = names[begin : names.index("pong", begin)]
    again = names[begin + len(inside) :]
    period = again.index("pong", 1)
    assert inside == ["ping"] and again.count("pong") == rounds + 1 and names[-1] == "fail"
    assert ("[Previous " in live) == (rounds > 3)
    assert again[: period * rounds] == again[:period] * rounds
    assert unfolded(info.format())[-len(names) :] == names
    saved = stacksplice.ErrorInfo.from_json(info.to_json())
    assert unfolded(saved.format()) == unfolded(info.format())


def test_recursion_error_at_the_usual_limit() -> None:
    sys.setrecursionlimit(1000)
    try:
        down(100_000, fail)
    except RecursionError as exc:
        info = stacksplice.originate(exc)
    functions = [frame.function for frame in info.stack if frame.language == "python"]
    assert functions[0] == "down" and "test_recursion_error_at_the_usual_limit" in functions
    assert info.frames_left_out > 300
    text = info.format()
    first, last = text.index("[Previous line repeated"), text.rindex("[Previous line repeated")
    gap = text.index(f"[gap: {info.frames_left_out}{LEFT_OUT}]")
    assert first < gap < last < text.index("in test_recursion_error_at_the_usual_limit") or (
        text.index("in test_recursion_error_at_the_usual_limit") < first < gap < last
    )
    assert text.count(LEFT_OUT) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring before 3.12")
def test_stack_that_was_taken_at_the_raise() -> None:
    stacksplice.install(capture_at_raise=True)
    try:
        info = stacksplice.originate(caught(3000))
    finally:
        stacksplice.uninstall()
    assert info.frames_left_out > 2400 and len(info.stack.addresses) == LIMIT
    assert info.stack[0].function == "fail" and info.stack[-1].language == "native"
    assert RETURNED not in [frame.reason for frame in info.stack]


def test_saved_and_pickled() -> None:
    exc = caught(3000)
    info = stacksplice.originate(exc)
    data = json.loads(info.to_json())
    assert data["frames_left_out"] == info.frames_left_out == info.stack.frames_left_out > 2400
    saved = stacksplice.ErrorInfo.from_dict(data)
    assert saved.frames_left_out == saved.stack.frames_left_out == info.frames_left_out
    assert pickle.loads(pickle.dumps(info.stack)).frames_left_out == info.frames_left_out
    assert Stack.from_frames(info.stack, 7).frames_left_out == 7

    remote = stacksplice.error_info(pickle.loads(pickle.dumps(exc)))
    assert remote is not None and remote.frames_left_out >= info.frames_left_out
    gaps = left_out_gaps(remote.stack)
    assert len(gaps) == 1 and (gaps[0] or "").startswith(f"{remote.frames_left_out}{LEFT_OUT}")


def test_limit_of_one_capture() -> None:
    whole = down(SHALLOW, stacksplice.capture)
    newest = down(SHALLOW, lambda: stacksplice.capture(limit=3))
    assert len(newest.addresses) == 3 and newest.frames_left_out == 0
    assert whole.frames_left_out == 0
    longer = down(3000, lambda: stacksplice.capture(700, 2000))
    assert len(longer.addresses) == 2000 and not left_out_gaps(longer)
    behind = down(3000, lambda: stacksplice.capture(700))
    assert len(behind.addresses) == LIMIT and behind[0].function == "down"
    assert total(behind) == total(down(3000, stacksplice.capture)) - 700 + 1  # the lambda


def test_frames_inside_of_the_one_that_catches() -> None:
    """However many there are, they are no part of the exception's stack."""

    def catch() -> Stack:
        try:
            fail()
        except ValueError as caught:
            originate = partial(stacksplice.originate, caught)
            return down(50_000, originate).stack  # type: ignore[no-any-return]

    stack = catch()
    functions = [frame.function for frame in stack if frame.language == "python" and frame.function]
    assert functions[:2] == ["fail", "test_frames_inside_of_the_one_that_catches.<locals>.catch"]
    assert stack.frames_left_out == 0


# ---- The limit -----------------------------------------------------------------------------------


def test_set_max_frames() -> None:
    assert stacksplice.set_max_frames(20) == LIMIT
    assert len(by_traceback(100).addresses) == len(by_capture(100).addresses) == 20
    assert by_node(100).frames_left_out > 80
    assert stacksplice.set_max_frames(1000) == 20
    assert by_traceback(700).frames_left_out == by_capture(700).frames_left_out == 0
    assert stacksplice.set_max_frames(65535) == 1000
    assert by_traceback(3000).frames_left_out == by_node(3000).frames_left_out == 0
    assert by_traceback(100_000).frames_left_out > 30_000


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_smallest_limits(limit: int) -> None:
    stacksplice.set_max_frames(limit)
    for way in WAYS:
        stack = way(50)
        assert len(stack.addresses) == limit and stack.frames_left_out >= 50
        assert len(left_out_gaps(stack)) == 1
        assert limit < 3 or stack[-1].kind == "native" or stack[-1].reason == CAUGHT_BEFORE


@pytest.mark.parametrize("wrong", [0, -1, 65536, 2**70, -(2**70)])
def test_wrong_limits(wrong: int) -> None:
    with pytest.raises(ValueError, match="max_frames must be in 1 to 65535"):
        stacksplice.set_max_frames(wrong)


@pytest.mark.parametrize("wrong", ["512", 512.0, None])
def test_limits_of_wrong_types(wrong: Any) -> None:
    with pytest.raises(TypeError, match="max_frames must be int"):
        stacksplice.set_max_frames(wrong)
    assert stacksplice.set_max_frames(LIMIT) == LIMIT


def test_more_is_skipped_than_a_stack_may_keep() -> None:
    """An element is where it is, however far out: only deeper stacks get more room."""
    code = """
import sys, stacksplice
sys.setrecursionlimit(200_000)
def down(n):
    if n == 0:
        for skip in (65535, 65536, 70000, 70001, 90000, 2**70):
            print(skip, *(frame.function for frame in stacksplice.capture(skip, 2)))
        return 0
    return down(n - 1)
def outermost():
    return down(70000)
outermost()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:4] == [
        "65535 down down",
        "65536 down down",
        "70000 down outermost",
        "70001 outermost <module>",
    ]
    assert done.stdout.splitlines()[4:] == ["90000", str(2**70)]
