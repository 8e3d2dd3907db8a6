"""Outside of a task's frames: the suspended frames of the tasks that await it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import types

import pytest
import stacksplice
from gap_reasons import AWAITED, RUN_BY_LOOP
from raising import without_names  # noqa: F401
from stacksplice._errors import awaiting


def elements(stack) -> list[tuple[str, str, int] | str]:
    """Between the task's own frames and those of its loop: reasons of gaps, and Python frames."""
    begin = next((i for i, frame in enumerate(stack) if frame.kind == "gap"), len(stack))
    end = next((i for i, frame in enumerate(stack) if frame.reason == RUN_BY_LOOP), len(stack))
    return [f.reason if f.kind == "gap" else (f.file, f.function, f.line) for f in stack[begin:end]]


def short(stack) -> list[str]:
    """The same without what is not of this file, and of names only the last part."""
    found = [item for item in elements(stack) if isinstance(item, str) or item[0] == __file__]
    return [item if isinstance(item, str) else item[1].rpartition(".")[2] for item in found]


class Leaf:
    """What it is called by awaits nothing; the stack that it saw."""

    def __init__(self) -> None:
        self.stack = stacksplice.Stack()

    async def run(self) -> None:
        await asyncio.sleep(0)  # so that those who await it are suspended
        self.stack = stacksplice.capture(awaited_by=True)


def coroutine_frames(task) -> list[tuple[str, str, int]]:
    """The truth about a suspended task of coroutines, innermost first."""
    frames = []
    coroutine = task.get_coro()
    while hasattr(coroutine, "cr_frame"):
        frame = coroutine.cr_frame
        frames.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))
        coroutine = coroutine.cr_await
    return frames[::-1]


# ---- The ways to await ---------------------------------------------------------------------------


async def by_task(leaf):
    await asyncio.create_task(leaf)


async def by_gather(leaf):
    await asyncio.gather(asyncio.sleep(0), leaf)


async def by_nested_gather(leaf):
    await asyncio.gather(asyncio.gather(leaf), asyncio.sleep(0))


async def by_wait(leaf):
    await asyncio.wait([asyncio.create_task(leaf)])


async def by_wait_for(leaf):
    await asyncio.wait_for(asyncio.create_task(leaf), 60)


async def by_shield(leaf):
    await asyncio.shield(leaf)


async def by_timeout_and_shield(leaf):
    async with asyncio.timeout(60):
        await asyncio.shield(asyncio.gather(leaf))


async def by_task_group(leaf):
    async with asyncio.TaskGroup() as group:
        group.create_task(leaf)


async def by_as_completed(leaf):
    for next_one in asyncio.as_completed([leaf]):
        await next_one


WAYS = [
    by_task,
    by_gather,
    by_nested_gather,
    by_wait,
    by_wait_for,
    by_shield,
    by_timeout_and_shield,
    by_task_group,
    by_as_completed,
]


def in_c(loop, coroutine, **options):
    return asyncio.tasks.Task(coroutine, loop=loop, **options)


def in_python(loop, coroutine, **options):
    return asyncio.tasks._PyTask(coroutine, loop=loop, **options)


# From 3.14 on asyncio itself does not find a current task of the Python class.
@pytest.mark.parametrize("factory", [in_c, in_python] if sys.version_info < (3, 14) else [in_c])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_await(way, factory):
    leaf = Leaf()

    async def main():
        asyncio.get_running_loop().set_task_factory(factory)
        # The first task is the loop's own; this one and those that it makes are of the factory.
        await asyncio.create_task(way(leaf.run()))

    asyncio.run(main())
    assert short(leaf.stack) == [AWAITED, way.__name__, AWAITED, "main"]
    assert all(frame.trust == "exact" for frame in leaf.stack)


def test_frames_of_a_task_are_those_of_its_coroutines():
    seen = {}

    async def leaf():
        await asyncio.sleep(0)
        seen["stack"] = stacksplice.capture(awaited_by=True)
        seen["truth"] = [coroutine_frames(task) for task in (seen["middle"], seen["outer"])]

    async def down(n, awaitable):
        if n:
            await down(n - 1, awaitable)
        else:
            await awaitable

    async def middle():
        await down(5, asyncio.create_task(leaf()))

    async def outer():
        seen["outer"] = asyncio.current_task()
        seen["middle"] = asyncio.create_task(middle())
        await down(3, seen["middle"])

    asyncio.run(outer())
    first, second = seen["truth"]
    assert (len(first), len(second)) == (7, 5)
    assert elements(seen["stack"]) == [AWAITED, *first, AWAITED, *second]


def test_they_stand_between_the_task_and_its_loop(check):
    async def leaf():
        await asyncio.sleep(0)
        await deeper()

    async def deeper():
        plain, more = stacksplice.capture(), stacksplice.capture(awaited_by=True)
        begin = [frame.reason for frame in more].index(AWAITED)
        end = begin + 3
        assert [f.function or f.reason for f in more[begin:end]] == [AWAITED, main.__qualname__, RUN_BY_LOOP]
        assert more[begin - 1].function == leaf.__qualname__
        assert [f.function for f in plain][1:] == [f.function for f in [*more[:begin], *more[end:]]][1:]
        cut = stacksplice.capture(limit=len(more.addresses) - 1, awaited_by=True)
        assert len(cut.addresses) == len(more.addresses) - 1 and cut[end - 1].reason == RUN_BY_LOOP
        check()

    async def main():
        await asyncio.create_task(leaf())

    asyncio.run(main())


def test_generators_of_all_kinds_in_between():
    stacks = []

    async def awaiting():
        leaf = Leaf()
        await asyncio.create_task(leaf.run())
        stacks.append(leaf.stack)

    async def numbers():
        try:
            await awaiting()
            yield 1
            await awaiting()
        finally:
            await awaiting()

    @types.coroutine
    def by_generator():
        yield from awaiting().__await__()

    class Awaitable:
        def __await__(self):
            return (yield from by_generator())

    async def main():
        async for _ in numbers():
            pass
        generator = numbers()
        assert await anext(generator, None) == 1
        await generator.aclose()
        generator = numbers()
        await generator.asend(None)
        with contextlib.suppress(ValueError):
            await generator.athrow(ValueError())
        await Awaitable()

    asyncio.run(main())
    by_numbers = [AWAITED, "awaiting", "numbers", "main"]
    assert [short(stack) for stack in stacks[:-1]] == [by_numbers] * 7
    assert short(stacks[-1]) == [AWAITED, "awaiting", "by_generator", "__await__", "main"]


def test_an_object_that_shows_no_frames():
    leaf = Leaf()

    class Hidden:
        def __init__(self, task):
            self.inner = task.__await__()

        def __await__(self):
            return self

        def __next__(self):
            return next(self.inner)

        __iter__ = __await__

    async def main():
        await Hidden(asyncio.create_task(leaf.run()))

    asyncio.run(main())
    hidden = "task is waiting inside an object that does not expose its frames"
    assert short(leaf.stack) == [AWAITED, hidden, "main"]


# ---- Several that await --------------------------------------------------------------------------


def test_two_tasks_await_one():
    leaf = Leaf()

    async def main():
        task = asyncio.create_task(leaf.run())

        async def first():
            await task

        async def second():
            await asyncio.wait([task])

        await asyncio.gather(first(), second())

    asyncio.run(main())
    assert short(leaf.stack) == [
        AWAITED,
        "first",
        AWAITED,
        "main",
        "task 1 (counting outward) is also awaited by another task",
        "second",
        "task 4 (counting outward) is also awaited by task 3",
    ]


def test_tasks_that_await_each_other():
    leaf = Leaf()

    async def first(tasks):
        await asyncio.wait(tasks)

    async def second(task):
        await asyncio.wait([task])

    async def main():
        tasks = [asyncio.create_task(leaf.run())]
        tasks.append(asyncio.create_task(second(asyncio.create_task(first(tasks)))))
        await asyncio.wait(tasks[:1])
        tasks[1].cancel()

    asyncio.run(main())
    assert short(leaf.stack) == [
        AWAITED,
        "main",
        "task 1 (counting outward) is also awaited by another task",
        "first",
        AWAITED,
        "second",
        "task 4 (counting outward) is also awaited by task 3",
    ]


def test_more_tasks_than_are_shown():
    leaf = Leaf()

    async def level(n):
        await asyncio.create_task(level(n - 1) if n else leaf.run())

    asyncio.run(level(40))
    found = short(leaf.stack)
    assert found[:-1] == [AWAITED, "level"] * 31
    assert found[-1] == "more awaiting tasks omitted"


# ---- Nothing to show -----------------------------------------------------------------------------


def test_no_task_no_difference():
    def both():
        return [elements(stacksplice.capture(awaited_by=value)) for value in (False, True)]

    assert both() == [[], []]
    seen = []

    async def main():
        seen.append(both())
        asyncio.get_running_loop().call_soon(lambda: seen.append(both()))
        thread = threading.Thread(target=lambda: seen.append(both()))
        thread.start()
        await asyncio.sleep(0)
        thread.join()

    asyncio.run(main())
    assert seen == [[[], []]] * 3


def test_without_asyncio_it_is_not_loaded(child):
    done = child(
        "import sys, stacksplice\n"
        "stacksplice.capture(awaited_by=True)\n"
        "print('asyncio' in sys.modules, 'stacksplice._errors.awaiting' in sys.modules)"
    )
    assert done.stdout == "False False\n"


def test_a_long_name_of_a_task_says_that_it_was_cut(monkeypatch):
    monkeypatch.setattr(awaiting, "_MAX_NAMES", 1 << 20)

    class Task:
        def get_name(self):
            return "job " * 100

    (reason,) = awaiting._named("awaited by another task", Task())
    assert reason.endswith("job ...") and len(reason) < 140
