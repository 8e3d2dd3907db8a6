"""Errors in asyncio tasks: who awaits is in their stack, across tasks they stay what they were."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import contextlib
import contextvars
import json
import signal
import sys
import threading

import pytest
import stacksplice
from gap_reasons import AWAITED, KEPT, RETURNED
from raising import by_gather, caught, fail, in_file
from test_awaiting import WAYS, by_wait


def here(stack) -> list[str]:
    return in_file(__file__, stack)


def in_tasks(stack) -> list[str]:
    """Those of here() but for the callers of the loop, which stand in between or outside."""
    test = sys._getframe(1).f_code.co_name
    return [name for name in here(stack) if name not in ("caught", test)]


async def main(leaf):
    await asyncio.create_task(leaf)


# ---- The awaiting chain --------------------------------------------------------------------------


@pytest.mark.parametrize("way", [way for way in WAYS if way is not by_wait])  # which raises nothing
def test_an_error_in_a_task_has_those_who_await_it(way, leaf):
    exc = caught(asyncio.run, way(leaf()))
    if isinstance(exc, ExceptionGroup):
        (exc,) = exc.exceptions
    stack = stacksplice.error_info(exc).stack
    assert in_tasks(stack) == ["fail", "leaf", AWAITED]
    seam = next(frame for frame in stack if frame.asynchronous)
    assert way.__name__ in [frame.function for frame in stack[stack.index(seam) :]]
    assert (seam.kind, seam.language, seam.line) == ("gap", "python", None)
    # The thread's own stack is whole: what runs the loop is in it, before the seam.
    before = [frame.function for frame in stack[: stack.index(seam)] if frame.kind == "script"]
    assert "Handle._run" in before and "BaseEventLoop.run_until_complete" in before
    assert [frame.function for frame in stack].count("run") == 1


def test_a_chain_of_tasks(leaf):
    async def middle():
        await asyncio.create_task(leaf())

    async def outer():
        await asyncio.gather(middle())

    async def main():
        await asyncio.create_task(outer())

    info = stacksplice.error_info(caught(asyncio.run, main()))
    awaiting = [AWAITED, "middle", AWAITED, "outer", AWAITED, "main"]
    assert in_tasks(info.stack) == ["fail", "leaf", *awaiting]
    # The exception left them since: their frames are where it passed, inside of those that ran the loop.
    assert here(info.stack)[-2:] == ["caught", "test_a_chain_of_tasks"]


def test_the_seam_in_every_form(leaf):
    info = stacksplice.error_info(caught(asyncio.run, main(leaf())))
    assert f"\n  [async: {AWAITED}]\n" in info.format()
    assert f"    [async: {AWAITED}]\n" in str(info.stack)
    seams = [frame for frame in json.loads(info.to_json())["stack"] if frame.get("asynchronous")]
    assert [(frame["kind"], frame["reason"]) for frame in seams] == [("gap", AWAITED)]
    saved = stacksplice.ErrorInfo.from_dict(info.to_dict())
    assert list(saved.stack) == list(info.stack) and f"[async: {AWAITED}]" in saved.format()
    frame = next(frame for frame in info.stack if frame.asynchronous)
    assert stacksplice.Frame.from_dict(frame.to_dict()) == frame
    assert "asynchronous" not in info.stack[0].to_dict()


def test_an_error_that_is_originated_in_a_task(leaf):
    async def task():
        await asyncio.sleep(0)
        return stacksplice.originate(caught(fail))

    async def main():
        return await asyncio.create_task(task())

    info = asyncio.run(main())
    shown = here(info.stack)
    assert (shown[:3], shown[-2:]) == (["fail", "caught", "task"], [AWAITED, "main"])
    assert stacksplice.take_error() == info


def test_errors_outside_of_tasks_have_none(border, leaf):
    found = []

    async def main():
        asyncio.get_running_loop().call_soon(lambda: found.append(caught(border.call, fail)))
        await asyncio.sleep(0)
        found.append(await asyncio.to_thread(caught, border.call, fail))

    asyncio.run(main())
    found.append(caught(border.call, fail))
    assert len(found) == 3
    for exc in found:
        assert not any(frame.asynchronous for frame in stacksplice.error_info(exc).stack)


def test_causes_have_it_too(border):
    async def leaf():
        await asyncio.sleep(0)
        try:
            fail()
        except ValueError as exc:
            border.call(raise_from, exc)

    def raise_from(exc):
        raise KeyError from exc

    info = stacksplice.error_info(caught(asyncio.run, main(leaf())))
    assert in_tasks(info.stack)[-2:] == in_tasks(info.transformed.stack)[-2:] == [AWAITED, "main"]


def test_an_interrupt_while_looking_is_not_lost(leaf, monkeypatch):
    from stacksplice._errors import awaiting

    def breaks():
        raise KeyboardInterrupt

    monkeypatch.setattr(awaiting, "awaited_by", breaks)
    came = []
    former = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        exc = caught(asyncio.run, main(leaf()))
    finally:
        signal.signal(signal.SIGINT, former)
    assert came == [True] and stacksplice.error_info(exc).message == "x"


def test_tracers_do_not_see_the_search(border, leaf):
    files = set()

    def trace(frame, event, argument):
        files.add(frame.f_code.co_filename.rpartition("/")[2])
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        exc = caught(asyncio.run, main(leaf()))
    finally:
        sys.settrace(former)
    assert AWAITED in here(stacksplice.error_info(exc).stack)
    assert "test_async.py" in files and "awaiting.py" not in files


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring before 3.12")
def test_captured_at_the_raise():
    async def leaf():
        await asyncio.sleep(0)
        fail()

    stacksplice.install(capture_at_raise=True)
    try:
        exc = caught(asyncio.run, main(leaf()))
        info = stacksplice.originate(exc)
    finally:
        stacksplice.uninstall()
    assert here(info.stack)[:2] == ["fail", "leaf"] and AWAITED in here(info.stack)
    assert in_tasks(info.stack)[-1] == "main"
    assert not any(frame.reason == RETURNED for frame in info.stack)


def test_tasks_that_have_names(leaf, monkeypatch):
    from stacksplice._errors import awaiting

    monkeypatch.setattr(awaiting, "_MAX_NAMES", len(awaiting._named_tasks) + 2)

    async def middle():
        await asyncio.create_task(leaf())

    async def main(name):
        asyncio.current_task().set_name(name)
        await asyncio.create_task(middle(), name="middle one")

    for name, shown in [("a main", ": a main"), ("more than there is room for", ""), ("a main", ": a main")]:
        info = stacksplice.error_info(caught(asyncio.run, main(name)))
        seams = [frame.reason for frame in info.stack if frame.asynchronous]
        assert seams == [f"{AWAITED}: middle one", AWAITED + shown]


# ---- From one task or thread to another ----------------------------------------------------------


async def awaited_error(awaitable):
    try:
        await awaitable
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


def test_through_await_it_is_the_same_error(border, leaf):
    seen = []

    async def middle():
        try:
            await asyncio.create_task(leaf())
        except ValueError as exc:
            seen.append((exc, stacksplice.error_info(exc)))
            raise

    async def main():
        try:
            await asyncio.gather(middle())
        except ValueError as exc:
            seen.append((exc, stacksplice.error_info(exc)))
            border.call(again, exc)

    def again(exc):
        raise exc

    exc = caught(asyncio.run, main())
    assert [item[0] for item in seen] == [exc, exc]
    info = stacksplice.error_info(exc)
    assert [item[1] for item in seen] == [info, info]
    assert here(info.stack)[:2] == ["fail", "leaf"]
    awaiting = ["fail", "leaf", AWAITED, "middle", AWAITED, "main"]
    assert here(info.stack)[:-2] == [*awaiting, KEPT, "again", "main"]
    # A border adds a node, an await does not.
    assert [here(node.stack)[0] for node in info.propagation] == ["leaf", "main"]


def test_queue_between_tasks(border):
    async def produce(queue):
        await queue.put(caught(border.call, fail))

    async def main():
        queue = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(produce(queue))
            return await queue.get()

    info = stacksplice.error_info(asyncio.run(main()))
    assert here(info.stack)[-2:] == [AWAITED, "main"]


# A traceback that goes on in another task, without a border in the first.  Frames of coroutines
# that have ended remember who resumed them in these versions only.
remembered = pytest.mark.skipif(
    sys.version_info[:2] not in ((3, 12), (3, 13)), reason="coroutines forget who resumed them"
)


@remembered
def test_a_traceback_of_two_tasks_has_a_seam():
    async def leaf():
        await asyncio.sleep(0)
        fail()

    async def main():
        return stacksplice.originate(await awaited_error(asyncio.create_task(leaf())))

    info = asyncio.run(main())
    assert here(info.stack)[:4] == ["fail", "leaf", AWAITED, "awaited_error"]


def test_coroutines_of_one_task_have_none():
    async def inner():
        await asyncio.sleep(0)
        fail()

    async def numbers():
        await inner()
        yield

    async def main():
        async for _ in numbers():
            pass

    async def whole():
        return stacksplice.originate(await awaited_error(main()))

    stack = asyncio.run(whole()).stack
    assert here(stack)[:6] == ["fail", "inner", "numbers", "main", "awaited_error", "whole"]


def test_a_plain_traceback_has_no_seam(border):
    def generator():
        fail()
        yield

    def delegating():
        yield from generator()

    @contextlib.contextmanager
    def manager():
        try:
            yield
        finally:
            list(delegating())

    class Thing:
        def __getattr__(self, name):
            with manager():
                return sorted([1, 2], key=lambda _: 1)

    def run():
        return list(map(lambda name: getattr(Thing(), name), "a"))

    info = stacksplice.error_info(caught(border.call, run))
    assert not any(frame.asynchronous for frame in info.stack)
    assert here(info.stack)[:3] == ["fail", "generator", "delegating"]


def test_frames_that_were_cut_out_of_a_traceback_make_no_seam(border):
    def outer():
        try:
            middle()
        except ValueError as exc:
            hidden = exc.__traceback__.tb_next
            hidden.tb_next = hidden.tb_next.tb_next  # without inner()
            raise

    def middle():
        inner()

    def inner():
        fail()

    info = stacksplice.error_info(caught(border.call, outer))
    assert here(info.stack)[:3] == ["fail", "middle", "outer"]


def test_raised_again_where_it_was_kept(border):
    kept = caught(fail)

    def again():
        raise kept

    assert here(stacksplice.originate(caught(again)).stack)[:4] == ["fail", "caught", KEPT, "again"]


def test_many_seams_are_bounded():
    kept = caught(fail)

    def again():
        raise kept

    for _ in range(300):
        caught(again)
    stack = stacksplice.originate(kept).stack
    assert here(stack)[0] == "fail" and 100 < here(stack).count(KEPT) < 300
    assert len(stack.addresses) == 512 and stack.frames_left_out > 300


def test_to_thread(border):
    variable = contextvars.ContextVar("variable")

    def work():
        border.call(fail, variable.get())

    async def main():
        variable.set("in the context")
        return await awaited_error(asyncio.to_thread(work))

    exc = asyncio.run(main())
    info = stacksplice.error_info(exc)
    assert info.message == "in the context"
    assert here(info.stack) == ["fail", "work", KEPT, "awaited_error"]
    assert info.thread_id != stacksplice.originate(ValueError()).thread_id
    stacksplice.take_error()


def test_run_in_executor_keeps_the_slots_apart(border):
    async def main():
        loop = asyncio.get_running_loop()
        mine = stacksplice.originate(ValueError("mine"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert await loop.run_in_executor(pool, stacksplice.peek_error) is None
            theirs = await loop.run_in_executor(pool, stacksplice.originate, KeyError("theirs"))
            assert stacksplice.peek_error() == mine
            assert await loop.run_in_executor(pool, stacksplice.take_error) == theirs
        assert stacksplice.take_error() == mine

    asyncio.run(main())


def test_call_soon_threadsafe(border):
    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def work():
            loop.call_soon_threadsafe(future.set_exception, caught(border.call, fail))

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(work)
            return await awaited_error(future)

    info = stacksplice.error_info(asyncio.run(main()))
    assert here(info.stack) == ["fail", "caught", "work", KEPT, "awaited_error"]


def test_a_loop_in_each_of_two_threads(border, leaf):
    """One thread's loop says nothing about the other's."""

    def in_thread():
        return stacksplice.error_info(caught(asyncio.run, by_gather(leaf)()))

    async def main():
        return await asyncio.gather(*(asyncio.to_thread(in_thread) for _ in range(4)))

    for info in asyncio.run(main()):
        assert here(info.stack)[-4:] == [AWAITED, "main", "caught", "in_thread"]


def test_the_outermost_frame_of_a_thread_has_a_seam():
    """It has no caller, as one that never ran; but it ran."""
    kept = []

    done = threading.Event()

    def outermost():
        try:
            fail()
        except ValueError as exc:
            kept.append(exc)
        done.set()

    def again():
        raise kept[0]

    _thread.start_new_thread(outermost, ())
    assert done.wait(60)
    assert kept[0].__traceback__.tb_frame.f_back is None
    assert here(stacksplice.originate(caught(again)).stack)[:4] == ["fail", "outermost", KEPT, "again"]


def test_a_class_body_is_called_as_others_are():
    def define():
        class Broken:
            fail()

        return Broken

    stack = stacksplice.originate(caught(define)).stack
    assert here(stack)[:4] == ["fail", "Broken", "define", "caught"]
