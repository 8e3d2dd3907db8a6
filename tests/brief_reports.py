"""What a brief report has of a long one: the tests of both kinds compare by it."""

from __future__ import annotations

import json
from typing import Any

from stacksplice import ErrorInfo
from stacksplice._tools.top.command import quick_reports_of, reports_of

_EQUAL = (
    "hresult", "hresult_signed", "symbol", "description", "message", "type", "language", "thread_id",
    "fingerprint", "loose_fingerprint", "came_from", "process", "raised_as", "relation", "transformed_above",
)  # fmt: skip
_COUNTS = ("frames_left_out", "exceptions_left_out", "transformed_left_out")
_OF_A_FRAME = ("source", "source_column", "locals", "end_line", "column", "end_column")
_OF_A_PLACE = ("module_offset", "function_offset", "build_id", "address")


def _shortened_frame(frame: dict[str, Any]) -> dict[str, Any]:
    """FRAME of a long report with what a brief one may have of it, whether it has that frame or not."""
    can_be_looked_up = frame["kind"] == "native" and not (frame.get("function") and frame.get("line"))
    gone = {*_OF_A_FRAME, *(() if can_be_looked_up else _OF_A_PLACE)}
    if frame["trust"] != "inferred":
        gone.add("trust")
    return {name: value for name, value in frame.items() if name not in gone}


def shortened(value: Any) -> Any:
    """The long report VALUE with its frames, each cut to what a brief one may have."""
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if not isinstance(value, dict):
        return value
    whole = {name: each if name == "stack" else shortened(each) for name, each in value.items()}
    if "stack" in whole:
        whole["stack"] = [_shortened_frame(frame) for frame in whole["stack"]]
    return whole


def script_frames(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("language", "function", "file", "line", "interpreter")
    scripts = [frame for frame in report["stack"] if frame.get("kind", "script") == "script"]
    return [
        tuple(frame.get(name) for name in names)
        for frame in scripts
        # Texts hide those of importing, and of lupa's own functions.
        if not str(frame.get("file")).startswith("<frozen importlib")
        and not str(frame.get("file")).endswith(".pyx")
    ]


def _assert_equal(long: dict[str, Any], brief: dict[str, Any]) -> None:
    for name in _EQUAL:
        assert brief.get(name) == long.get(name), name
    for name in _COUNTS:
        assert brief.get(name, 0) == long.get(name, 0), name
    assert brief.get("notes", []) == long["notes"]
    assert script_frames(brief) == script_frames(long)
    assert len(brief["stack"]) + brief.get("hidden_left_out", 0) == len(long["stack"])
    receivers = [[node["language"], node["thread_id"]] for node in long["propagation"]]
    assert [[node["language"], node["thread_id"]] for node in brief["propagation"]] == receivers
    assert (brief.get("exceptions") is None) == (long["exceptions"] is None)
    for name in ("exceptions", "transformed"):
        for one, other in zip(long.get(name) or [], brief.get(name) or [], strict=True):
            _assert_equal(one, other)


def _without_references(value: Any) -> Any:
    """Those that crossed nothing are described anew for each report."""
    if isinstance(value, list):
        return [_without_references(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_references(each) for name, each in value.items() if name != "reference"}


def assert_agree(info: ErrorInfo) -> dict[str, Any]:
    """That the two forms of INFO say the same to all who read reports; the brief one."""
    # By one line: what crossed nothing has the stack of who reads it.
    text, whole_text = [info.to_json(brief=is_brief) for is_brief in (True, False)]
    brief, long = json.loads(text), json.loads(whole_text)
    assert text.count("\n") == 1
    _assert_equal(long, brief)
    saved, whole = ErrorInfo.from_json(text), ErrorInfo.from_dict(long)
    assert saved.to_dict() == brief == saved.to_dict(brief=True)
    assert _without_references(whole.to_dict(brief=True)) == _without_references(brief)
    assert (saved.fingerprint, saved.message, saved.notes) == (whole.fingerprint, whole.message, whole.notes)
    for last in (True, False):
        cut = ErrorInfo.from_dict(shortened(long)).format(newest_last=last)
        assert saved.format(newest_last=last) == cut
    for is_loose in (True, False):
        found = quick_reports_of(text.encode(), is_loose) or reports_of(text.encode(), is_loose)
        (other,) = reports_of(json.dumps(long).encode(), is_loose)
        assert [(one.key, one.is_strict) for one in found] == [(other.key, other.is_strict)]
    return brief
