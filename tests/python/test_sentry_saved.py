"""Saved errors, and those of other processes, as events for Sentry."""

from __future__ import annotations

import json
import pickle

import pytest
import stacksplice
from raising import boom, caught, fail, with_cause
from stacksplice import ErrorInfo
from test_saved_reports import CROSSING

sentry_sdk = pytest.importorskip("sentry_sdk", reason="sentry_sdk is not installed")

from stacksplice.sentry import event  # noqa: E402
from test_sentry import assert_by_the_rules, frames_of, name_of, sent  # noqa: E402, F401 (a fixture)

pytestmark = pytest.mark.any_python


def without_the_moment(told):
    """An event without what each event has of its own, and what a report does not keep."""
    assert told.pop("event_id") and told.pop("timestamp")
    for image in told["debug_meta"]["images"]:
        image.pop("image_size", None)
    return told


@pytest.mark.parametrize("name", CROSSING)
def test_it_is_the_event_of_the_live_error(border, name):
    info = stacksplice.error_info(caught(border.call, CROSSING[name]))
    live = without_the_moment(event(info))
    for saved in (ErrorInfo.from_json(info.to_json()), pickle.loads(pickle.dumps(info))):
        assert_by_the_rules(event(saved))
        assert without_the_moment(event(saved)) == live


def test_with_frames_of_lua(price):
    info = stacksplice.error_info(caught(price, fail))
    saved = ErrorInfo.from_json(info.to_json())
    assert without_the_moment(event(saved)) == without_the_moment(event(info))


def test_a_report_of_version_1(border):
    from test_schema import SAVED

    told = event(ErrorInfo.from_json(SAVED.read_text(encoding="utf-8")))
    assert_by_the_rules(told)
    types = [value["type"] for value in told["exception"]["values"]]
    assert types == ["KeyError", "TypeError", "ExceptionGroup"]


def test_the_least_that_a_report_can_be():
    told = event(ErrorInfo.from_json('{"hresult_signed": -1, "message": "", "stack": [], "propagation": []}'))
    assert_by_the_rules(told)
    (value,) = told["exception"]["values"]
    assert value["type"] == "0xffffffff" and "fingerprint" not in told and "stacktrace" not in value


def test_the_sdk_sends_it(border):
    kept = []

    class Kept(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            kept.append(json.loads(envelope.get_event() and envelope.items[0].payload.get_bytes()))

    info = ErrorInfo.from_json(stacksplice.error_info(caught(border.call, with_cause)).to_json())
    client = sentry_sdk.Client("http://key@localhost/1", transport=Kept, default_integrations=False)
    with sentry_sdk.isolation_scope() as scope:
        scope.set_client(client)
        sentry_sdk.capture_event({**event(info), "timestamp": 1_700_000_000, "release": "1.0"})
    (arrived,) = kept
    assert_by_the_rules(arrived)
    assert arrived["release"] == "1.0" and arrived["fingerprint"] == [info.fingerprint]
    assert "native" in {frame["platform"] for frame in frames_of(arrived["exception"]["values"][-1])}


def test_an_error_of_another_process_has_both_stacks(sent, border):  # noqa: F811
    exc = pickle.loads(pickle.dumps(caught(border.call, fail)))

    def received():
        raise exc

    (value,) = sent(caught(received))["exception"]["values"]
    names = [name_of(frame).rpartition(".")[2] for frame in frames_of(value)]
    seam = names.index("[async: error came from another process]")
    assert "received" in names[:seam] and "fail" in names[seam:]
    assert value["value"] == "x" and value["mechanism"]["data"]["hresult"] == "0x80070057"
    behind = RuntimeError("outside")
    behind.__cause__ = exc
    inside = sent(caught(boom, behind))["exception"]["values"][0]
    assert "fail" in [name_of(frame).rpartition(".")[2] for frame in frames_of(inside)]
