"""What the file of a crash has beside the error: the thread's current error, and the other threads."""

from __future__ import annotations

from dataclasses import dataclass

from .info import ErrorInfo

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


def text_beside(item: Any, **look: bool) -> str:
    """What a report of ITEM says below its error; LOOK as of ErrorInfo.format."""
    crash = crash_of(item)
    if crash is None:
        return ""
    text = ""
    if crash.current_error is not None:
        text += f"\nCurrent error of this thread:\n{crash.current_error.format(**look)}"
    for thread in crash.threads:
        text += f"\n{thread.format(**look)}"
    if crash.threads_left_out:
        text += f"\n{crash.threads_left_out} more threads were too many for the report.\n"
    return text


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
