"""Lines of counts, as stacksplice/dedup.h writes them, in what reads reports."""

from __future__ import annotations

import ctypes
import json

import pytest
import stacksplice
from building import command
from raising import boom, caught

pytestmark = pytest.mark.any_python

WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)


def in_storm(exc: Exception, times: int) -> str:
    """The line of what the core counted when EXC came TIMES times, the first of which was new."""
    core = ctypes.CDLL("libstacksplice.so.0")
    core.stacksplice_dedup_free.restype = None
    dedup, error, lines = ctypes.c_void_p(), ctypes.c_void_p(), []
    assert core.stacksplice_dedup_new(None, ctypes.byref(dedup)) == 0
    stacksplice.originate(exc)
    assert core.stacksplice_peek_error(ctypes.byref(error)) == 0
    answers = [core.stacksplice_dedup_add(dedup, error) for _ in range(times)]
    stacksplice.take_error()
    assert answers == [0] + [1] * (times - 1)

    @WRITE
    def write(text, length, _data):
        lines.append(text[:length].decode())
        return 0

    assert core.stacksplice_dedup_flush(dedup, 1, write, None) == 0
    core.stacksplice_dedup_free(dedup)
    (line,) = lines
    return line


@pytest.fixture(scope="module")
def storm(border) -> list[str]:
    """A whole report, and how often it came again."""
    exc = caught(border.call, boom, ValueError("bad amount"))
    report = stacksplice.error_info(exc).to_json(brief=True)
    counts = in_storm(exc, 8)
    assert json.loads(counts)["fingerprint"] == json.loads(report)["fingerprint"]
    return [report, counts]


def groups_of(*arguments: str, **options) -> list[dict]:
    return [json.loads(line) for line in command("top", "--json", *arguments, **options).stdout.splitlines()]


@pytest.mark.parametrize("arguments", [(), ("--loose",)])
def test_top_counts_them(storm, tmp_path, arguments):
    # Given a log in which the counts of a former file stand first
    file = tmp_path / "errors.jsonl"
    file.write_text(storm[1] + storm[0] + storm[1], encoding="utf-8")

    # When
    (group,) = groups_of(*arguments, str(file))

    # Then all are counted, and the example is the whole report
    assert group["count"] == 15
    assert group["error"]["stack"]
    assert group["first"].endswith("errors.jsonl:2")
    assert group["first_time"] <= group["last_time"]


def test_top_shows_what_has_no_report(storm, tmp_path):
    file = tmp_path / "errors.jsonl"
    file.write_text(storm[1], encoding="utf-8")

    text = command("top", str(file)).stdout

    assert text.startswith("7 reports in 1 group, 1 file\n")
    assert "ValueError: bad amount\n" in text


def test_show_says_how_many_more(storm, tmp_path):
    file = tmp_path / "errors.jsonl"
    file.write_text("".join(storm), encoding="utf-8")

    last = command("show", str(file)).stdout.splitlines()[-1]

    key = json.loads(storm[0])["fingerprint"]
    assert last.startswith(f"... 7 more of {key}, 20")
    assert last.endswith(" UTC, the last: ValueError: bad amount")
    assert json.loads(command("show", "--json", str(file)).stdout.splitlines()[-1]) == json.loads(storm[1])


def test_pages_say_that_they_leave_them_out(storm, tmp_path):
    file, page = tmp_path / "errors.jsonl", tmp_path / "page.html"
    file.write_text("".join(storm), encoding="utf-8")

    run = command("show", "--html", str(page), str(file))

    assert "left out 1 lines of counts" in run.stderr
    assert "bad amount" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("count", [0, -1, "7", None, True])
def test_other_lines_are_no_counts(storm, tmp_path, count):
    file = tmp_path / "errors.jsonl"
    file.write_text(storm[0] + json.dumps({**json.loads(storm[1]), "count": count}) + "\n", encoding="utf-8")

    run = command("top", "--json", str(file), status=1)

    assert json.loads(run.stdout)["count"] == 1
    assert "skipped 1 line without a report" in run.stderr
