"""Whose block a deadline has, by who entered it: functions, context managers, generators, tasks, hosts."""

from __future__ import annotations

import _thread
import asyncio
import collections
import contextlib
import operator
import threading
import time
import unittest

import pytest
from stacksplice import DeadlineExceeded, deadline
from test_deadline import SOON, hang, quick


@contextlib.contextmanager
def managed():
    with quick():
        yield


@contextlib.contextmanager
def stacked():
    with contextlib.ExitStack() as stack:
        stack.enter_context(managed())
        yield


class Wrapper:
    def __enter__(self):
        self.inner = quick()
        self.inner.__enter__()

    def __exit__(self, *raised):
        self.inner.__exit__(*raised)


class AsyncWrapper(Wrapper):
    async def __aenter__(self):
        await asyncio.sleep(0)
        self.__enter__()

    async def __aexit__(self, *raised):
        self.__exit__(*raised)


@contextlib.contextmanager
def wrapped():
    with Wrapper():
        yield


class Derived(deadline):
    def __enter__(self):
        return super().__enter__()


@contextlib.asynccontextmanager
async def async_managed():
    await asyncio.sleep(0)
    with managed():
        yield


def entered_by_stack(enter=quick):
    stack = contextlib.ExitStack()
    stack.enter_context(enter())
    return stack


@pytest.mark.parametrize(
    "enter",
    [
        managed,
        stacked,
        Wrapper,
        wrapped,
        lambda: Derived(SOON, interrupt=True, report=False),
        entered_by_stack,
        lambda: entered_by_stack(stacked),
    ],
    ids=["managed", "stacked", "wrapper", "wrapped", "derived", "stack", "two stacks"],
)
def test_entered_for_the_caller(enter):
    """The frame that enters the block is not the one that runs it."""
    with pytest.raises(DeadlineExceeded), enter():
        hang()


def test_entered_by_unittest():
    class Case(unittest.TestCase):
        def setUp(self):
            self.enterContext(deadline(0.2, interrupt=True, report=False))

        def test(self):
            with self.assertRaises(DeadlineExceeded):
                hang()

    result = unittest.TestResult()
    Case("test").run(result)
    assert result.wasSuccessful(), result


@pytest.mark.parametrize("after", [0, SOON * 2])
@pytest.mark.parametrize("enter", ["managed", "wrapper", "stack", "async stack"])
def test_entered_for_a_task(enter, after):
    """As test_task."""

    async def late():
        async with contextlib.AsyncExitStack() as stack:
            if enter == "managed":
                await stack.enter_async_context(async_managed())
            elif enter == "wrapper":
                await stack.enter_async_context(AsyncWrapper())
            elif enter == "stack":
                stack.enter_context(entered_by_stack())
            else:
                stack.enter_context(quick())
            await asyncio.sleep(after)
            hang()

    async def both():
        return await asyncio.gather(busy_task(), late(), return_exceptions=True)

    done, exc = asyncio.run(both())
    assert done == "done"
    assert isinstance(exc, DeadlineExceeded)


def test_entered_by_a_task():
    """A task enters it and is done: no other task is taken for the block."""

    async def late():
        inner = AsyncWrapper()
        with contextlib.suppress(DeadlineExceeded):  # while it enters, on a slow machine
            await asyncio.create_task(inner.__aenter__())
        await busy_task()
        inner.__exit__()
        return "late"

    async def both():
        return await asyncio.gather(busy_task(), late())

    assert asyncio.run(both()) == ["done", "late"]


@pytest.mark.parametrize("enter", [lambda inner: inner.__enter__, lambda inner: lambda: inner.__enter__()])
def test_entered_without_a_caller(enter):
    """As a host in C does, which calls Python anew each time: the block is its thread's."""
    inner = deadline(0.2, interrupt=True, report=False)
    said = []
    done = threading.Event()

    def late():
        try:
            hang()
        except (DeadlineExceeded, AssertionError) as exc:
            said.append(type(exc))
        inner.__exit__()
        done.set()

    steps = map(operator.call, (enter(inner), late))
    _thread.start_new_thread(collections.deque, (steps,))
    assert done.wait(200) and said == [DeadlineExceeded]


def test_begun_by_a_host(border):
    """stacksplice_python_deadline_begin, in a call from Python and in a thread of the host."""
    assert border.call_within(lambda: 7, 3600_000, None) == 7
    with pytest.raises(KeyError):
        border.call_within(lambda: {}["x"], 3600_000, "lookup")
    with pytest.raises(DeadlineExceeded, match=r"^pricing has not ended within 0\.02 s$"):
        border.call_within(hang, 20, "pricing")
    assert border.call_within_elsewhere(lambda: 7, 3600_000, None) == 7
    for _ in range(2):
        exc = border.call_within_elsewhere(hang, 20, None)
        assert repr(exc) == "DeadlineExceeded('this block has not ended within 0.02 s')"


def test_generator():
    """While it is suspended in its block, other code is not interrupted."""

    def late():
        with quick(name="generator"):
            yield 1
            hang()

    items = late()
    next(items)
    end = time.monotonic() + SOON * 3
    while time.monotonic() < end:
        pass
    with pytest.raises(DeadlineExceeded, match="^generator"):
        next(items)
    items = late()
    next(items)
    del items  # ends the block


async def busy_task():
    for _ in range(10):
        end = time.monotonic() + SOON / 4
        while time.monotonic() < end:
            pass
        await asyncio.sleep(0)
    return "done"


def test_task():
    """Other tasks are not interrupted, only the one of the block, once it runs."""

    async def late():
        with quick(name="task"):
            await asyncio.sleep(SOON * 2)
            hang()

    async def both():
        return await asyncio.gather(busy_task(), late(), return_exceptions=True)

    done, exc = asyncio.run(both())
    assert done == "done"
    assert isinstance(exc, DeadlineExceeded) and str(exc).startswith("task")
