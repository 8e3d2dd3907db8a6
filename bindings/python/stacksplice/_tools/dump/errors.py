"""The errors and exceptions that stacksplice-inspect found in another process: their stacks, their text."""

from __future__ import annotations

import builtins

from ..._base.hints import Any, Iterator
from ..._errors.info import ErrorInfo

_HEADINGS = {
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


def errors_of(thread: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The exceptions of THREAD and its current error, each with its heading."""
    for told in thread.get("exceptions", ()):
        yield _HEADINGS[told["state"]], told
    if "error" in thread:
        yield "Current error of this thread", thread["error"]


def _info(told: dict[str, Any]) -> dict[str, Any]:
    return {"hresult_signed": _E_FAIL, "propagation": [], **told}


def text_of_error(heading: str, told: dict[str, Any], all_frames: bool) -> str:
    """The error or exception TOLD as its own report would say it."""
    info = _info({**told, "transformed": [_info(cause) for cause in told["transformed"]]})
    return f"\n{heading}:\n{ErrorInfo._from_json_values(info).format(all_frames=all_frames)}"
