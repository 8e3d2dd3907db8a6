"""The stack that an exception has where it leaves Python for C is the one that was there when it was raised.

The program captures the stack itself, just before it raises.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stacksplice

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")

Call = Callable[[], object]
WITHOUT_ADDRESS = ("python", "lua")


def plain(call: Call) -> object:
    return call()


def by_sorted(call: Call) -> object:
    return sorted([0], key=lambda _: call())


def by_next(call: Call) -> object:
    def generator() -> Iterator[object]:
        yield call()

    return next(generator())


def by_getattr(call: Call) -> object:
    class Asked:
        def __getattr__(self, name: str) -> object:
            return call()

    return hasattr(Asked(), "attribute")


def by_map(call: Call) -> object:
    return list(map(lambda _: call(), [0]))


def again(call: Call) -> object:
    """An exception that is raised again goes on its way."""
    try:
        return call()
    except ValueError:
        raise


def beside_another(call: Call) -> object:
    """What is handled meanwhile leaves nothing behind."""
    try:
        return call()
    finally:
        try:
            by_sorted(lambda: [].pop())
        except IndexError:
            pass


WAYS = [plain, by_sorted, by_next, by_getattr, by_map, again, beside_another]


def nested(ways: tuple[Callable[[Call], object], ...], call: Call) -> Call:
    for way in reversed(ways):
        call = lambda way=way, call=call: way(call)  # noqa: E731
    return call


def in_callback(call: Call, monkeypatch: pytest.MonkeyPatch) -> stacksplice.ErrorInfo | None:
    """The error of what CALL raises into the C library's qsort()."""
    found: list[stacksplice.ErrorInfo | None] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_a: object, _b: object) -> int:
        call()
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(
            sys, "unraisablehook", lambda args: found.append(stacksplice.error_info(args.exc_value))
        )
        ctypes.CDLL(None).qsort((ctypes.c_int * 2)(), 2, ctypes.sizeof(ctypes.c_int), compare)
    return found[0]


def elements(stack: Any) -> list[object]:
    return [
        frame.function if frame.language in WITHOUT_ADDRESS else (frame.address, frame.reason)
        for frame in stack
    ]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    stacksplice.install()
    yield
    stacksplice.uninstall()


def check(ways: tuple[Callable[[Call], object], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    there = []

    def fail() -> None:
        there[:] = elements(stacksplice.capture())
        raise ValueError("no")

    error = in_callback(nested(ways, fail), monkeypatch)
    assert error is not None
    assert elements(error.stack) == there, [way.__name__ for way in ways]


def test_every_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for ways in itertools.product(WAYS, repeat=2):
        check(ways, monkeypatch)


def test_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    for _ in range(100):
        check(tuple(chance.choices(WAYS, k=chance.randrange(3, 9))), monkeypatch)


def test_a_task_keeps_its_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop below a callback is no border to it; an interrupt goes on through the loop."""
    kept: list[BaseException] = []

    async def fails() -> None:
        raise ValueError("no")

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        try:
            await asyncio.create_task(fails())
        except ValueError as exc:
            kept.append(exc)

    error = in_callback(lambda: (asyncio.run(main()), asyncio.run(interrupted())), monkeypatch)
    assert stacksplice.error_info(kept[0]) is None
    assert error is not None and "interrupted" in str([frame.function for frame in error.stack])
