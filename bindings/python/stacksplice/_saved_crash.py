"""What the file of a crash has beside the error: the thread's current error, and the other threads."""

from __future__ import annotations

from ._errors import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _thread(crash: dict[str, Any], thread: dict[str, Any]) -> ErrorInfo:
    """A thread as an error without any fault of its own, which is shown as its stack and its name."""
    values = {
        **crash,
        "type": f"Thread {thread['thread_id']}",
        "message": thread["name"]
        if thread["answered"]
        else f"{thread['name']} (it has not answered in time)",
        "thread_id": thread["thread_id"],
        "stack": thread["stack"],
        "frames_left_out": thread["frames_left_out"],
    }
    return ErrorInfo._from_json_values(values)


def beside(item: Any) -> Iterator[tuple[str, ErrorInfo]]:
    """Each part of ITEM, an item of a file, beside its error: a heading or nothing, and what to show."""
    if not isinstance(item, dict) or not isinstance(item.get("threads"), list):
        return
    if item.get("current_error") is not None:
        yield "Current error of this thread:", ErrorInfo._from_json_values(item["current_error"])
    for thread in item["threads"]:
        yield "", _thread(item["error"], thread)
