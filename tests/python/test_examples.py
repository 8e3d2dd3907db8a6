"""The example for Python and lupa prints the report that stands beside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from building import PACKAGE, ROOT

pytest.importorskip("lupa.lua54", reason="lupa is not installed")

EXAMPLE = ROOT / "examples" / "python"
WRITE = os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1"


def output() -> str:
    done = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=EXAMPLE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
        timeout=60,
    )
    assert done.returncode == 1, done.stdout
    text = re.sub(r"thread \d+", "thread 6628", done.stdout.replace(str(EXAMPLE), "/srv/shop"))
    text = re.sub(r'(lua54\.pyx", line) \d+', r"\1 1", text)
    return re.sub(r"\d+ glue frames?", "some glue frames", text)


def test_every_frame_is_there_in_order():
    text = output()
    names = re.findall(
        r"^ *(?:\((\w+)\) )?File \"[^\"]*\b(shop\.py|pricing\.lua)\", line (\d+), in", text, re.M
    )
    assert [(file, int(line)) for _, file, line in names] == [
        ("shop.py", 24),
        ("shop.py", 17),
        ("pricing.lua", 7),
        ("pricing.lua", 2),
        ("shop.py", 13),
    ], text
    assert {language for language, file, _ in names if file == "pricing.lua"} == {"Lua"}
    assert "\nKeyError: 'XXX'" in text and text.startswith("25.0\n")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the text beside it is that of Python 3.11")
def test_output_is_what_stands_beside_it():
    expected = EXAMPLE / "expected.txt"
    if WRITE:
        expected.write_text(output(), encoding="utf-8")
    assert output() == expected.read_text(encoding="utf-8")
