"""Commands that read reports take a folder in the place of its files."""

from __future__ import annotations

import json

import pytest
import stacksplice
from building import command
from raising import boom, caught

pytestmark = pytest.mark.any_python


@pytest.fixture
def folder(border, tmp_path):
    """Three files of reports, and what is none."""
    for name, message in (("b.jsonl", "second"), ("a.json", "first"), ("c.ndjson", "third")):
        info = stacksplice.error_info(caught(border.call, boom, ValueError(message)))
        (tmp_path / name).write_text(info.to_json(brief=True), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no report", encoding="utf-8")
    (tmp_path / "inner.json").mkdir()
    return tmp_path


def test_show_takes_them_by_name(folder):
    shown = [json.loads(line)["message"] for line in command("show", "--json", folder).stdout.splitlines()]

    assert shown == ["first", "second", "third"]


def test_show_names_each_file(folder):
    text = command("show", folder).stdout

    assert [f"==== {folder / name} ====" in text for name in ("a.json", "b.jsonl", "c.ndjson")] == [True] * 3


def test_top_counts_a_folder_and_a_file(folder):
    (group,) = command("top", "--json", folder, folder / "a.json").stdout.splitlines()

    assert json.loads(group)["count"] == 4


@pytest.mark.parametrize("verb", ["show", "top", "symbolize"])
def test_a_folder_without_reports_is_told(verb, tmp_path):
    run = command(verb, tmp_path, status=2)

    assert run.stderr == (
        f"stacksplice: cannot read {tmp_path}: the folder has no file that ends with .json, .jsonl, .ndjson\n"
    )


def test_an_empty_folder_keeps_no_other_from_being_read(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")

    for verb in ("show", "top"):
        run = command(verb, "--json", empty, folder, status=2)
        assert len(run.stdout.splitlines()) == (3 if verb == "show" else 1)
        assert str(empty) in run.stderr
