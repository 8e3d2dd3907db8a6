"""The views of one error in docs/how-to are what each reader gets.

STACKSPLICE_WRITE_EXPECTED=1 writes them anew.
"""

from __future__ import annotations

import os
import re
import sys

import pytest
from building import ROOT
from stacksplice import _stacksplice

for module in ("lupa.lua54", "sentry_sdk", "opentelemetry.sdk"):
    pytest.importorskip(module, reason=f"{module} is not installed")

if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)

import readers_many  # noqa: E402
import readers_shop  # noqa: E402

pytestmark = pytest.mark.any_python

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
VIEW = re.compile(r"(<!-- view: (\w+) -->\n\n```\w+\n)(.*?)(\n```$)", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the texts are those of Python 3.11")
def test_each_view_is_what_the_reader_gets(tmp_path):
    made = {}
    for kind in (readers_shop, readers_many):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        made |= kind.views(folder)
    shown = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1":
            text = VIEW.sub(lambda found: found[1] + made[found[2]] + found[4], text)
            page.write_text(text, encoding="utf-8")
        shown |= {name: view for _, name, view, _ in VIEW.findall(text)}
    assert shown.keys() == made.keys()
    for name, text in made.items():
        assert shown[name] == text, name
