"""The errors and exceptions that stacksplice-inspect found in another process: their stacks, their text."""

from __future__ import annotations

import builtins

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


HEADINGS = {
    "raised": "Exception on its way in this thread",
    "handled": "Exception that this thread handles",
}
_E_FAIL = -0x7FFFBFFB  # what the text of an exception does not show


def _message(type_name: str, told: dict[str, Any] | None) -> str:
    """What str() of an exception with these arguments says, as far as they alone decide it."""
    if not told or not told["count"]:
        return ""
    builtin = getattr(builtins, type_name, None)
    kind = builtin if isinstance(builtin, type) else Exception
    if issubclass(kind, OSError) and told["count"] == 2:
        return "[Errno {}] {}".format(*told["each"])
    is_plain = told["count"] == 1 and not issubclass(kind, KeyError)
    return str(told["each"][0] if is_plain else told["value"])


def write_messages(document: dict[str, Any]) -> None:
    """Make messages of the exceptions' arguments, and lists of what each was made from."""
    for thread in document["threads"]:
        shown: list[dict[str, Any]] = []
        for told in thread.pop("exceptions", ()):
            stack = told.pop("stack")
            told["message"] = _message(told["type"], told.pop("arguments"))
            told["stack"] = stack
            if "state" in told:
                shown.append({**told, "transformed": []})
            else:
                shown[-1]["transformed"].append(told)
        if shown:
            thread["exceptions"] = shown


def _info(told: dict[str, Any]) -> dict[str, Any]:
    return {"hresult_signed": _E_FAIL, "propagation": [], **told}


def text_of_exceptions(thread: dict[str, Any], all_frames: bool) -> str:
    """The exceptions of THREAD as Python shows them, or nothing."""
    text = ""
    for told in thread.get("exceptions", ()):
        info = _info({**told, "transformed": [_info(cause) for cause in told["transformed"]]})
        shown = ErrorInfo._from_json_values(info).format(all_frames=all_frames)
        text += f"\n{HEADINGS[told['state']]}:\n{shown}"
    return text
