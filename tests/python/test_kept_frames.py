"""Frames whose text is kept for the next report: each report equals that of the traceback module."""

from __future__ import annotations

import io
import linecache
import os
import sys
import traceback
import types
import zipfile

import pytest
import stacksplice
from stacksplice._errors import kept


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(kept, "_kept", {})


def run(source, file, names=None):
    """The exception that SOURCE, said to be in FILE, raises."""
    names = {} if names is None else names
    with pytest.raises(Exception) as caught:
        exec(compile(source, file, "exec"), names)
    return caught.value


def in_file(path, source):
    path.write_text(source, encoding="utf-8")
    return run(source, str(path))


def by_traceback(exc):
    return "".join(traceback.format_exception(exc))


def ours(exc):
    written = io.StringIO()
    stacksplice.print_exception(exc, written)
    assert written.getvalue() == "".join(stacksplice.format_exception(exc))
    return written.getvalue()


def assert_equal_twice(exc):
    for _ in range(2):
        assert ours(exc) == by_traceback(exc)


DEEP = """
def outer(n):
    return 1 + middle(n, {"größe": 1})["ä"]
def middle(n, sizes):
    return [
        inner(size / (n - n),
              "text") for size in sizes.values()
    ]
def inner(*_): pass
outer(2)
"""


@pytest.mark.parametrize(
    "source",
    [
        DEEP,
        "def f(n): return f(n - 1) if n else {}[n]\nf(20)",
        "import json\njson.loads('{')",
        "lenn",
        "class A: size = 1\nA.sise",
        "try: 1 / 0\nexcept ZeroDivisionError as exc: raise ValueError('effect') from exc",
        "raise ExceptionGroup('g', [ValueError('first\\nsecond'), ExceptionGroup('h', [KeyError(1)])])",
        "exec('1 / 0')",
        "exec(compile('x = (1', 'other.py', 'exec'))",
        "x = [\n\n  1,\n  2][3]",
    ],
)
def test_a_report_equals_that_of_the_traceback_module(tmp_path, source):
    assert_equal_twice(in_file(tmp_path / "program.py", source))
    assert_equal_twice(run(source, "<string>"))
    assert_equal_twice(run(source, "no such file.py"))


def test_exceptions_that_were_not_raised():
    for exc in (ValueError(), ExceptionGroup("group", [ValueError()])):
        assert_equal_twice(exc)


def test_a_file_that_has_changed(tmp_path):
    path = tmp_path / "changes.py"
    exc = in_file(path, "def f():\n    return 1 / 0\nf()")
    assert_equal_twice(exc)
    for number, line in enumerate(["    return 22 / 0", "    return f(1) / 0 + 1", ""], 1):
        path.write_text(f"def f():\n{line}\nf()", encoding="utf-8")
        os.utime(path, (number, number))
        assert_equal_twice(exc)
        assert f"{line.strip()}\n" in ours(exc)
    path.unlink()
    assert_equal_twice(exc)
    assert "f()" not in ours(exc)


def test_lines_that_a_loader_has(tmp_path, monkeypatch):
    archive = tmp_path / "kept.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("kept_inside.py", "def f():\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(str(archive))
    import kept_inside

    with pytest.raises(ZeroDivisionError) as caught:
        kept_inside.f()
    linecache.clearcache()
    assert "    return 1 / 0\n" in ours(caught.value)
    assert_equal_twice(caught.value)


def test_lines_that_only_linecache_has():
    source = "def f():\n    return 1 / 0\nf()"
    linecache.cache["<cell 7>"] = (len(source), None, source.splitlines(True), "<cell 7>")
    exc = run(source, "<cell 7>")
    assert "    return 1 / 0\n" in ours(exc)
    assert_equal_twice(exc)
    del linecache.cache["<cell 7>"]
    assert_equal_twice(exc)


@pytest.mark.parametrize("limit", [0, 1, 2, -1])
def test_a_limit_of_tracebacks(tmp_path, monkeypatch, limit):
    exc = in_file(tmp_path / "deep.py", DEEP)
    assert_equal_twice(exc)
    monkeypatch.setattr(sys, "tracebacklimit", limit, raising=False)
    assert_equal_twice(exc)


def test_a_traceback_with_a_line_of_its_own(tmp_path):
    exc = in_file(tmp_path / "deep.py", DEEP)
    entry = exc.__traceback__.tb_next
    for lasti, line in [(entry.tb_lasti, 3), (-1, 4), (-1, 900), (entry.tb_lasti, -3)]:
        made = types.TracebackType(entry, entry.tb_frame, lasti, line)
        assert_equal_twice(ValueError("made").with_traceback(made))


def test_what_others_put_in_the_place_of_the_format(tmp_path, monkeypatch):
    exc = in_file(tmp_path / "deep.py", DEEP)
    assert ours(exc) == by_traceback(exc)
    monkeypatch.setattr(traceback.StackSummary, "format_frame_summary", lambda *_, **__: "  theirs\n")
    assert "  theirs\n  theirs\n" in ours(exc)
    monkeypatch.undo()
    assert ours(exc) == by_traceback(exc)
