"""Every format of fixed reports, byte for byte: a change of a format shows as a difference in golden/.

    STACKSPLICE_WRITE_EXPECTED=1 python -m pytest tests/python/test_golden.py

writes the files anew.  That the text of a saved report is that of the live error is what
test_saved_reports.py tests; here the demo's reports are compared when they are written.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import golden_reports
import pytest
from building import HERE, built, ran
from golden_forms import FORMS, json_line
from golden_reports import COLOURS, PAGE, SENTRY
from golden_steady import steady

pytestmark = pytest.mark.any_python
GOLDEN = HERE / "golden"
WRITES = os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1"
# Of the demo's orders: one for each kind of error, by language and type.
ORDERS = ("O-25150", "O-25184", "O-25646", "O-25664", "O-25792", "O-26867")
FORMS_OF_THE_DEMO = ("text", COLOURS, "json", SENTRY, PAGE)
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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The reports of the example host, by their orders."""
    file = tmp_path_factory.mktemp("demo") / "reports.json"
    ran(built("bin/stacksplice-host"), "--json", file, status=None)
    records = json.loads(file.read_text(encoding="utf-8"))
    return {record["order"]: record["error"] for record in records}


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the marks below calls are those of Python 3.11")
@pytest.mark.parametrize("order", ORDERS)
def test_errors_of_the_demo(demo, order):
    report = demo[order]
    if not any(frame["kind"] == "native" for frame in report["stack"]):
        pytest.skip("native frames cannot be walked here")
    compare(f"demo {order}", steady(report), FORMS_OF_THE_DEMO if order == ORDERS[0] else ("text", "json"))


def test_each_file_is_of_a_report():
    names = [*golden_reports.EXTREMES, *(f"demo {order}" for order in ORDERS)]
    assert {path.name for path in GOLDEN.iterdir()} == {file_of(name).name for name in names}
