"""The formats in which one report is read, as text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import stacksplice
import stacksplice.logging
from golden_steady import lines_of, steady
from stacksplice import ErrorInfo

_KEY = "__stacksplice__"
_MOMENT = 1700000000.0
THE_REPORT = "(the report, as above)"


def arrived(report: dict[str, Any]) -> BaseException:
    """An exception that came with REPORT from another process."""
    exc = ValueError(report["message"])
    place = {"id": 4711, "host": "worker-1"}
    exc.__dict__[_KEY] = json.dumps({"process": place, **report})
    info = stacksplice.error_info(exc)
    assert info is not None and info.process is not None
    return exc


def ecs(report: dict[str, Any]) -> str:
    record = logging.makeLogRecord(
        {"name": "shop", "levelno": 40, "levelname": "ERROR", "msg": "no price", "lineno": 20}
        | {"filename": "shop.py", "funcName": "quote", "created": _MOMENT, "process": 1, "thread": 2}
        | {"threadName": "MainThread", "stacksplice": report}
    )
    line = stacksplice.logging.JsonFormatter().format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["stacksplice"] == report
    return lines_of({**fields, "stacksplice": THE_REPORT})


def json_line(report: dict[str, Any]) -> str:
    line = ErrorInfo.from_dict(report).to_json()
    assert line.count("\n") == 1 and line.endswith("\n")
    assert lines_of(json.loads(line)) == lines_of(report)
    return lines_of(report)


def sentry(report: dict[str, Any]) -> str:
    import stacksplice.sentry

    return lines_of(steady(stacksplice.sentry.event(ErrorInfo.from_dict(report))))


def opentelemetry(report: dict[str, Any]) -> str:
    import stacksplice.opentelemetry

    attributes = stacksplice.opentelemetry.exception_attributes(arrived(report))
    assert json.loads(attributes["stacksplice.report"]).items() >= report.items()
    return lines_of({**attributes, "stacksplice.report": THE_REPORT})


def text_of(*, newest_last: bool, everything: bool = False) -> Callable[[dict[str, Any]], str]:
    def text(report: dict[str, Any]) -> str:
        info = ErrorInfo.from_dict(report)
        return info.format(newest_last=newest_last, all_frames=everything, color=everything)

    return text


# By their names; modules of Python that one needs and that may be missing.
FORMS: dict[str, tuple[Callable[[dict[str, Any]], str], tuple[str, ...]]] = {
    "text": (text_of(newest_last=False), ()),
    "text, newest last": (text_of(newest_last=True), ()),
    "text, all frames, in colour": (text_of(newest_last=False, everything=True), ()),
    "json": (json_line, ()),
    "ecs log line": (ecs, ()),
    "sentry event": (sentry, ("sentry_sdk",)),
    "opentelemetry attributes": (opentelemetry, ("opentelemetry.sdk",)),
}
