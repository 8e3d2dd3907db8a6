"""The thread's error slot beside asyncio: tasks share it, and take nothing that is another's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys

import pytest
import stacksplice
from raising import caught, fail
from stacksplice import winrt

E_FAIL = -2147467259


def test_another_task_s_error_is_stale(border):
    """Two tasks with errors of one HRESULT; the second one's comes from nowhere we know."""
    ready = []

    async def first():
        exc = caught(fail, "first")
        hresult = stacksplice.originate(exc).hresult
        ready.append(exc)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return hresult

    async def second():
        while not ready:
            await asyncio.sleep(0)
        return caught(border.raise_error, -2147024809)

    async def main():
        return await asyncio.gather(first(), second())

    hresult, exc = asyncio.run(main())
    assert hresult == -2147024809
    assert exc is not ready[0] and isinstance(exc, stacksplice.HResultError)
    assert "first" not in str(exc) and stacksplice.peek_error() is None


def test_an_error_may_leave_its_loop(border):
    async def main():
        return stacksplice.originate(caught(fail, "out"))

    info = asyncio.run(main())
    assert caught(border.raise_error, info.hresult) is info.language_exception


def test_an_error_of_native_code_belongs_to_no_task(border):
    async def first():
        winrt.RoOriginateError(E_FAIL, "native")

    async def main():
        await asyncio.create_task(first())
        assert str(caught(border.raise_error, E_FAIL)) == "native"

    asyncio.run(main())


def test_saved_error_around_an_await(border):
    async def one(number, gate):
        exc = caught(fail, str(number))
        hresult = stacksplice.originate(exc).hresult
        with stacksplice.saved_error():
            assert stacksplice.peek_error() is None
            await gate.wait()
        assert caught(border.raise_error, hresult) is exc
        return number

    async def main():
        gate = asyncio.Event()
        tasks = [asyncio.create_task(one(number, gate)) for number in range(20)]
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*tasks) == list(range(20))

    asyncio.run(main())
    assert stacksplice.peek_error() is None


def test_saved_error_follows_a_coroutine_to_another_thread(border):
    """A coroutine that is driven by hand, by one thread after the other."""
    exc = caught(fail)

    @contextlib.contextmanager
    def nothing_here():
        assert stacksplice.peek_error() is None
        yield
        assert stacksplice.peek_error() is None

    async def moves():
        hresult = stacksplice.originate(exc).hresult
        with stacksplice.saved_error():
            await contextlib.nullcontext().__aenter__()
            await asyncio.sleep(0)
        return caught(border.raise_error, hresult)

    def finish():
        with pytest.raises(StopIteration) as end:
            coroutine.send(None)
        return end.value.value

    coroutine = moves()
    with nothing_here():
        coroutine.send(None)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(finish).result() is exc


def test_saved_error_in_clean_up_that_fails(border):
    first = caught(fail, "first")
    info = stacksplice.originate(first)
    with pytest.raises(KeyError), stacksplice.saved_error():
        stacksplice.originate(ValueError("clean-up"))
        raise KeyError
    assert stacksplice.take_error() == info
    with stacksplice.saved_error():
        stacksplice.originate(ValueError("clean-up"))
    assert stacksplice.peek_error() is None  # as it was before


def test_saved_error_that_is_never_put_back():
    coroutine_like = stacksplice.saved_error()
    exc = ValueError("kept")
    stacksplice.originate(exc)
    before = sys.getrefcount(exc)
    coroutine_like.__enter__()
    assert sys.getrefcount(exc) == before
    del coroutine_like
    assert sys.getrefcount(exc) == before - 1 and stacksplice.peek_error() is None
