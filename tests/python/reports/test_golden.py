"""Every format of fixed reports, byte for byte: a change of a format shows as a difference in golden/.

    STACKSPLICE_WRITE_EXPECTED=1 python -m pytest tests/python/reports/test_golden.py

writes the files anew.  That a saved report is the live error is what test_saved_reports.py tests; what pages
have, test_html.py.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import golden_reports
import pytest
import stacksplice
import stacksplice.logging
from golden_steady import lines_of, steady
from stacksplice import ErrorInfo

pytestmark = pytest.mark.any_python
GOLDEN = Path(__file__).resolve().parent / "golden"
WRITES = os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1"
_MOST_EQUAL = 100  # characters in a row


def shortened(text: str) -> str:
    """TEXT, where many equal characters in a row are one and their number."""
    return re.sub(rf"(.)\1{{{_MOST_EQUAL},}}", lambda run: f"{run[1]} (... {len(run[0])} in a row)", text)


def file_of(name: str) -> Path:
    return GOLDEN / f"{name.replace(' ', '-')}.txt"


def needs(module: str) -> bool:
    """Whether MODULE is missing, which a format needs."""
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True


def sections(report: dict[str, Any], forms: Sequence[str]) -> dict[str, str]:
    """REPORT in those of FORMS that can be had here."""
    here = [form for form in forms if not any(map(needs, FORMS[form][1]))]
    return {form: shortened(FORMS[form][0](report)).rstrip("\n") for form in here}


def read(path: Path) -> dict[str, str]:
    parts = re.split(r"^==== (.*) ====\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {form: text.rstrip("\n") for form, text in zip(parts[1::2], parts[2::2], strict=True)}


def compare(name: str, report: dict[str, Any], forms: Sequence[str]) -> None:
    made, path = sections(report, forms), file_of(name)
    if WRITES:
        assert made.keys() == set(forms), "install what all formats need"
        text = "\n".join(f"==== {form} ====\n{text}\n" for form, text in made.items())
        path.write_text(text, encoding="utf-8")
    golden = read(path)
    assert golden.keys() == set(forms)
    for form, text in made.items():
        assert text == golden[form], form


@pytest.mark.parametrize("name", golden_reports.EXTREMES)
def test_extremes(name):
    report = golden_reports.of(name)
    compare(name, report, golden_reports.EXTREMES[name][1])
    json_line(report)


def test_each_file_is_of_a_report():
    assert {path.name for path in GOLDEN.iterdir()} == {
        file_of(name).name for name in golden_reports.EXTREMES
    }


# ---- Formats -------------------------------------------------------------------------------------


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
    line = stacksplice.logging.JsonFormatter(brief=False).format(record)
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
