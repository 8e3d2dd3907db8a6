"""Frames whose text is kept for the next report: each report equals that of the traceback module."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import sys
import traceback
import types
import zipfile

import pytest
import stacksplice
from building import HERE, PACKAGE, ran
from raising import boom, caught
from stacksplice._errors import kept
from stacksplice._errors import live as _live


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


# ---- Beside frames of other languages ------------------------------------------------------------


PROGRAM = """
import json, linecache, sys
import crossing, stacksplice, stacksplice._errors.live
from report_oracle import by_python, of_python

def through(function, *arguments):
    return crossing.run("local f = ... local result = py(f, 1) return result", lambda _: function(*arguments))

def fails(): raise KeyError("key")
def suggests(): return [].appnd
def misspells(): return lenn
def syntax(): compile("x = (1", "some.py", "exec")
def operator(): return 1 + (lambda größe: {"ä": größe}["ä"] / 0)(2) * 3
def lines():
    return dict(
        a=1,
    )["b"]
def noted():
    exc = ValueError("first\\nsecond")
    exc.add_note("a note\\nof two lines")
    raise exc
def recurses(n): return recurses(n - 1) if n else fails()
def caused():
    try: fails()
    except KeyError as exc: raise ValueError("effect") from exc
def handled():
    try: through(fails)
    except KeyError: raise ValueError("other")
def silenced():
    try: fails()
    except KeyError: raise ValueError("other") from None
def caught(function):
    try: through(function)
    except BaseException as exc: return exc
def grouped():
    inner = ExceptionGroup("inner", [caught(caused)])
    raise ExceptionGroup("group", [caught(noted), ValueError("never"), inner])
def without_message(): assert False
cell = "def of_cell():\\n    return 1 / 0\\n"
linecache.cache["<cell 1>"] = (len(cell), None, cell.splitlines(True), "<cell 1>")
exec(compile(cell, "<cell 1>", "exec"))

cases = [fails, suggests, misspells, syntax, operator, lines, noted, caused, handled, silenced, grouped,
         without_message, of_cell, lambda: recurses(20)]
found = {}
for case in cases:
    try:
        through(case)
    except BaseException as exc:
        info = stacksplice.error_info(exc)
        found[case.__name__] = [
            by_python(exc),
            of_python(stacksplice.format_exc()),
            stacksplice.format_exc(),
            stacksplice._errors.live.text_of(exc, color=True),
            info.format(),
            stacksplice.ErrorInfo.from_dict(info.to_dict()).format(),
        ]
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def texts(crossing_folder, tmp_path_factory) -> dict[str, list[str]]:
    program = tmp_path_factory.mktemp("look") / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    paths = [str(crossing_folder), str(PACKAGE.parent), str(HERE)]
    return json.loads(ran(sys.executable, program, PYTHONPATH=os.pathsep.join(paths)).stdout)


def test_what_is_of_python_is_pythons(texts):
    assert len(texts) == 14
    for name, (wanted, found, whole, *_) in texts.items():
        assert found == wanted, name
        assert '  (Lua) File "' in whole, name


def test_marks_and_lines(texts):
    assert "    return 1 / 0\n           ~~^~~\n" in texts["of_cell"][2]
    assert "  [Previous line repeated 18 more times]\n" in texts["<lambda>"][2]


def test_colours_are_those_of_python_3_13(texts):
    for name, (_, _, plain, coloured, *_) in texts.items():
        assert re.sub("\033\\[[0-9;]*m", "", coloured) == plain, name
    assert texts["fails"][3].endswith("\033[1;35mKeyError\033[0m: \033[35m'key'\033[0m\n")
    lines = texts["of_cell"][3].splitlines()
    at = lines.index('  File \033[35m"<cell 1>"\033[0m, line \033[35m2\033[0m, in \033[35mof_cell\033[0m')
    assert lines[at + 1] == "    return \033[31m1 \033[0m\033[1;31m/\033[0m\033[31m 0\033[0m"
    assert lines[at + 2] == "           \033[31m~~\033[0m\033[1;31m^\033[0m\033[31m~~\033[0m"
    above, below = texts["syntax"][3].split("SyntaxError")
    assert '  File \033[35m"some.py"\033[0m, line \033[35m1\033[0m\n' in above
    assert above.endswith("\033[1;35m")
    assert "\033[1;31m(\033[0m" in above and "\033[1;31m^\033[0m" in above
    assert below == "\033[0m: \033[35m'(' was never closed\033[0m\n"


def test_errors_as_data_have_the_marks_live_and_saved(texts):
    for name, (*_, live, saved) in texts.items():
        if name != "of_cell":  # which is in no file
            assert saved == live, name
    assert texts["fails"][4] == texts["fails"][2]
    wanted = '    def operator(): return 1 + (lambda größe: {"ä": größe}["ä"] / 0)(2) * 3\n'
    at = texts["operator"][2].index(wanted)
    assert texts["operator"][4][at:].splitlines()[:2] == texts["operator"][2][at:].splitlines()[:2]
    assert "    return 1 / 0\n           ~~^~~\n" in texts["of_cell"][4]


IN_A_ZIP = """
import sys, crossing, stacksplice
def outer():
    return inner()
def inner():
    try:
        crossing.run("local f = ... local result = py(f, 1) return result", lambda _: {}["key"])
    except KeyError:
        print(stacksplice.format_exc(), stacksplice.error_info(sys.exc_info()[1]).format())
outer()
"""


def test_callers_in_a_zip_file_have_their_source(crossing_folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("inside.py", IN_A_ZIP)
    paths = [str(tmp_path / "app.zip"), str(crossing_folder), str(PACKAGE.parent)]
    done = ran(sys.executable, "-c", "import inside", PYTHONPATH=os.pathsep.join(paths))
    assert done.stdout.count("in outer\n    return inner()\n") == 2, done.stdout + done.stderr
    assert done.stdout.count('lambda _: {}["key"]') == 4


def test_reports_leave_nothing_to_the_collector(border, native):
    told = [caught(border.call, boom, ValueError("x")), caught(native.fail, None, False, [], ["a note"])]

    def report_all():
        for exc in told:
            _live.text_of(exc, color=True)
            stacksplice.error_info(exc).format(color=True)

    report_all()
    gc.collect()
    gc.disable()
    try:
        report_all()
        assert gc.collect() == 0
    finally:
        gc.enable()
