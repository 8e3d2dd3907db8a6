"""The help of the commands of ``stacksplice``: all have the same parts."""

from __future__ import annotations

import re

import pytest
from building import PACKAGE, command

pytestmark = pytest.mark.any_python

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
@pytest.mark.parametrize("columns", [200, 40])
def test_each_command_says_what_it_does_and_how_it_ends(name, columns):
    text = command(name, "--help", COLUMNS=columns).stdout
    assert text.startswith(f"usage: stacksplice {name} [")
    about = re.search(r"\n\n([A-Z].*?\.)\n\n(?:positional|options)", text, re.DOTALL)
    assert about, "no sentences on what it does"
    assert all(len(line) <= min(columns, 80) for line in about[1].splitlines())
    ends = statuses(name)
    assert ends["2"].endswith("the command line is wrong") and ({"0", "other"} & ends.keys())
    assert ("130" in ends) == (name != "run")


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["shwo"], "there is no command shwo; did you mean show?"),
        (["frob"], "there is no command frob; stacksplice --help lists all"),
        (["--versoin"], "there is no option --versoin; did you mean --version?"),
        (["show", "--jsn", "x"], "there is no option --jsn; did you mean --json?"),
        (["top", "--limt=3", "x"], "there is no option --limt; did you mean --limit?"),
        (["run", "--xyz", "x"], "there is no option --xyz"),
        (["dump", "abc"], "argument PID: 'abc' is not the number of a process"),
    ],
)
def test_a_wrong_command_line(arguments, told):
    lines = command(*arguments, status=2).stderr.splitlines()
    assert lines[0].startswith("usage: stacksplice ") and lines[-1].partition(" error: ")[2] == told
