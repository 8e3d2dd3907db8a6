"""CONTRIBUTING.md: its lists for a new interpreter name each place, and each place names the versions."""

from __future__ import annotations

import re

import pytest
import versions
from building import ROOT

pytestmark = pytest.mark.any_python

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# What users see of versions; tests and docs may name a range where they speak of something else.
SOURCES = ["core", "crash", "bindings", "inspect", "pyproject.toml", "stacksplice-scm-0.rockspec"]


def items(title):
    """(place, words behind it) of a list: the place is the first code in its item."""
    part = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`(.*(?:\n   .*)*)", part, re.MULTILINE)


def known(title):
    """The minor numbers of the versions that the first place lists, by which the others are measured."""
    every = {"A new CPython": versions.CPYTHONS, "A new Lua": versions.LUAS}[title]
    return [int(version.partition(".")[2]) for version in every]


def read(place):
    return (ROOT / place).read_text(encoding="utf-8")


def written(pattern, newest, version):
    """PATTERN stands for the newest version, whose number comes last."""
    begin, middle, end = pattern.rpartition(str(newest))
    assert middle, f"`{pattern}` does not name {newest}"
    return f"{begin}{version}{end}"


def lists(*titles):
    return [pytest.param(title, *item, id=f"{title}: {item[0]}") for title in titles for item in items(title)]


@pytest.mark.parametrize("title, place, words", lists("A new CPython", "A new Lua"))
def test_each_place_names_the_versions(title, place, words):
    text, minors = read(place), known(title)
    newest = re.search(r"the newest as `([^`]+)`", words)
    each = re.search(r"each version as `([^`]+)`", words)
    looked_for = [newest[1]] if newest else []
    looked_for += [written(each[1], minors[-1], minor) for minor in minors] if each else []
    assert newest is None or newest[1] == written(newest[1], minors[-1], minors[-1])
    assert [name for name in looked_for if name not in text] == []


@pytest.mark.parametrize(
    "title, words", [("A new CPython", "3.11 to 3."), ("A new Lua", "5.1 to 5."), ("A new Lua", "501 to 50")]
)
def test_no_place_is_missing(title, words):
    """Where a range of versions stands, the next one has to be written."""
    places = {ROOT / place for place, _ in items(title)}
    files = [file for name in SOURCES for file in [ROOT / name, *(ROOT / name).rglob("*")] if file.is_file()]
    ours = [file for file in files if file.suffix != ".pyc" and file.parent.suffix != ".egg-info"]
    all_of_them = f"{words}{known(title)[-1]}".encode()
    said = {file for file in ours if all_of_them in (text := file.read_bytes()) and b"\0" not in text}
    assert said and said - places == set()


def test_the_first_places_have_the_versions():
    assert known("A new CPython")[0] == 11 and known("A new Lua") == [*range(1, known("A new Lua")[-1] + 1)]


def test_each_command_is_one_of_dev():
    """Also in what forges and git run: they shall need nothing but ./dev."""
    usage = read("dev").partition("usage: ")[2].partition("END")[0]
    names = set(re.findall(r"^  (\w+)", usage, re.MULTILINE))
    files = ["CONTRIBUTING.md", ".pre-commit-config.yaml", ".gitlab-ci.yml", ".github/workflows/test.yml"]
    for file in files:
        commands = set(re.findall(r"\./dev (\w+)", read(file)))
        assert commands and commands <= names, file
    for file in files[1:]:
        started = re.findall(r"(?:run|entry|script):\s+(?:- )?(.+)", read(file))
        assert started and [command for command in started if not command.startswith("./dev ")] == [], file
