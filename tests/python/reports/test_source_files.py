"""Files that reports read lines of: regular ones, of a bounded size, whatever a script calls its code."""

from __future__ import annotations

import io
import os
import sys
import time
import traceback
from pathlib import Path

import pytest
import stacksplice
from building import ran
from raising import caught

LONG = "... no lines of files that are longer than 16 MB"
IRREGULAR = "... no lines of what is no regular file"


def raises(name):
    names = {}
    exec(compile("def fails():\n    raise ValueError('x')\n", name, "exec"), names)
    return names["fails"]


@pytest.fixture(params=["device", "pipe", "long"])
def unread(request, tmp_path):
    """The name of a file that takes for ever, or long, to be read; and what a report says of it."""
    if request.param == "device":
        return "/dev/zero", IRREGULAR
    path = tmp_path / "file.py"
    if request.param == "pipe":
        os.mkfifo(path)
        return str(path), IRREGULAR
    path.write_bytes(b"")
    os.truncate(path, 8 << 30)
    return str(path), LONG


def reports(exc):
    written = io.StringIO()
    stacksplice.print_exception(exc, written)
    return ["".join(stacksplice.format_exception(exc)), written.getvalue()]


@pytest.mark.parametrize("limit", [None, 1, 1000])
def test_no_file_is_read_that_does_not_end(border, unread, monkeypatch, limit):
    """Without the bound this test does not end."""
    name, reason = unread
    plain, crossed = caught(raises(name)), caught(border.call, raises(name))
    before = dict(__import__("linecache").cache)
    if limit is not None:
        monkeypatch.setattr(sys, "tracebacklimit", limit, raising=False)
    for exc in (plain, crossed):
        for text in reports(exc):
            assert text.endswith("ValueError: x\n")
            assert limit == 1 or (f'File "{name}", line 2, in fails' in text and text.count(reason) == 1)
    text = stacksplice.error_info(crossed).format()
    assert f'File "{name}", line 2, in fails' in text and (reason == IRREGULAR or reason in text)
    assert name not in __import__("linecache").cache and name not in before


def test_pythons_own_traceback_has_no_long_file_of_a_script(crossing, tmp_path):
    """What a script called its chunk is the name of a file for Python's linecache, which reads it whole."""
    path = tmp_path / "huge.lua"
    path.write_bytes(b"")
    os.truncate(path, 8 << 30)
    exc = caught(crossing.run, f"load('error(1)', '@{path}')()", None)
    text = "".join(traceback.format_exception(exc))
    assert f'File "<{path}>", line 1' in text and f'File "{path}"' not in text
    assert (
        LONG in stacksplice.error_info(exc).format()
        and "".join(stacksplice.format_exception(exc)).count(LONG) == 1
    )


LUPA = """
import lupa.lua54, stacksplice, traceback
stacksplice.install()
lua = lupa.lua54.LuaRuntime()
def fails():
    int("Hello")
co = lua.eval("function(f) f() end").coroutine(fails)
try:
    co.send(None)
except lupa.lua54.LuaError as exc:
    print("".join(stacksplice.format_exception(exc)))
"""


def test_a_cause_without_an_error_of_its_own_has_no_frames_of_a_bridge():
    pytest.importorskip("lupa.lua54")
    text = ran(sys.executable, "-c", LUPA).stdout
    cause, words, _ = text.partition("The above exception was the direct cause of the following exception:")
    assert words and "ValueError: invalid literal" in cause and ", in fails" in cause
    assert "(Lua) File" in cause and ".pyx" not in text


EDITED = """
import os, sys, time
import lupa.lua54, stacksplice
stacksplice.install()
name = sys.argv[1]
lua = lupa.lua54.LuaRuntime()

def load(*lines):
    with open(name, "w") as file:
        file.write("\\n".join(lines))
    lua.execute(f"dofile('{name}')")

def report():
    try:
        lua.globals().price()
    except lupa.lua54.LuaError as exc:
        info = stacksplice.error_info(exc)
        print("".join(stacksplice.format_exception(exc)), info.to_json(), "=" * 9)

load("function price()", "  error('first') -- as it ran", "end")
report()
time.sleep(0.05)
with open(name, "w") as file:
    file.write("-- edited\\n-- edited\\n")
time.sleep(0.05)
report()
load("-- edited", "-- edited", "function price()", "  error('second') -- loaded anew", "end")
report()
"""


def test_a_line_of_lua_is_not_that_of_an_edit_before_the_error(tmp_path):
    pytest.importorskip("lupa.lua54")
    first, second, third, _ = ran(sys.executable, "-c", EDITED, tmp_path / "r.lua").stdout.split("=" * 9)
    told = "... no lines of files that were changed after their code ran first"
    assert first.count("-- as it ran") == 2 and told not in first
    assert "edited" not in second and "as it ran" not in second and second.count(told) == 1
    assert third.count("-- loaded anew") == 2 and told not in third


_PROGRAM = "def fails():\n    raise ValueError('{0}')  # {0}\n"


def test_a_line_of_python_is_not_that_of_an_edit_before_the_error(border, tmp_path):
    path = tmp_path / "edited.py"
    told = "... no lines of files that were changed after their code ran first"

    def load(text):
        path.write_text(_PROGRAM.format(text))
        names = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        return names["fails"]

    def texts(function):
        exc = caught(border.call, function)
        info = stacksplice.error_info(exc)
        return "".join(stacksplice.format_exception(exc)), str(info), info.to_json()

    fails = load("first")
    assert all("  # first" in text and told not in text for text in texts(fails))
    time.sleep(0.05)
    again = load("second")
    time.sleep(0.05)
    for text in texts(fails):
        assert "# first" not in text and "# second" not in text
        assert text.count(told) == (0 if text.startswith("{") else 1)
    assert all("  # second" in text and told not in text for text in texts(again))


def test_the_reasons_are_those_of_the_core():
    source = Path(stacksplice.__file__).parent / "_errors" / "kept.py"
    assert LONG.removeprefix("... ") in source.read_text(encoding="utf-8")
