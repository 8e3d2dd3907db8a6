"""Functions have the names that Python itself prints, also where code was renamed."""

from __future__ import annotations

import asyncio

import pytest
import stacksplice

NAMES = [
    "template",
    "block 'body'",
    "top-level template code",
    "<lambda>",
    "ule",  # the end of "<module>" without its ">"; and of none of its parts
    "module>",
    "größe",
    "名前",
    "a.b",
    "",
]


def script(stack):
    return [frame.function for frame in stack if frame.kind == "script"]


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_frame_that_is_live(name):
    found = {}
    code = compile("found = capture()", "page.html", "exec").replace(co_name=name)
    exec(code, found | {"capture": stacksplice.capture}, found)
    assert script(found["found"])[0] == name


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_frame_of_a_traceback(name):
    try:
        exec(compile("raise ValueError('x')", "page.html", "exec").replace(co_name=name))
    except ValueError as exc:
        error = exc
    passed = [f for f in stacksplice.originate(error).stack if f.trust == "traceback"]
    assert [f.function for f in passed] == [name, test_a_renamed_frame_of_a_traceback.__qualname__]


@pytest.mark.parametrize("name", ["waits", "<genexpr>", "await", "größe", "名前"])
def test_a_renamed_coroutine_that_awaits(name):
    found = []

    async def inner():
        await asyncio.sleep(0)
        found.append(stacksplice.capture(awaited_by=True))

    async def outer():
        await asyncio.create_task(inner())

    outer.__code__ = outer.__code__.replace(co_name=name)
    asyncio.run(outer())
    assert name in script(found[0])


def test_qualified_names_stay():
    class Outer:
        def method(self):
            return (lambda: stacksplice.capture())()

    here = test_qualified_names_stay.__qualname__
    assert script(Outer().method())[:3] == [
        f"{here}.<locals>.Outer.method.<locals>.<lambda>",
        f"{here}.<locals>.Outer.method",
        here,
    ]


def test_names_of_other_widths():
    """Name and qualified name are stored with one, two or four bytes a character."""
    space = {"capture": stacksplice.capture}
    exec("class 名前:\n def größe(self): return capture()\n def ascii(self): return self.größe()", space)
    assert script(space["名前"]().ascii())[:2] == ["名前.größe", "名前.ascii"]
