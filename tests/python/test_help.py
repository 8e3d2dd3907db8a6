"""The help of the commands of ``stacksplice``: all have the same parts, and the docs agree."""

from __future__ import annotations

import re

import pytest
from building import PACKAGE, ROOT, command

pytestmark = pytest.mark.any_python

ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
SOURCE = (PACKAGE / "_tools" / "command_line.py").read_text(encoding="utf-8")
NAMES = sorted(re.findall(r"^def _add_(\w+)\(parser\b", SOURCE, re.MULTILINE))


def statuses(name: str) -> dict[str, str]:
    """Each exit status that the help of that command names, and its meaning."""
    text = command(name, "--help").stdout.partition("\nexit status:\n")[2]
    parts = re.findall(r"^  (\w+) +(.*\n(?: {8}.*\n)*)", text, re.MULTILINE)
    return {status: " ".join(meaning.split()) for status, meaning in parts}


def test_the_list_has_each_command():
    listed = re.findall(r"^    (\w+)(?: +\S|$)", command("--help").stdout, re.MULTILINE)
    assert sorted(listed) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_command_says_what_it_does_and_how_it_ends(name):
    text = command(name, "--help").stdout
    assert text.startswith(f"usage: stacksplice {name} [-h]")
    about = re.search(r"\n\n([A-Z].*?\.)\n\n(?:positional|options)", text, re.DOTALL)
    assert about, "no sentences on what it does"
    assert all(len(line) <= 79 for line in about[1].splitlines())
    ends = statuses(name)
    assert ends["2"].endswith("the command line is wrong") and ({"0", "other"} & ends.keys())
    assert text.partition("\nexit status:\n")[2] in command("--help").stdout


def test_the_docs_have_each_exit_status():
    rows = ROW.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8"))
    shown: dict[str, dict[str, str]] = {}
    for name, status, meaning in rows:
        shown.setdefault(name, {})[status] = meaning.replace("`", "")
    assert shown == {name: statuses(name) for name in NAMES}
