"""What the file of a crash has beside the error: the thread's current error, and the other threads."""

from __future__ import annotations

from dataclasses import dataclass

from ..._errors.info import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@dataclass
class Crash:
    """Each thread is an error without any fault of its own: shown as its stack and its name."""

    current_error: ErrorInfo | None
    threads: list[ErrorInfo]
    threads_left_out: int


def _thread(crash: dict[str, Any], thread: dict[str, Any]) -> ErrorInfo:
    values = {
        **crash,
        "type": f"Thread {thread['thread_id']}",
        "message": thread["name"]
        if thread["answered"]
        else f"{thread['name']}, which has not answered in time",
        "thread_id": thread["thread_id"],
        "stack": thread["stack"],
        "frames_left_out": thread["frames_left_out"],
    }
    return ErrorInfo._from_json_values(values)


def crash_of(item: Any) -> Crash | None:
    """What ITEM, an item of a file, has beside its error; None if it is of no crash."""
    if not isinstance(item, dict) or not isinstance(item.get("threads"), list):
        return None
    current = item.get("current_error")
    return Crash(
        None if current is None else ErrorInfo._from_json_values(current),
        [_thread(item["error"], thread) for thread in item["threads"]],
        int(item.get("threads_left_out") or 0),
    )
