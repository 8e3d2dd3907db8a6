"""Finds the fingerprint of a saved report in its line, where possible without reading all of it."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone

from ..saved.files import items_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# A report as the core writes it begins and ends so, with or without spaces.  In JSON no text has a
# quotation mark without a backslash, so these are its own members, not those of a cause or a member.
_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_HEAD = (
    r'\s*\{"schema": ?"stacksplice-error/1", ?"hresult": ?"0x[0-9a-f]{8}", ?"hresult_signed": ?-?\d+, ?'
    rf'(?:"symbol": ?{_TEXT}, ?)?"description": ?{_TEXT}, ?"message": ?{_TEXT}, ?"type": ?(?:null|{_TEXT}), ?'
    rf'"language": ?{_TEXT}, ?"notes": ?\[(?:{_TEXT}(?:, ?)?)*\], ?"thread_id": ?\d+, ?'
    rf'"reference": ?(?:null|{_TEXT}), ?"fingerprint": ?"([0-9a-f]{{32}})"'
)
_ends = re.compile(rb'"transformed_above": ?(?:null|"cause"|"context")\}\s*\Z').search
_STRICT = re.compile(_HEAD.encode()).match
_LOOSE = re.compile((_HEAD + r', ?"loose_fingerprint": ?"([0-9a-f]{32})"').encode()).match
_TAIL = 64  # bytes that hold the end
_FINGERPRINT = re.compile("[0-9a-f]{32}").fullmatch


class Found:
    """A report in a document: its fingerprint, when it was made if that is known, and itself."""

    __slots__ = ("is_strict", "key", "report", "time")

    def __init__(self, key: str, is_strict: bool, time: str | None, report: dict[str, Any]) -> None:
        self.key, self.is_strict, self.time, self.report = key, is_strict, time, report


def fast_key(line: bytes, is_loose: bool) -> tuple[str, bool] | None:
    """The fingerprint of a line that is a report as the core writes it, read from its beginning, and
    whether it is the strict one; None if the line is something else, or was cut off."""
    head = (is_loose and _LOOSE(line)) or _STRICT(line)
    if not head or _ends(line, max(0, len(line) - _TAIL)) is None:
        return None
    return head[head.lastindex or 0].decode("ascii"), head.lastindex == 1


def _time_of(text: Any) -> str | None:
    """A time in UTC, in a form whose order as text is that of time."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None


def _is_log(item: dict[str, Any]) -> bool:
    return "ecs.version" in item or "@timestamp" in item


def _unwrap(item: Any) -> tuple[Any, str | None]:
    """The report in ITEM, and when it was made: of a log line, of a failed process, or of any object
    with data of its own."""
    if not isinstance(item, dict):
        return item, None
    time = item.get("@timestamp") or item.get("time")
    if isinstance(item.get("header"), dict):
        time = item["header"].get("time")
    if isinstance(item.get("stacksplice"), dict):
        item = item["stacksplice"]
    elif isinstance(item.get("error"), dict):
        item = item["error"]
    return item, _time_of(time)


def reports_in(document: Any, is_loose: bool) -> Iterator[Found]:
    """The reports of a JSON document: one, a list of them, or a list under "errors".

    A log line without an error has none.  Raises ValueError for something else.
    """
    for item in items_of([document]):
        report, time = _unwrap(item)
        members = report if isinstance(report, dict) else {}
        loose = members.get("loose_fingerprint") if is_loose else None
        key = loose or members.get("fingerprint")
        if isinstance(key, str) and _FINGERPRINT(key) and "hresult_signed" in members:
            yield Found(key, not loose, time, members)
        elif not (report is item and _is_log(members)):
            raise ValueError("there is no report")


def reports_of(text: bytes, is_loose: bool) -> list[Found]:
    """The reports of any JSON.  Raises ValueError or RecursionError."""
    return list(reports_in(json.loads(text.decode("utf-8-sig")), is_loose))
