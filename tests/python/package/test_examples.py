"""The example for Python and lupa prints the report that stands beside it and in README.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import ROOT, ran

pytest.importorskip("lupa.lua54", reason="lupa is not installed")

EXAMPLE = ROOT / "examples" / "python"
WRITE = os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1"


def output(folder: Path = EXAMPLE) -> str:
    options = {"status": 1, "cwd": folder, "stderr": subprocess.STDOUT}
    done = ran(sys.executable, "shop.py", **options, NO_COLOR="1", PYTHONUNBUFFERED="1")
    text = re.sub(r"thread \d+", "thread 6628", done.stdout.replace(str(folder), "/srv/shop"))
    return re.sub(r'(lua54\.pyx", line) \d+', r"\1 1", text)


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


on_3_11 = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the texts are those of Python 3.11")


@on_3_11
def test_output_is_what_stands_beside_it():
    expected = EXAMPLE / "expected.txt"
    if WRITE:
        expected.write_text(output(), encoding="utf-8")
    assert output() == expected.read_text(encoding="utf-8")


@on_3_11
def test_readme_shows_it_without_and_with_us(tmp_path):
    source = (EXAMPLE / "shop.py").read_text(encoding="utf-8")
    lines = [line for line in source.splitlines(keepends=True) if "stacksplice" not in line]
    (tmp_path / "shop.py").write_text("".join(lines), encoding="utf-8")
    shutil.copy(EXAMPLE / "pricing.lua", tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)^```$", readme, re.M | re.S)
    assert [f"25.0\n{text}" for text in shown] == [output(tmp_path), output()]
