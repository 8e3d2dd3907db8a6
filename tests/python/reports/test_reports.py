"""Reports, hooks and the command line."""

from __future__ import annotations

import copy
import io
import linecache
import logging
import os
import pickle
import re
import subprocess
import sys
import time
import traceback

import pytest
import stacksplice
import stacksplice.logging
from building import MODULE, PACKAGE, command, environment
from gap_reasons import RETURNED
from raising import boom, caught, report
from stacksplice._errors import live


def divide():
    return 1 / 0


def chained():
    try:
        divide()
    except ZeroDivisionError as exc:
        raise RuntimeError("größe\nsecond line") from exc


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_the_ends_of_a_long_stack(border, monkeypatch):
    """With NO_COLOR too; a file gets all of it, in colour as well."""

    def printed(file):
        stacksplice.print_exception(exc, file)
        return {*re.findall(r"in \S*?(f\d+)\b", file.getvalue())}, file.getvalue()

    code = "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(99)) + "def f99():\n    call(divide)\n"
    names = {"call": border.call, "divide": divide}
    exec(compile(code, "long.py", "exec"), names)
    exc = caught(names["f0"])
    for color in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(color, "1")
        shown, text = printed(Terminal())
        assert {"f0", "f99"} < shown and 30 < len(shown) < 60
        assert " more frames, left out on terminals\n" in text
        assert printed(io.StringIO())[0] == {f"f{n}" for n in range(100)}
        monkeypatch.delenv(color)


@pytest.fixture(autouse=True)
def no_color_variables(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("limit", [0, 1, 2, -1, 9])
def test_a_limit_of_tracebacks(border, monkeypatch, limit):
    """The outermost frames, as many as the traceback module shows."""

    def outer():
        border.call(chained)

    def files(text):
        return [line for line in text.splitlines() if line.startswith("  File ") and '.py"' in line]

    exc = caught(outer)
    unlimited = report(exc)
    monkeypatch.setattr(sys, "tracebacklimit", limit, raising=False)
    theirs = "".join(traceback.format_exception(exc))
    written = io.StringIO()
    stacksplice.print_exception(exc, written)
    record = logging.makeLogRecord({"exc_info": (type(exc), exc, exc.__traceback__)})
    for ours in (report(exc), written.getvalue(), stacksplice.logging.Formatter().format(record)):
        if limit == 9:  # which leaves out nothing
            assert ours.strip() == unlimited.strip() and "(C)" in ours
        else:
            assert files(ours) == files(theirs) and "(C)" not in ours
        if limit <= 0:
            assert ours.strip() == theirs.strip()


def test_a_limit_that_leaves_out_nothing_changes_nothing(border, monkeypatch):
    def inside():
        try:
            border.call(chained)
        except RuntimeError as exc:
            return report(exc)

    texts = []
    for limit in (None, 1000):
        monkeypatch.setattr(sys, "tracebacklimit", limit, raising=False)
        texts.append(inside())
    assert texts[0] == texts[1] and ", in test_a_limit_that" in texts[0]  # who called the one that caught it


def test_combined_report_in_python_order(border):
    exc = caught(border.call, chained)
    lines = stacksplice.format_exception(exc)
    assert all(line.endswith("\n") for line in lines)
    text = "".join(lines)
    assert lines[0].startswith("Traceback (most recent call last)")
    assert lines[0].rstrip().endswith("(most recent call last):")
    cause, words, effect = text.partition(
        "\n\nThe above exception was the direct cause of the following exception:"
    )
    assert words and cause.endswith("\nZeroDivisionError: division by zero")
    where = [effect.index(part) for part in ("in caught", "in chained", "RuntimeError: größe")]
    assert where == sorted(where)
    assert RETURNED not in text and "HRESULT" not in text
    assert f"[gap: {RETURNED}]" in stacksplice.error_info(exc).format(all_frames=True)
    assert "1. Python received it" in text
    assert "return 1 / 0" in text  # the source line


CHANGED = "  ... no lines of files that were changed after this\n"
MOVED = "  ... no lines of files with relative names: the working directory has changed\n"
_PROGRAM = """
def fail():
    raise KeyError("first")  # as it ran

def members():
    raise ExceptionGroup("of", [caught(fail), caught(fail)])  # as it ran

def run():
    try:
        members()  # as it ran
    except ExceptionGroup as exc:
        raise ValueError("second") from exc  # as it ran

def main(border):
    border.call(run)  # as it ran
"""


def program(name):
    """The function main of a file NAME."""
    names = {"caught": caught}
    exec(compile(_PROGRAM, str(name), "exec"), names)
    return names["main"]


def edit(path, seconds):
    path.write_text("edited = True\n" * _PROGRAM.count("\n"))
    os.utime(path, (time.time() + seconds,) * 2)


def in_all_ways(exc):
    """Live reports in which Python's traceback module writes its own frames."""
    written, painted = io.StringIO(), Terminal()
    stacksplice.print_exception(exc, written)
    stacksplice.print_exception(exc, painted)
    record = logging.makeLogRecord({"exc_info": (type(exc), exc, exc.__traceback__)})
    logged = stacksplice.logging.Formatter().format(record)
    return [report(exc), written.getvalue(), painted.getvalue(), logged + "\n"]


def test_no_line_of_a_file_that_is_newer_than_the_error(border, tmp_path, monkeypatch):
    path = tmp_path / "edited.py"
    path.write_text(_PROGRAM)
    main = program(path)
    exc = caught(main, border)
    assert all(text.count("  # as it ran") == 6 and CHANGED not in text for text in in_all_ways(exc))
    edit(path, 3600)
    for text in in_all_ways(exc):
        assert "edited = True" not in text and "as it ran" not in text
        assert text.count(f"{path}") == 6 and text.count(CHANGED) == 1
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert "function(*arguments)" in plain  # of a file that has not changed
    assert CHANGED in report(exc, chain=False)
    told = stacksplice.error_info(exc).format(newest_last=True)
    assert "edited = True" not in told and told.count(CHANGED.strip()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(sys, "tracebacklimit", 2, raising=False)
        limited = report(exc)
        assert limited.count(CHANGED) == 1 and "edited = True" not in limited


def test_no_line_of_a_file_that_an_older_one_replaced(border, tmp_path):
    """As tar, rsync -t, cp -p and packages do: what it says of itself is older than the error."""
    path, new = tmp_path / "replaced.py", tmp_path / "new.py"
    path.write_text(_PROGRAM)
    exc = caught(program(path), border)
    edit(new, -3600)
    time.sleep(0.02)  # the clock of file systems has steps
    new.replace(path)
    for text in in_all_ways(exc):
        assert "edited = True" not in text and text.count(CHANGED) == 1
    data = stacksplice.error_info(exc).to_json()
    assert "edited = True" not in data and "as it ran" not in data


def test_no_line_of_a_relative_name_in_another_folder(border, tmp_path, monkeypatch):
    exc = caught(program("moved.py"), border)
    for folder in ("here", "on_the_path"):
        (tmp_path / folder).mkdir()
    edit(tmp_path / "here" / "moved.py", -3600)
    edit(tmp_path / "on_the_path" / "moved.py", -3600)
    for folder in ("here", "."):
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.syspath_prepend(tmp_path / "on_the_path")
        for text in in_all_ways(exc):
            assert "edited = True" not in text and text.count(MOVED) == 1
    (tmp_path / "on_the_path" / "moved.py").unlink()
    assert all(MOVED not in text for text in in_all_ways(exc))  # there is no such file


def test_lines_that_are_in_memory_stay(border):
    name = "<cell of a notebook>"
    linecache.cache[name] = (len(_PROGRAM), None, _PROGRAM.splitlines(keepends=True), name)
    exc = caught(program(name), border)
    assert all(text.count("  # as it ran") == 6 and MOVED not in text for text in in_all_ways(exc))


class Coded(Exception):
    hresult = 0x80070005


class Uncoded(Exception):
    hresult = 0  # success is no HRESULT of an error


class Silent(Exception):
    @property
    def hresult(self):
        raise RuntimeError


def test_an_hresult_of_the_exceptions_own_is_shown(border):
    report = "".join(stacksplice.format_exception(caught(border.call, boom, Coded("no"))))
    assert "Coded: no\nHRESULT 0x80070005 E_ACCESSDENIED: " in report
    for exc in (Uncoded("no"), Silent("no"), ValueError("no")):
        assert "\nHRESULT" not in "".join(stacksplice.format_exception(caught(border.call, boom, exc)))


def test_another_hresult_of_native_code_is_shown(border, native):
    exc = caught(border.call, boom, ValueError("no"))
    report = "".join(stacksplice.format_exception(caught(native.transform, exc, 0x80070005)))
    assert "HRESULT 0x80070005 E_ACCESSDENIED" in report


def test_format_exc_and_print_exc(border):
    assert stacksplice.format_exc() == "NoneType: None\n"
    out = io.StringIO()
    stacksplice.print_exc(out)
    assert out.getvalue() == "NoneType: None\n"
    try:
        border.call(divide)
    except ZeroDivisionError as exc:
        assert stacksplice.format_exc() == "".join(stacksplice.format_exception(exc))
        out = io.StringIO()
        stacksplice.print_exc(file=out)
        assert out.getvalue() == stacksplice.format_exc()


def test_colour_only_on_a_terminal(border, monkeypatch):
    exc = caught(border.call, divide)

    def printed(file):
        stacksplice.print_exception(exc, file)
        return "\033[" in file.getvalue()

    assert printed(Terminal()) and not printed(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not printed(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not printed(Terminal())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert printed(io.StringIO())
    monkeypatch.setenv("PYTHON_COLORS", "0")
    assert not printed(Terminal())


# ---- The end of the road -------------------------------------------------------------------------


def test_fail_fast(child, tmp_path):
    done = child(
        "import stacksplice; stacksplice.fail_fast(ValueError('the end'))\n",
        status=-6,
        STACKSPLICE_REPORT_DIR=str(tmp_path),
    )
    assert "the end" in done.stderr


def test_report_unhandled_without_a_handler(child):
    done = child("import stacksplice; stacksplice.report_unhandled(ValueError('the end'))\n", status=-6)
    assert "the end" in done.stderr


# ---- The command line ----------------------------------------------------------------------------


def test_json_lines_end_at_line_feeds_alone(border, tmp_path):
    info = stacksplice.error_info(caught(border.call, boom, ValueError("one\u2028\x85\x0b\x1e line")))
    file = tmp_path / "errors.ndjson"
    file.write_bytes((info.to_json() * 3).replace("\n", "\r\n").encode())
    assert command("show", str(file)).stdout.count("ValueError: one") == 3


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "the file is empty"),
        (b"[]", "the list of errors is empty"),
        *((content, "") for content in (b"{}", b"[1]", b"not json", b'{"stack": 1}', b'{"schema": "x"}')),
        (b'{"x": 1,\n"y"}', "line 2 column 4"),
        (b"hello\nworld\n", "it is not a report: no JSON\n"),
        (b'{"hresult": 1, "message": "on the w', "it is cut off\n"),
        (b"\xff{}", "it is not UTF-8 (byte 0)"),
        (b"\x7fELF\xff", "it is not a report; stacksplice core reads core files"),
        (b"[" * 100_000, "values are nested too deeply"),
        (b'{"hresult_signed": "x", "message": 1, "stack": 5, "propagation": []}', "report 1 is damaged"),
    ],
)
def test_show_says_what_is_wrong(tmp_path, content, words):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    done = command("show", str(file), status=2)
    assert done.stderr.startswith(f"stacksplice: cannot show {file}: ") and words in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_show_prints_wherever_it_goes(border, tmp_path):
    info = stacksplice.error_info(caught(border.call, chained))
    file = tmp_path / "saved.json"
    file.write_text("\ufeff" + info.to_json() * 500, encoding="utf-8")
    done = command("show", file, PYTHONIOENCODING="ascii")
    assert done.stdout.count("RuntimeError: gr\\xf6\\xdfe") == 500
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    with subprocess.Popen([*MODULE, "show", str(file)], **pipes) as head:
        head.stdout.read(1)
        head.stdout.close()
        assert head.stderr.read() == b"" and head.wait(60) == 0


def test_help_and_version():
    assert command(status=2).stderr == command("--help").stdout
    assert "required: script\n" in command("run", status=2).stderr
    assert command("--version").stdout == command("version").stdout
    text = command("--help").stdout
    for part in ("run ", "show ", "doctor ", "version "):
        assert part in text
    assert "run [-h] [--crash] [--locals] -m module" in command("run", "--help").stdout
    lines = command("version").stdout.splitlines()
    assert lines[0] == f"stacksplice {stacksplice.__version__}"
    assert lines[1] == f"core {stacksplice.__version__}, {PACKAGE / 'libstacksplice.so.0'}"
    assert lines[2] == f"built with {stacksplice._stacksplice._BUILD}" and "compiler: " in lines[2]
    assert lines[3].startswith(f"Python {sys.version.split()[0]}, ")


def test_a_copied_stack_is_equal():
    frames = [
        stacksplice.Frame("native", "native", "inner", inlined=True, address=16),
        stacksplice.Frame("native", "native", "outer", address=16),
        stacksplice.Frame("native", "native", "outer", address=16),
    ]
    stack = stacksplice.Stack.from_frames(frames)
    assert stack.addresses == (16, 16)
    assert list(stack) == frames
    captured = stacksplice.capture()
    assert copy.deepcopy(captured) == captured
    assert pickle.loads(pickle.dumps(captured)) == captured


@pytest.mark.parametrize("data", [None, 3, {}, {"kind": "native"}, {"address": "zz"}])
def test_a_frame_from_something_else_is_refused(data):
    with pytest.raises(ValueError, match="data is not a frame"):
        stacksplice.Frame.from_dict(data)


def test_more_causes_than_the_core_writes_are_counted(monkeypatch, border):
    """Where the traceback module cannot write them: a chain without end is none of its."""
    monkeypatch.setattr(live, "_text_by_traceback", lambda *_: None)
    monkeypatch.setattr(live, "_MOST_ERRORS", 3)
    exc = caught(border.call, chained)
    for _ in range(2):
        assert "errors that are not shown" not in report(exc)
        outermost = RuntimeError("one more")
        outermost.__cause__, exc = exc, outermost
    assert report(exc).startswith("... more errors that are not shown\n")


# ---- The order of all reports ----------------------------------------------------------------------

NEWEST_FIRST = """
import logging, sys, traceback
import border, stacksplice, stacksplice.logging
stacksplice.install(newest_first=True)

def inner():
    try:
        {}["key"]
    except KeyError as exc:
        raise ValueError("bad amount") from exc

def outer():
    border.call(inner)
"""


def order_of(text):
    """The functions and errors of a text, in its order."""
    return re.findall(r"in (inner|outer)\b|^(ValueError|KeyError): ", text, re.M)


def words(text):
    return [frame or error for frame, error in order_of(text)]


FIRST = ["ValueError", "inner", "outer", "KeyError", "inner", "outer"]
LAST = ["inner", "KeyError", "outer", "inner", "ValueError"]


@pytest.mark.parametrize(
    "shown",
    [
        "outer()",
        "try: outer()\nexcept ValueError as exc: stacksplice.print_exception(exc)",
        "try: outer()\nexcept ValueError: stacksplice.print_exc()",
        "try: outer()\nexcept ValueError as exc: sys.stderr.writelines(stacksplice.format_exception(exc))",
        "logging.basicConfig(); logging.root.handlers[0].addFilter(stacksplice.logging.Filter())\n"
        "try: outer()\nexcept ValueError: logging.exception('failed')",
        "import threading\nthread = threading.Thread(target=outer); thread.start(); thread.join()",
    ],
)
def test_the_newest_frame_first_in_live_reports(child, shown):
    done = child(NEWEST_FIRST + shown, status=int(shown == "outer()"))
    found = words(done.stderr)
    assert found == FIRST and "Traceback" not in done.stderr, done.stderr


def test_what_keeps_the_order_of_python(child):
    """A limit, an exception that crossed nothing, and all after uninstall()."""
    done = child(
        NEWEST_FIRST
        + """
try:
    outer()
except ValueError as exc:
    sys.stdout.writelines(stacksplice.format_exception(exc, limit=3))
    print("----")
    try:
        1 / 0
    except ZeroDivisionError as other:
        other.__context__ = None
        assert "".join(stacksplice.format_exception(other)) == "".join(traceback.format_exception(other))
    stacksplice.uninstall()
    sys.stdout.writelines(stacksplice.format_exception(exc))
"""
    )
    limited, after = done.stdout.split("----\n")
    assert words(limited) == words(after) == LAST
