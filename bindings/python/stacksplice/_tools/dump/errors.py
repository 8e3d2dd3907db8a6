"""The errors that stacksplice-inspect found in another process: their stacks, and their text."""

from __future__ import annotations

from ..._errors.info import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _within(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """ERROR, the languages that received it, and the errors inside of it and behind it."""
    yield error
    yield from error["propagation"]
    for inner in [*(error["exceptions"] or ()), *error.get("transformed", ())]:
        yield from _within(inner)


def with_stacks(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All that has a stack: threads, and their errors with what belongs to them."""
    for thread in document["threads"]:
        yield thread
        if "error" in thread:
            yield from _within(thread["error"])
    if "failed" in document:
        yield from _within(document["failed"])


def _format(error: dict[str, Any], all_frames: bool) -> str:
    return ErrorInfo._from_json_values(error).format(all_frames=all_frames)


def text_of_thread(thread: dict[str, Any], all_frames: bool) -> str:
    """The current error of THREAD as its own report would say it, or nothing."""
    if "error" not in thread:
        return ""
    return "\nCurrent error of this thread:\n" + _format(thread["error"], all_frames)


def text_of_failed(document: dict[str, Any], all_frames: bool) -> str:
    """The error with which the process failed fast, or nothing."""
    if "failed" not in document:
        return ""
    return "\nThe process ended itself because of this error:\n" + _format(document["failed"], all_frames)
