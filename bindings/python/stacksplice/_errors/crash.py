"""What the file of a crash has beside the error: the thread's current error, and the other threads."""

from __future__ import annotations

from .info import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def name_of(thread: Mapping[str, Any]) -> str:
    """What a report calls THREAD beside its number."""
    name = str(thread["name"])
    return name if thread["answered"] else f"{name}, which has not answered in time"


def text_beside(file: Mapping[str, Any], **look: bool) -> str:
    """What the report of FILE says below its error; LOOK as of ErrorInfo.format."""
    text = ""
    if file.get("current_error") is not None:
        current = ErrorInfo._from_json_values(file["current_error"])
        text += f"\nCurrent error of this thread:\n{current.format(**look)}"
    for thread in file.get("threads") or ():
        # An error without any fault of its own: shown as its stack and its name.
        kind = f"Thread {thread['thread_id']}"
        values = {**file["error"], **thread, "type": kind, "message": name_of(thread)}
        text += f"\n{ErrorInfo._from_json_values(values).format(**look)}"
    if file.get("threads_left_out"):
        text += f"\n{file['threads_left_out']} more threads were too many for the report.\n"
    return text
