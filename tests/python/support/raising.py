"""What the tests raise, how they catch it, and what they look for in its stack."""

from __future__ import annotations

import asyncio

import pytest
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


def error_of(exc: BaseException) -> stacksplice.ErrorInfo:
    stacksplice.originate(exc)
    stacksplice.take_error()
    info = stacksplice.error_info(exc)
    assert info is not None
    return info


def frames_of(exc: BaseException) -> dict[str, dict[str, str]]:
    """The variables of each of Python's frames in EXC's report, by the last part of its function."""
    frames = error_of(exc).to_dict()["stack"]
    return {
        frame["function"].rpartition(".")[2]: frame.get("locals", {})
        for frame in reversed(frames)
        if frame["language"] == "python" and frame["kind"] == "script"
    }


def text_of_value(value: object) -> str:
    def raiser(value):
        raise ValueError

    return frames_of(caught(raiser, value))["raiser"]["value"]


@pytest.fixture(autouse=True)
def without_names(monkeypatch):
    """For modules that import it: the names that asyncio makes up depend on what ran before."""
    monkeypatch.setattr("stacksplice._errors.awaiting._MAX_NAMES", 0)
    monkeypatch.setattr("stacksplice._errors.awaiting._named_tasks", set())
