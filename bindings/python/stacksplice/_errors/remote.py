"""Errors that leave their process with a pickled exception, and how they go on where they arrive.

What travels is one str: the report in JSON, frames resolved, with a member "process" that says where it
was written.  Who unpickles it runs no code of this package and need not have it.

Where the exception is raised again, its error goes on: the stack of that process, a gap that names it, and
the stack of this one, as one list.  So a report has one form, however many processes it came through.
"""

from __future__ import annotations

import json
import os
import sys

from .. import _stacksplice
from .._base.hints import Any, Iterator
from .behind import behind as _behind
from .behind import members_of as _members
from .behind import traceback_of as _traceback
from .info import _CAUSES, _JSON, _MEMBERS, ErrorInfo
from .stand_in import is_stand_in, missing

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


def report(info: ErrorInfo) -> str:
    """INFO as the text that travels."""
    data = {**info.to_dict(), "process": here()}
    data.pop("came_from", None)  # the stack says so
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


# ---- Going on ------------------------------------------------------------------------------------

_OF_CAUSES = ("transformed", "transformed_left_out", "transformed_above")
# What an error keeps of the process where it was raised.
_OF_ORIGIN = ("language", "thread_id", "fingerprint", "loose_fingerprint")
_RETURNED = "frames here had already returned"
_SEAM = "error came from "


def data_of(info: ErrorInfo) -> dict[str, Any]:
    """The report of INFO, an error that is alive, as plain values: with what it, its causes and its members
    went through in other processes."""
    handle = info._handle
    assert handle is not None
    exc = handle.exception if handle.is_description else None
    data = _data_of(handle, exc) if handle.came else json.loads(handle.format(_JSON, 0, True, False))
    came = read(handle.remote) if handle.remote is not None else None
    if came is None:
        return data
    there = came.to_dict()
    if handle.exception is not None:
        _add_text(there, handle.exception)
    if exc is not None and _traceback(exc) is None:
        return {**there, "notes": _notes_of(there, data)}
    if exc is not None:
        data["stack"] = _without_readers(data["stack"])
    return _gone_on(there, data)


def _add_text(there: dict[str, Any], exc: BaseException) -> None:
    """Give THERE, the report that came with EXC, what only the text that came with EXC says of processes."""
    stacks: list[list[dict[str, Any]]] = [[]]
    for frame in there["stack"]:
        if str(frame.get("reason")).startswith(_SEAM):
            stacks.append([])
        stacks[-1].append(frame)
    known, found = len(stacks), missing(exc, stacks)
    for at, frames in reversed(found):
        if at < known:
            stacks.insert(at, [_seam(None), *frames])
    for at, frames in found:
        if at == known:
            stacks.append([_seam(_leave(there)), *frames])
    there["stack"] = [frame for part in stacks for frame in part]


def _data_of(handle: _stacksplice.ErrorHandle, exc: BaseException | None) -> dict[str, Any]:
    """The same of HANDLE's error, but for what it went through itself.

    EXC is its exception if the error was made just now: then the errors behind it are those of the
    exceptions behind EXC.  Those of an error that was made before know their exceptions themselves.
    """
    data: dict[str, Any] = json.loads(handle.format(_JSON, 0, True, False))
    found = handle.read(_CAUSES | _MEMBERS)
    cause, members = found.get("cause"), found.get("exceptions")
    if cause is not None and data["transformed"]:
        behind = _data_behind(cause._handle, exc, _behind(exc)[1] if exc else None)
        of_causes = {name: behind.pop(name) for name in _OF_CAUSES}
        del behind["schema"]
        first = {"relation": found["relation"], **behind}
        data.update(of_causes, transformed=[first, *of_causes["transformed"]])
    if members and len(members) == len(data["exceptions"]):
        inner = [None] * len(members) if exc is None else list(_members(exc))
        data["exceptions"] = [
            _data_behind(member._handle, exc, of) for member, of in zip(members, inner, strict=False)
        ]
        for member in data["exceptions"]:
            del member["schema"]
    return data


def _data_behind(
    handle: _stacksplice.ErrorHandle, made_of: BaseException | None, exc: BaseException | None
) -> dict[str, Any]:
    """The same of HANDLE's error, which is behind one that was just made of MADE_OF, or before; EXC is its
    exception if it is known by its place."""
    exc = exc or handle.exception
    own = _stacksplice._own_info(exc) if exc is not None else None
    if own is not None and own._handle is not None:
        return data_of(own)
    return _data_of(handle, exc if made_of is not None else None)


def _without_readers(stack: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """STACK without the callers of who reads the error, if they did not call its outermost frame."""
    last = max([at for at, frame in enumerate(stack) if frame["trust"] == "traceback"], default=-1)
    is_over = last >= 0 and last + 1 < len(stack) and stack[last + 1].get("reason") == _RETURNED
    return stack[: last + 1] if is_over else stack


def _notes_of(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    return [*here["notes"], *[note for note in there.get("notes") or () if note not in here["notes"]]]


def _gone_on(there: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """The report of an error that was THERE when it was pickled, and HERE is what it went through since."""
    data = {**there, **here, "notes": _notes_of(there, here)}
    for name in _OF_ORIGIN:
        data.pop(name, None)
        if name in there:
            data[name] = there[name]
    if not here["message"]:  # such as of a table that Lua raised, whose words only the report has
        data["message"] = there["message"]
    data["stack"] = [*there["stack"], _seam(_leave(data)), *here["stack"]]
    data["frames_left_out"] = int(there.get("frames_left_out") or 0) + here["frames_left_out"]
    data["propagation"] = [*there["propagation"], *here["propagation"]]
    if there.get("exceptions"):
        data["exceptions"] = there["exceptions"]
        data["exceptions_left_out"] = there.get("exceptions_left_out") or 0
    data.update(_causes_of(there, here))
    return data


def _causes_of(there: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """What a traceback would show behind the error: a cause that it got here, else what it had there."""
    causes = here["transformed"]
    is_text = causes and is_stand_in(causes[0].get("type"))
    if causes and causes[0]["relation"] == "cause" and not is_text:
        return {}
    if is_text or there.get("transformed") or there.get("transformed_left_out"):
        nothing: dict[str, Any] = {"transformed": [], "transformed_left_out": 0, "transformed_above": None}
        return {name: there.get(name, nothing[name]) for name in _OF_CAUSES}
    return {}


def _leave(data: dict[str, Any]) -> Any:
    """The process that DATA is of, which it comes from now; None if that is not known."""
    process = data.pop("process", None)
    if process:
        data["came_from"] = process
    return process


def _seam(process: Any) -> dict[str, Any]:
    """What stands between the frames of PROCESS and those of the one where they were raised again."""
    place = "another process"
    if isinstance(process, dict):
        inside = f"interpreter {process['interpreter']} of " if process.get("interpreter") else ""
        name = f" ({process['name']})" if process.get("name") else ""
        place = f"{inside}process {process.get('id')}{name} on {process.get('host')}"
    gap = f"error came from {place}"
    seam = {"kind": "gap", "trust": "exact", "language": "python", "reason": gap, "address": "0x0"}
    return {**seam, "asynchronous": True}
