"""What the tests raise, how they catch it, and what they look for in its stack."""

from __future__ import annotations

import asyncio

import stacksplice


def caught(function, *arguments) -> BaseException:
    try:
        function(*arguments)
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def boom(exc):
    raise exc


def fail(message="x"):
    raise ValueError(message)


def first():
    raise KeyError("first")


def with_cause():
    try:
        first()
    except KeyError as exc:
        raise ValueError("second") from exc


def leaf_behind(border):
    async def leaf(message="x"):
        await asyncio.sleep(0)
        border.call(fail, message)

    return leaf


def by_gather(leaf):
    async def main():
        await asyncio.gather(leaf(), asyncio.sleep(0))

    return main


def names(stack) -> list[str]:
    """Of script functions, the last part."""
    return [frame.function.rpartition(".")[2] for frame in stack if frame.kind == "script"]


def reasons(stack) -> list[str]:
    """Of gaps."""
    return [frame.reason for frame in stack if frame.kind == "gap"]


def in_file(file, stack) -> list[str]:
    """Frames of FILE and of this one by the last part of their names, and seams by their reasons."""
    shown = [frame for frame in stack if frame.asynchronous or frame.file in (file, __file__)]
    return [f.reason if f.asynchronous else f.function.rpartition(".")[2] for f in shown]


def report(exc, **options) -> str:
    return "".join(stacksplice.format_exception(exc, **options))
