"""For Sentry's SDK: errors that crossed a border arrive with the frames of all languages.

    sentry_sdk.init(dsn, integrations=[stacksplice.sentry.StackspliceIntegration()])

``import stacksplice.sentry`` needs ``sentry_sdk``; ``import stacksplice`` does not.  Errors that crossed
no border are sent as the SDK describes them.  Saved reports are events, too:

    sentry_sdk.capture_event(stacksplice.sentry.event(stacksplice.ErrorInfo.from_json(line)))
"""

from __future__ import annotations

import json
import os
from difflib import SequenceMatcher
from typing import Any, TypeAlias

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.scope import add_global_event_processor, global_event_processors
from sentry_sdk.utils import (
    filename_for_module,
    get_lines_from_file,
    get_type_module,
    get_type_name,
    set_in_app_in_frames,
)

from . import _stacksplice
from ._base.redaction import clean_report
from ._errors.behind import behind, members_of
from ._errors.info import ErrorInfo
from ._errors.kept import globals_of, unread

__all__ = ["StackspliceIntegration", "event"]

_FORMAT = 4  # STACKSPLICE_FORMAT_SENTRY
_OF_THE_TREE = ("exception_id", "parent_id", "source")  # ours, which has more of it
_OF_A_PROGRAM = ("release", "environment", "dist")

_Dict: TypeAlias = dict[str, Any]


class StackspliceIntegration(Integration):
    """Pass one to ``sentry_sdk.init(integrations=[...])``."""

    identifier = "stacksplice"

    @staticmethod
    def setup_once() -> None:
        """What the SDK calls when the first client has the integration."""
        add_global_event_processor(_processed)


def _processed(event: Any, hint: Any) -> Any:
    client = sentry_sdk.get_client()
    exc = (hint.get("exc_info") or (None, None))[1]
    if exc is not None and client.get_integration(StackspliceIntegration) is not None:
        if "values" in (event.get("exception") or {}):
            _complete(event, exc, client.options)
    return event


def event(info: ErrorInfo) -> dict[str, Any]:
    """The event for Sentry of INFO, alive or read back from a saved report.

    It has what C programs get: a program adds what Sentry should know besides, such as "release" or the
    time at which a saved error occurred, and sends it with ``sentry_sdk.capture_event``.  That of the file
    of a crash has the host, program and system that the file names, and nothing of the process that sends
    it: "release", "environment" and "dist" are "unknown" until a program sets them.
    """
    if info._handle is not None and not info._handle.came:
        text = info._handle.format(_FORMAT, 0, False, False)  # in brief: "in_app" tells the rest
    else:
        text = _stacksplice._format_document_for_sentry(json.dumps(info.to_dict()))
    told: dict[str, Any] = json.loads(text)
    if info._file is not None and info._handle is None:
        for name in _OF_A_PROGRAM:
            told[name] = "unknown"  # the SDK would take those of the sender, and Sentry takes no empty ones
        if global_event_processors[-1:] != [_without_the_sender]:
            add_global_event_processor(_without_the_sender)  # behind those that add what it takes out
    return told


def _without_the_sender(event: Any, hint: Any) -> Any:
    """The EVENT of the file of a crash without what integrations of the SDK said of this process."""
    contexts, extra = event.get("contexts"), event.get("extra")
    if isinstance(contexts, dict) and "arguments" in (contexts.get("process") or {}):
        event.pop("modules", None)
        if isinstance(extra, dict):
            extra.pop("sys.argv", None)
    return event


# ---- Which of the SDK's exceptions is which of our errors ------------------------------------------


def _exceptions_of(exc: BaseException) -> list[BaseException]:
    """The exceptions of which the SDK's event for EXC tells, in its order: members only of a group."""
    found: list[BaseException] = []
    waiting = [exc]
    while waiting:
        one = waiting.pop()
        if any(one is known for known in found):
            continue
        found.append(one)
        members = members_of(one) if isinstance(exc, BaseExceptionGroup) else ()
        waiting += [inner for inner in (*members[::-1], behind(one)[1]) if inner is not None]
    return found


def _names_of(exc: BaseException) -> tuple[str | None, str | None]:
    return get_type_module(type(exc)), get_type_name(type(exc))


def _values_of(values: list[_Dict], exc: BaseException) -> list[tuple[_Dict, BaseException | None]]:
    """The SDK's VALUES, the error itself first, each with its exception."""
    exceptions = _exceptions_of(exc)
    told: list[tuple[_Dict, BaseException | None]] = []
    for value in values:  # another event processor may have added some, or have taken some out
        names = value.get("module"), value.get("type")
        found = next((at for at, one in enumerate(exceptions) if _names_of(one) == names), None)
        told.append((value, None if found is None else exceptions[found]))
        if found is not None:
            del exceptions[: found + 1]
    return told


def _inside(whole: Any, source: str) -> Any:
    """What is at SOURCE of WHOLE, an ErrorInfo or an exception, as "mechanism" names it; or None."""
    is_exception = isinstance(whole, BaseException)
    if not source.startswith("exceptions["):
        return behind(whole)[1] if is_exception else whole.transformed
    members = members_of(whole) if is_exception else whole.exceptions or ()
    number = int(source[len("exceptions[") : -1])
    return members[number] if number < len(members) else None


def _exception_of(
    info: ErrorInfo, exceptions: list[BaseException], there: BaseException | None
) -> BaseException | None:
    """The one of EXCEPTIONS that INFO is the error of; THERE is what stands where INFO does, or None."""
    if info._handle is None:
        return there  # it came from another process, and keeps no exception
    for exc in exceptions:
        if info.language_exception is exc or _stacksplice._own_info(exc) == info:
            return exc
    # What crossed nothing is described anew for each report.
    return there if there is not None and _stacksplice._own_info(there) is None else None


def _exceptions_by_number(
    ours: list[_Dict], info: ErrorInfo, exceptions: list[BaseException]
) -> dict[int, BaseException]:
    """Of which of EXCEPTIONS each of OUR values tells, by its number.  The first of both is of INFO."""
    infos: dict[int, ErrorInfo] = {0: info}
    matched = {0: exceptions[0]}
    for value in ours[1:]:
        number, parent, source = (value["mechanism"][name] for name in _OF_THE_TREE)
        inner = _inside(infos[parent], source) if parent in infos else None
        if inner is None:
            continue
        infos[number] = inner
        there = _inside(matched[parent], source) if parent in matched else None
        found = _exception_of(inner, exceptions, there)
        if found is not None:
            matched[number] = found
    return matched


# ---- Frames ----------------------------------------------------------------------------------------


def _frames_of(value: _Dict) -> list[_Dict]:
    stack = value.get("stacktrace")
    return list(stack.get("frames") or ()) if isinstance(stack, dict) else []


def _place(frame: _Dict) -> tuple[str, int]:
    """Where FRAME is, as the SDK has it: of names such as "<string>", too."""
    return os.path.abspath(frame.get("abs_path") or frame.get("filename") or ""), frame["lineno"]


def _pairs(ours: list[_Dict], theirs: list[_Dict]) -> list[tuple[int, int]]:
    """Which of OUR frames are which of THEIRS: both are one stack, of which each may lack parts.

    The innermost are compared first: of a recursion that was cut those are there.
    """
    placed = [[at for at, frame in enumerate(one) if frame.get("lineno")][::-1] for one in (ours, theirs)]
    mine, others = (
        [_place(one[at]) for at in found] for one, found in zip((ours, theirs), placed, strict=True)
    )
    blocks = SequenceMatcher(None, mine, others, autojunk=False).get_matching_blocks()
    return sorted(
        (placed[0][at + n], placed[1][other + n]) for at, other, size in blocks for n in range(size)
    )


def _both(ours: _Dict, known: _Dict) -> _Dict:
    """One frame: what is in KNOWN, the SDK's, and of OURS what the SDK does not know."""
    told = {name: value for name, value in known.items() if value not in (None, [], {})}
    told.pop("function", None)  # ours has the names of its classes, too
    return {**known, **ours, **told}


def _as_the_sdk_would(frame: _Dict) -> _Dict:
    """FRAME, which the SDK does not have, with what its serializer says of the others."""
    file = frame.get("abs_path") or frame.get("filename")
    if frame["platform"] == "native":
        if "package" in frame:
            frame["module"] = os.path.basename(frame["package"])
    elif file:
        is_python = frame["platform"] == "python"
        frame["module"] = globals_of(file).get("__name__") if is_python else frame["platform"]
        if os.path.isfile(file):
            frame["abs_path"] = os.path.abspath(file)
            frame["filename"] = filename_for_module(frame["module"], file)
    return frame


def _add_context(frame: _Dict, most: int | None) -> None:
    """Give FRAME the lines around its own, if that one still stands there."""
    file, line = frame.get("abs_path"), frame.get("context_line")
    if not file or not line or "pre_context" in frame or unread(file):
        return
    before, same, after = get_lines_from_file(file, frame["lineno"] - 1, most)
    if isinstance(same, str) and same.strip() == line.strip():
        frame.update(pre_context=before, context_line=same, post_context=after)


def _decide_in_app(frame: _Dict, options: Any) -> None:
    """What the SDK's options say of FRAME goes before what we think of a program's own frame."""
    if str(frame.get("filename")).endswith(".pyx"):
        frame["in_app"] = False  # of a bridge: such files are no part of what is installed
    if not frame.get("in_app"):
        return
    del frame["in_app"]
    if frame["platform"] == "python":
        return  # which the SDK decides when all have seen the event
    set_in_app_in_frames([frame], options.get("in_app_exclude"), options.get("in_app_include"))
    frame.setdefault("in_app", True)


def _all_frames(ours: list[_Dict], theirs: list[_Dict]) -> list[_Dict]:
    """The frames of both, callers first."""
    frames: list[_Dict] = []
    begin, known = 0, 0
    pairs = _pairs(ours, theirs)
    for mine, other in pairs:
        between = [[_as_the_sdk_would(frame) for frame in ours[begin:mine]], theirs[known:other]]
        for part in reversed(between) if begin else between:  # those outside of its catcher come first
            frames += part
        frames.append(_both(ours[mine], theirs[other]))
        begin, known = mine + 1, other + 1
    rest = [_as_the_sdk_would(frame) for frame in ours[begin:]]
    return frames + (theirs[known:] + rest if pairs else rest + theirs)


def _joined_frames(ours: list[_Dict], theirs: list[_Dict], options: Any) -> list[_Dict]:
    """The frames of both, each with all that the SDK's options let through."""
    has_source = options.get("include_source_context", True)
    if theirs and not any("context_line" in frame for frame in theirs):
        has_source = False  # by another option: there are several
    frames = _all_frames(ours, theirs)
    for frame in frames:
        frame.setdefault("platform", "python")
        if has_source:
            _add_context(frame, options.get("max_value_length"))
        else:
            frame.pop("context_line", None)
        _decide_in_app(frame, options)
    return frames


# ---- The event -------------------------------------------------------------------------------------


def _add_images(told: _Dict, more: _Dict) -> None:
    images = told.setdefault("debug_meta", {}).setdefault("images", [])
    images += [image for image in more["debug_meta"]["images"] if image not in images]


def _joined(ours: _Dict, theirs: _Dict, options: Any) -> _Dict:
    """OURS with what the SDK knows of it besides, THEIRS: of the exception itself that is all."""
    mine, known = ours["mechanism"], theirs.get("mechanism") or {}
    place = {name: mine[name] for name in _OF_THE_TREE if name in mine}
    data = {**(known.get("data") or {}), **mine["data"]}
    value = {**ours, **theirs, "mechanism": {**mine, **known, **place, "data": data}}
    # lupa's LuaError has no text for a table, and Sentry's titles have the first line of the value.
    value["value"] = str(theirs.get("value") or "").lstrip("\n") or ours["value"]
    frames = _joined_frames(_frames_of(ours), _frames_of(theirs), options)
    if frames:
        value["stacktrace"] = {**ours.get("stacktrace", {}), "frames": frames}
    value.update(clean_report(value))  # the SDK read the exception itself
    return value


def _add_the_rest(
    values: list[_Dict], known: list[tuple[_Dict, BaseException | None]], numbers: dict[int, int]
) -> None:
    """Add to VALUES those of the SDK, KNOWN, that are none of ours: the NUMBERS are of those that are."""
    for at, (value, _) in enumerate(known):
        if at in numbers:
            continue
        mechanism = value["mechanism"] = {**(value.get("mechanism") or {})}
        numbers[at] = mechanism["exception_id"] = len(values)
        # Only events of groups have the numbers of parents; in others each leads to the one before it.
        mechanism["parent_id"] = numbers.get(mechanism.get("parent_id", at - 1), 0)
        before = known[at - 1][1]
        mechanism.setdefault("source", f"__{behind(before)[0] if before is not None else 'context'}__")
        values.append(value)


def _keep_members(
    values: list[_Dict], known: list[tuple[_Dict, BaseException | None]], numbers: dict[int, int]
) -> None:
    """Let what the SDK, KNOWN, has as the member of a group be one in VALUES, which have each error once
    and may have it as that group's context: the NUMBERS are those of KNOWN in VALUES."""
    by_id = {(value.get("mechanism") or {}).get("exception_id"): at for at, (value, _) in enumerate(known)}
    for at, number in numbers.items():
        told = known[at][0].get("mechanism") or {}
        source = told.get("source") or ""
        parent = numbers.get(by_id.get(told.get("parent_id"), -1))
        if not source.startswith("exceptions[") or parent is None:
            continue
        above: int | None = parent
        while above is not None and above != number:
            above = values[above]["mechanism"].get("parent_id")
        if above is None:  # else the value would be below itself
            values[number]["mechanism"].update(parent_id=parent, source=source)


def _complete(told: _Dict, exc: BaseException, options: Any) -> None:
    """Give TOLD, an event of the SDK for EXC, our stacks."""
    info = _stacksplice.error_info(exc)
    if info is None:
        return
    ours = event(info)
    errors = ours["exception"]["values"][::-1]  # the error itself first
    known = _values_of(told["exception"]["values"][::-1], exc)
    exceptions = _exceptions_by_number(errors, info, _exceptions_of(exc))
    values: list[_Dict] = []
    renumbered: dict[int, int] = {}
    numbers: dict[int, int] = {}  # by the places in KNOWN
    placed: dict[int, int] = {}  # by the id of the exception: the SDK may lack it
    for number, value in enumerate(errors):
        same = exceptions.get(number)
        at = next((at for at, (_, one) in enumerate(known) if one is same and one is not None), None)
        if id(same) in placed:  # it is a context and a member, too: of what crossed nothing we have it twice
            renumbered[number] = placed[id(same)]
            continue
        renumbered[number] = value["mechanism"]["exception_id"] = len(values)
        if number:
            value["mechanism"]["parent_id"] = renumbered[value["mechanism"]["parent_id"]]
        if same is not None:
            placed[id(same)] = len(values)
        if at is not None:
            numbers[at] = len(values)
        values.append(_joined(value, {} if at is None else known[at][0], options))
    _keep_members(values, known, numbers)
    _add_the_rest(values, known, numbers)
    told["exception"]["values"] = values[::-1]
    told.setdefault("fingerprint", ours["fingerprint"])
    _add_images(told, ours)
