"""Greenlets that began inside of Lua, and run when that Lua is gone: nothing of it is left to see."""

from __future__ import annotations

import pytest
import stacksplice
from gap_reasons import OWN_STACK_ENDS

greenlet = pytest.importorskip("greenlet")


def pause():
    return greenlet.getcurrent().parent.switch()


def lua_frames(stack):
    return [frame for frame in stack if (frame.kind, frame.language) == ("script", "lua")]


def check_ended(stack):
    """Ends at the base, and nobody disagrees about what is outside of it."""
    assert [frame.reason for frame in stack if frame.kind == "gap"] == [OWN_STACK_ENDS]


@pytest.mark.parametrize("closed", [False, True], ids=["collected", "closed"])
@pytest.mark.parametrize("deeper", [0, 1, 40])
def test_begun_in_a_coroutine_that_is_gone(lua_border, closed, deeper):
    made = []
    stacks = []

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

    assert lua_border.call(begin)
    assert lua_border.call(lambda: None)
    lua_border.collect()
    if closed:
        lua_border.close()
    for resumed in (resume, resume_from_c):
        resumed(deeper)
    assert len(stacks) == 3
    for stack in stacks:
        check_ended(stack)
        assert lua_frames(stack) == []
        assert [frame.function.rpartition(".")[2] for frame in stack if frame.kind == "script"] == ["work"]
    made[0].throw()
    lua_border.close()


def test_lua_inside_of_the_greenlet_is_shown(lua_border):
    stacks = []

    def leaf():
        stacks.append(stacksplice.capture())
        pause()
        stacks.append(stacksplice.capture())

    def begin():
        made = greenlet.greenlet(lambda: lua_border.call(leaf))
        made.switch()
        return made

    def outer():
        made.append(begin())

    made = []
    assert lua_border.call(outer)
    made[0].switch()
    lua_border.close()
    for stack in stacks:
        check_ended(stack)
        names = [(frame.language, frame.line) for frame in lua_frames(stack)]
        assert [line for _, line in names if line] == [1, 2, 3]
    assert made[0].dead


def test_main_sees_its_own_lua(lua_border):
    stacks = []

    def leaf():
        made = greenlet.greenlet(pause)
        made.switch()
        stacks.append(stacksplice.capture())
        made.switch()

    assert lua_border.call(leaf)
    lua_border.close()
    assert [frame.line for frame in lua_frames(stacks[0]) if frame.line] == [1, 2, 3]
    assert not [frame for frame in stacks[0] if frame.kind == "gap"]
