"""Every format of fixed reports, byte for byte: a change of a format shows as a difference in golden/.

    STACKSPLICE_WRITE_EXPECTED=1 python -m pytest tests/python/test_golden.py

writes the files anew.  That a saved report is the live error is what test_saved_reports.py tests; what pages
have, test_html.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import golden_reports
import pytest
from building import HERE
from golden_forms import FORMS, json_line

pytestmark = pytest.mark.any_python
GOLDEN = HERE / "golden"
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
