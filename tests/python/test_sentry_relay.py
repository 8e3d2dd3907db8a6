"""Events for Sentry as Sentry itself takes them in: its Relay refuses no part of them and drops none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import golden_reports
import pytest
import stacksplice
from raising import caught, fail
from stacksplice import ErrorInfo
from test_saved_reports import CROSSING

relay = pytest.importorskip("sentry_relay.processing", reason="sentry-relay is not installed")
pytest.importorskip("sentry_sdk", reason="sentry_sdk is not installed")

from stacksplice.sentry import event  # noqa: E402
from test_sentry import sent  # noqa: E402, F401 (a fixture)

pytestmark = pytest.mark.any_python

OURS = {"exception", "fingerprint", "debug_meta", "platform", "level", "event_id"}


def taken_in(told: dict[str, Any]) -> dict[str, Any]:
    return relay.StoreNormalizer(project_id=1).normalize_event(told)


def refused(meta: Any, path: str = "") -> Iterator[str]:
    """What Relay says of the parts of an event that are against its rules, or too long."""
    for name, inner in (meta or {}).items():
        if name:
            yield from refused(inner, f"{path}.{name}")
        elif inner.get("err") or inner.get("rem"):
            yield f"{path}: {inner}"


def is_empty(value: Any) -> bool:
    return value in (None, [], {}) or isinstance(value, dict) and all(map(is_empty, value.values()))


def dropped(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Parts of OURS that are not in THEIRS.  Relay leaves out what is empty."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name not in theirs and not is_empty(value):
                yield f"{path}.{name}"
            elif name in theirs:
                yield from dropped(value, theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from dropped(value, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


def assert_is_taken_in(told: dict[str, Any]) -> None:
    result = taken_in(told)
    assert list(refused(result.get("_meta"))) == []
    told = {name: value for name, value in told.items() if name in OURS}
    assert list(dropped(told, result)) == []


@pytest.mark.parametrize("name", golden_reports.EXTREMES)
def test_events_of_saved_reports(name):
    assert_is_taken_in(event(ErrorInfo.from_dict(golden_reports.of(name))))


@pytest.mark.parametrize("name", CROSSING)
def test_events_of_live_errors(border, name):
    assert_is_taken_in(event(stacksplice.error_info(caught(border.call, CROSSING[name]))))


def test_events_of_the_sdk(sent, price):  # noqa: F811
    assert_is_taken_in(sent(caught(price, fail)))


def test_relay_refuses_what_is_wrong():
    told = event(ErrorInfo.from_dict(golden_reports.of("chain")))
    frame = told["exception"]["values"][0]["stacktrace"]["frames"][0]
    frame.update(in_app=5, instruction_addr="none", lineno="none")
    assert len(list(refused(taken_in(told)["_meta"]))) == 3
