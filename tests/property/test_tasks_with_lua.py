"""Errors that cross Lua inside of asyncio tasks, threads and processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import pickle

import pytest
import stacksplice
from gap_reasons import AWAITED

CALLS = "local function inner() host() end\nlocal function outer() inner() end\nouter()\n"
FAILS = "local function inner() error({hresult = 0x80070002}) end\ninner()\n"


def fail():
    raise ValueError("through Lua")


def caught(function, *arguments):
    try:
        function(*arguments)
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


def shown(stack) -> list[tuple[str, str]]:
    """Lua's frames, those of this file, and seams."""
    frames = [f for f in stack if f.asynchronous or f.language == "lua" or f.file == __file__]
    return [
        ("async", f.reason) if f.asynchronous else (f.language, (f.function or "?").rpartition(".")[2])
        for f in frames
    ]


def lua_lines(stack) -> list[int]:
    return [frame.line for frame in stack if (frame.language, frame.kind) == ("lua", "script")]


@pytest.mark.parametrize("chunk", [CALLS, f"local co = coroutine.wrap(function()\n{CALLS}end)\nco()\n"])
def test_python_through_lua_in_a_task(lua_border, chunk):
    async def leaf():
        await asyncio.sleep(0)
        lua_border.run(chunk, fail)

    async def main():
        await asyncio.create_task(leaf())

    exc = caught(asyncio.run, main())
    assert type(exc) is ValueError
    info = stacksplice.error_info(exc)
    names = shown(info.stack)
    assert names[0] == ("python", "fail") and names[1][0] == "lua"
    seam = names.index(("async", AWAITED))
    assert names[seam + 1 : seam + 3] == [("python", "main"), ("python", "caught")]
    assert ("python", "leaf") in names[:seam]
    assert [node.language for node in info.propagation] == ["lua", "python"]
    assert stacksplice.peek_error() is None


def test_an_error_of_lua_is_told_in_the_awaiting_task(lua_border):
    async def leaf():
        await asyncio.sleep(0)
        lua_border.run(FAILS, fail)

    async def main():
        try:
            await asyncio.gather(leaf())
        except FileNotFoundError as exc:
            return exc

    exc = asyncio.run(main())
    info = stacksplice.error_info(exc)
    assert (info.language, lua_lines(info.stack)[:2]) == ("lua", [1, 2])
    assert len(info.propagation) == 1


def test_tasks_whose_errors_cross_lua_in_turn(lua_border):
    """Each leaves by its own border, between the others'."""

    async def one(number):
        def raises():
            raise ValueError(number)

        for _ in range(5):
            await asyncio.sleep(0)
            exc = caught(lua_border.run, CALLS, raises)
            assert (type(exc), exc.args) == (ValueError, (number,))

    async def main():
        await asyncio.gather(*map(one, range(20)))

    asyncio.run(main())
    assert stacksplice.peek_error() is None


def test_in_a_thread_and_pickled(lua_border):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        exc = caught(pool.submit(lua_border.run, CALLS, fail).result)
    info = stacksplice.error_info(exc)
    made = pickle.loads(pickle.dumps(exc))
    found = stacksplice.error_info(made)
    assert list(map(str, found.stack)) == list(map(str, info.stack)) and lua_lines(found.stack)
    assert [node.language for node in found.propagation] == ["lua", "python"]


def works(path):
    import extension

    extension.load_extension(path).run(CALLS, fail)


def fails(path):
    import extension

    extension.load_extension(path).run(FAILS, fail)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_in_a_process(lua_border, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        exc = caught(pool.submit(works, lua_border.__file__).result)
        other = caught(pool.submit(fails, lua_border.__file__).result)
    info = stacksplice.error_info(exc)
    assert type(exc) is ValueError and info.process["id"]
    assert shown(info.stack)[0] == ("python", "fail") and lua_lines(info.stack)[:2] == [1, 2]
    assert [node.language for node in info.propagation] == ["lua", "python"]
    info = stacksplice.error_info(other)
    assert isinstance(other, FileNotFoundError) and info.language == "lua"
    assert lua_lines(info.stack)[:2] == [1, 2]
