"""A program that tests inspect from outside: threads that stand still in known places.

It prints one line of JSON: for each thread the stack that it captured itself, at its resting place.  Then
it waits for its standard input to end.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import json
import re
import sys
import threading
from collections.abc import Callable

import stacksplice

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

seen: dict[str, dict] = {}
resting = threading.Barrier(1)


def note(name: str) -> None:
    stack = [frame.to_dict() for frame in stacksplice.capture()]
    seen[name] = {"thread_id": threading.get_native_id(), "stack": stack}


def rest(name: str) -> None:
    # Both calls are on one line, so that all frames outside of this one are equal.
    note(name), resting.wait(), end.wait()


def plain(name: str) -> None:
    rest(name)


def sort_key(name: str) -> None:
    sorted([1], key=lambda value: rest(name))


def regular_expression(name: str) -> None:
    re.sub("a", lambda match: rest(name) or "", "a")


def c_callback(name: str) -> None:
    numbers = (ctypes.c_int * 2)(2, 1)
    compare = COMPARE(lambda left, right: rest(name) or 0)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)


def generators(name: str) -> None:
    def inner():
        rest(name)
        yield 1

    def outer():
        yield from inner()

    list(outer())


def coroutines(name: str) -> None:
    async def inner() -> None:
        rest(name)

    async def outer() -> None:
        await inner()

    asyncio.run(outer())


class Klass:
    def __init__(self, name: str) -> None:
        self.name = name
        self.property

    @property
    def property(self) -> None:
        rest(self.name)

    def __del__(self) -> None:
        rest(self.name)


def initialised(name: str) -> None:
    Klass(name)


def finalised(name: str) -> None:
    thing = object.__new__(Klass)
    thing.name = name
    del thing


def executed(name: str) -> None:
    text = "def größe_日本(name):\n    rest(name)\ngröße_日本(name)"
    exec(compile(text, "dir/ünïcode-日本.py", "exec"), globals(), {"name": name})


def deep(name: str, depth: int = 90) -> None:
    if not depth:
        rest(name)
    elif depth % 3:
        deep(name, depth - 1)
    else:  # through C, so that there are many runs
        functools.reduce(lambda a, b: deep(name, depth - 1), [1, 2])


SCENARIOS: list[Callable[[str], None]] = [
    plain,
    sort_key,
    regular_expression,
    c_callback,
    generators,
    coroutines,
    initialised,
    finalised,
    executed,
    deep,
]

if __name__ == "__main__":
    resting = threading.Barrier(len(SCENARIOS) + 1, timeout=60)
    end = threading.Event()
    for scenario in SCENARIOS:
        threading.Thread(target=scenario, args=(scenario.__name__,), daemon=True).start()
    resting.wait()
    print(json.dumps(seen), flush=True)
    sys.stdin.read()
