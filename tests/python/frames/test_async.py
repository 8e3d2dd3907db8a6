"""Errors in asyncio tasks: who awaits is in their stack, across tasks they stay what they were."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import json
import signal
import sys
import threading

import pytest
import stacksplice
from gap_reasons import AWAITED, KEPT, RUN_BY_LOOP
from raising import caught, fail, in_file, without_names  # noqa: F401
from test_awaiting import WAYS, by_wait


def here(stack) -> list[str]:
    return in_file(__file__, stack)


def in_tasks(stack) -> list[str]:
    """Those of here() up to the loop."""
    return here(stack[: [frame.reason for frame in stack].index(RUN_BY_LOOP)])


async def main(leaf):
    await asyncio.create_task(leaf)


# ---- The awaiting chain --------------------------------------------------------------------------


@pytest.mark.parametrize("way", [way for way in WAYS if way is not by_wait])  # which raises nothing
def test_an_error_in_a_task_has_those_who_await_it(way, leaf):
    exc = caught(asyncio.run, way(leaf()))
    if isinstance(exc, ExceptionGroup):
        (exc,) = exc.exceptions
    stack = stacksplice.error_info(exc).stack
    *inner, last = [name for name in in_tasks(stack) if name != KEPT]
    # asyncio's own function that waits may have gone on to another line, with a seam between the two.
    assert inner in (["fail", "leaf"], ["fail", "leaf", AWAITED]) and last == AWAITED
    seam = next(frame for frame in stack if frame.asynchronous)
    names = [frame.function or frame.reason for frame in stack]
    begin, end = names.index(AWAITED), names.index(RUN_BY_LOOP)
    assert way.__name__ in names[begin:end]
    assert (seam.kind, seam.language, seam.line) == ("gap", "python", None)
    # The thread's own stack is whole: what runs the loop is in it, outside of all tasks.
    assert "Handle._run" in names[end:] and "BaseEventLoop.run_until_complete" in names[end:]
    assert names.count("run") == 1 and not {"Handle._run", "run"} & {*names[:end]}


def test_the_seam_in_every_form(leaf):
    info = stacksplice.error_info(caught(asyncio.run, main(leaf())))
    assert f"\n  [async: {AWAITED}]\n" in info.format()
    assert f"    [async: {AWAITED}]\n" in str(info.stack)
    seams = [frame for frame in json.loads(info.to_json())["stack"] if frame.get("asynchronous")]
    # The loop, too, raised what its future had kept.
    assert [(frame["kind"], frame["reason"]) for frame in seams] == [("gap", AWAITED), ("gap", KEPT)]
    saved = stacksplice.ErrorInfo.from_dict(info.to_dict())
    assert list(saved.stack) == list(info.stack) and f"[async: {AWAITED}]" in saved.format()
    frame = next(frame for frame in info.stack if frame.asynchronous)
    assert stacksplice.Frame.from_dict(frame.to_dict()) == frame
    assert "asynchronous" not in info.stack[0].to_dict()


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


def test_tasks_that_have_names(leaf, monkeypatch):
    from stacksplice._errors import awaiting

    monkeypatch.setattr(awaiting, "_named_tasks", set())
    monkeypatch.setattr(awaiting, "_MAX_NAMES", 2)

    async def middle():
        await asyncio.create_task(leaf())

    async def main(name):
        asyncio.current_task().set_name(name)
        await asyncio.create_task(middle(), name="middle one")

    for name, shown in [("a main", ": a main"), ("more than there is room for", ""), ("a main", ": a main")]:
        info = stacksplice.error_info(caught(asyncio.run, main(name)))
        seams = [frame.reason for frame in info.stack if frame.asynchronous]
        assert seams == [f"{AWAITED}: middle one", AWAITED + shown, KEPT]


def test_tasks_without_a_name_of_their_own(leaf, monkeypatch):
    """They are called as asyncio calls them, which takes no more than half of the room for names."""
    from stacksplice._errors import awaiting

    monkeypatch.setattr(awaiting, "_named_tasks", set())
    monkeypatch.setattr(awaiting, "_MAX_NAMES", 4)
    names = []

    async def middle():
        names.append(asyncio.current_task().get_name())
        await asyncio.create_task(leaf())

    async def main():
        names.append(asyncio.current_task().get_name())
        await asyncio.create_task(middle())

    for numbered in (True, False):
        names.clear()
        info = stacksplice.error_info(caught(asyncio.run, main()))
        outer, inner = [f": {name}" if numbered else "" for name in names]
        assert all(name.startswith("Task-") for name in names)
        seams = [frame.reason for frame in info.stack if frame.asynchronous]
        assert seams == [AWAITED + inner, AWAITED + outer, KEPT]


# ---- From one task or thread to another ----------------------------------------------------------


def test_frames_of_one_task_have_no_seam_between_them(border):
    """Of asynchronous generators, context managers, the body of a class, and what C calls."""

    async def inner():
        await asyncio.sleep(0)
        list(delegating())

    def delegating():
        yield from generator()

    def generator():
        with manager():
            yield sorted([1], key=lambda _: define())

    @contextlib.contextmanager
    def manager():
        try:
            yield
        finally:
            str()

    def define():
        class Broken:
            fail()

    async def numbers():
        await inner()
        yield

    async def main():
        async for _ in numbers():
            pass

    stack = stacksplice.error_info(caught(border.call, asyncio.run, main())).stack
    assert not any(frame.asynchronous for frame in stack)
    called = ["fail", "Broken", "define", "<lambda>", "generator", "delegating", "inner", "numbers", "main"]
    assert here(stack)[: len(called)] == called


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


def test_many_seams_are_bounded():
    kept = caught(fail)

    def again():
        raise kept

    for _ in range(300):
        caught(again)
    stack = stacksplice.originate(kept).stack
    assert here(stack)[0] == "fail" and 100 < here(stack).count(KEPT) < 300
    assert len(stack.addresses) == 512 and stack.frames_left_out > 300


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
