"""Errors that leave their process with a pickled exception, and what arrives of them.

What travels is one str in the exception's __dict__: the report in JSON, frames resolved, with a
member "process" that says where it was written.  Who unpickles it runs no code of this package and
need not have it.
"""

from __future__ import annotations

import json
import os
import sys

from .. import _stacksplice
from .._base.hints import Any, Iterator
from .info import ErrorInfo

_MOST_CHARACTERS = 256 * 1024
_MOST_MESSAGE = 8192
# How many frames each stack keeps, newest and oldest together: tried in turn until the report fits.
_CUTS = (256, 64, 16, 4)
_MOST_LISTED = 16  # nodes, causes, members, notes if it must be cut
_OMITTED = "omitted when the error was pickled"
_NAMES = {"propagation": "further receptions", "notes": "further notes"}

_DAMAGED = (RecursionError, TypeError, ValueError)


def here() -> dict[str, Any]:
    """The member "process": where this is."""
    process: dict[str, Any] = {"id": os.getpid(), "host": os.uname().nodename}
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        process["name"] = str(multiprocessing.current_process().name)
    interpreter = _stacksplice._INTERPRETER
    if interpreter:
        process["interpreter"] = interpreter
    return process


# ---- Out -----------------------------------------------------------------------------------------


def report(info: ErrorInfo, remote: str | None) -> str:
    """INFO, and the report that came with its exception from another process, as one text."""
    data = {**info.to_dict(), "process": here()}
    earlier = read(remote) if remote else None
    if earlier is not None:
        data["remote"] = earlier.to_dict()
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else _cut(data)


def _cut(data: dict[str, Any]) -> str:
    """DATA as a text of at most _MOST_CHARACTERS."""
    for error in stacks_in(data):
        _cut_lists(error)
    for frames in _CUTS:
        for error in stacks_in(data):
            _cut_stack(error, frames)
        text = json.dumps(data, ensure_ascii=False)
        if len(text) <= _MOST_CHARACTERS:
            return text
    kept = {**data, "stack": [], "propagation": [], "notes": [f"stack, chain and notes {_OMITTED}"]}
    kept.pop("remote", None)
    for name in ("exceptions", "transformed"):
        if kept.get(name):
            kept[f"{name}_left_out"] = kept.get(f"{name}_left_out", 0) + len(kept[name])
            kept[name] = []
    return json.dumps(kept, ensure_ascii=False)


def stacks_in(data: Any) -> Iterator[dict[str, Any]]:
    """The objects in DATA, at any depth, that have a stack: errors, their receivers, threads."""
    pending = [data]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("stack"), list):
                yield value
            pending += [part for name, part in value.items() if name != "stack"]
        elif isinstance(value, list):
            pending += value


def _cut_text(text: str) -> str:
    return text if len(text) <= _MOST_MESSAGE else text[:_MOST_MESSAGE] + "..."


def _cut_lists(error: dict[str, Any]) -> None:
    """At most _MOST_LISTED of everything but frames; a count or a note says how many there were."""
    told = []
    for name, value in list(error.items()):
        if isinstance(value, str):
            error[name] = _cut_text(value)
        elif isinstance(value, list) and name != "stack":
            more = len(value) - _MOST_LISTED
            if more > 0 and f"{name}_left_out" in error:
                error[f"{name}_left_out"] += more
            elif more > 0:
                told.append(f"{more} {_NAMES.get(name, name)} {_OMITTED}")
            del value[_MOST_LISTED:]
            value[:] = [_cut_text(item) if isinstance(item, str) else item for item in value]
    if told:
        error["notes"] = [*(error.get("notes") or []), *told]


def _cut_stack(error: dict[str, Any], frames: int) -> None:
    stack = error["stack"]
    if len(stack) <= frames + 1:
        return
    half = frames // 2
    count = int(error.get("frames_left_out") or 0)
    count += sum(frame.get("kind") != "gap" for frame in stack[half:-half])
    gap = f"{count} frames omitted when the error was pickled"
    left_out = {"kind": "gap", "trust": "exact", "language": "native", "reason": gap, "address": "0x0"}
    error["stack"] = [*stack[:half], left_out, *stack[-half:]]
    error["frames_left_out"] = count


# ---- In ------------------------------------------------------------------------------------------


def read(text: str) -> ErrorInfo | None:
    """The error that TEXT describes; None when it is no such text: it came from elsewhere."""
    try:
        _stacksplice._check_document(text)
        return ErrorInfo._from_json_values(json.loads(text))
    except _DAMAGED:
        return None
