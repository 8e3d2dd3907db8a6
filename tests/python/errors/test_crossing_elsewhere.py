"""Errors that cross Lua inside of tasks, threads and processes, and greenlets that begin inside of Lua."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import sys

import process_jobs
import pytest
import stacksplice
from gap_reasons import OWN_STACK_ENDS
from process_jobs import CALLS, FAILS
from raising import caught, names

M_PERTURB = -6  # of mallopt: freed memory is overwritten, so that who reads it later fails


def fail(*_):
    raise ValueError("through Lua")


def lua_lines(stack) -> list[int]:
    return [frame.line for frame in stack if (frame.language, frame.kind) == ("lua", "script")]


def languages(info) -> list[str]:
    return [node.language for node in info.propagation]


def test_tasks_whose_errors_cross_lua_in_turn(crossing):
    """Each leaves by its own border, between the others'."""

    async def one(number):
        def raises(*_):
            raise ValueError(number)

        for _ in range(5):
            await asyncio.sleep(0)
            exc = caught(crossing.run, CALLS, raises)
            assert (type(exc), exc.args) == (ValueError, (number,))

    async def main():
        await asyncio.gather(*map(one, range(20)))

    asyncio.run(main())
    assert stacksplice.peek_error() is None


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_in_a_process(crossing, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        calls = [pool.submit(process_jobs.through_lua, crossing.__file__, each) for each in (CALLS, FAILS)]
        exc, other = (each.exception() for each in calls)
    info = stacksplice.error_info(exc)
    assert type(exc) is ValueError and info.process["id"] and names(info.stack)[0] == "plain"
    assert lua_lines(info.stack)[:3] == [2, 3, 4] and languages(info) == ["lua", "python"]
    info = stacksplice.error_info(other)
    assert isinstance(other, FileNotFoundError) and info.language == "lua"
    assert lua_lines(info.stack)[:2] == [1, 2]


# ---- Greenlets -----------------------------------------------------------------------------------

IN_A_COROUTINE = """local host = ...
local function inner() local r = py(host) return r end
local function middle() local r = inner() return r end
return (coroutine.wrap(function() local ok = pcall(middle) return ok end)())
"""


def pause():
    greenlet = sys.modules["greenlet"]
    return greenlet.getcurrent().parent.switch()


def assert_ended(stack):
    """At the base of its greenlet, and nobody disagrees about what is outside of it."""
    assert [frame.reason for frame in stack if frame.kind == "gap"] == [OWN_STACK_ENDS]


@pytest.mark.parametrize("closed", [False, True], ids=["collected", "closed"])
@pytest.mark.parametrize("deeper", [0, 1, 40])
def test_begun_in_a_coroutine_that_is_gone(crossing, closed, deeper):
    greenlet = pytest.importorskip("greenlet")
    ctypes.CDLL(None).mallopt(M_PERTURB, 0xDB)
    made, stacks = [], []

    def work():
        while True:
            stacks.append(stacksplice.capture())
            pause()

    def begin():
        made.append(greenlet.greenlet(work))
        made[0].switch()

    def resume(n):
        return made[0].switch() if n == 0 else resume(n - 1)

    def resume_from_c(n):
        return list(map(resume_from_c, [n - 1])) if n else made[0].switch()

    assert crossing.run(IN_A_COROUTINE, begin) and crossing.run(IN_A_COROUTINE, lambda: None)
    crossing.objects()  # collects
    if closed:
        crossing.close()
        crossing.run(crossing.find_pricing)  # in a new state, for other tests
    for resumed in (resume, resume_from_c):
        resumed(deeper)
    ctypes.CDLL(None).mallopt(M_PERTURB, 0)
    assert len(stacks) == 3
    for stack in stacks:
        assert_ended(stack)
        assert lua_lines(stack) == [] and names(stack) == ["work"]
    made[0].throw()


def test_lua_inside_and_outside_of_a_greenlet(crossing):
    greenlet = pytest.importorskip("greenlet")
    inside, outside = [], []

    def leaf():
        inside.append(stacksplice.capture())
        pause()
        inside.append(stacksplice.capture())

    def main():
        made = greenlet.greenlet(pause)
        made.switch()
        outside.append(stacksplice.capture())
        made.switch()

    made = greenlet.greenlet(lambda: crossing.run(IN_A_COROUTINE, leaf))
    made.switch()
    made.switch()
    assert made.dead and crossing.run(IN_A_COROUTINE, main)
    for stack in inside:
        assert_ended(stack)
        assert lua_lines(stack)[:3] == [2, 3, 4]
    assert lua_lines(outside[0])[:3] == [2, 3, 4]
    assert not [frame for frame in outside[0] if frame.kind == "gap"]
