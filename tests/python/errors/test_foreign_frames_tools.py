"""Tools that show tracebacks show frames of Lua and C with no change: each is run in a child process."""

from __future__ import annotations

import os
import sys

import pytest
from building import PACKAGE, ran

LUA_LINE = "local price = callback and py(callback, order.count) or 1"
LUA_ERROR = 'error("no count")'
C_LINE = "hr = stacksplice_lua_pcall(state, 1, 0);"

APP = """\
import crossing

crossing.run("package.path = '" + __file__.rpartition("/")[0] + "/?.lua;' .. package.path")


def bad_callback(count):
    raise ValueError("bad %d" % count)


def price():
    return crossing.run("local p = require('pricing').price({count = 3}, (...)) return p", bad_callback)


def lua_error():
    return crossing.run("local p = require('pricing').price({}) return p")
"""


@pytest.fixture
def run(crossing_folder, tmp_path):
    """run(source, *arguments): a program in a child process, in a folder with app.py beside it."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "pricing.lua").write_text((crossing_folder / "pricing.lua").read_text())
    paths = [str(folder), str(crossing_folder), str(PACKAGE.parent)]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}
    environment.pop("FORCE_COLOR", None)

    def run_program(source: str, *arguments: str, status: int = 0) -> str:
        (folder / "test_app.py").write_text(source)
        done = ran(sys.executable, *arguments, status=status, cwd=folder, env=environment)
        return done.stdout + done.stderr

    return run_program


def assert_in_order(text: str, *parts: str) -> None:
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing or out of order in\n{text}"
        at = found + len(part)


CALLS_BACK = [
    ('app.py", line 11, in price', "return crossing.run("),
    ('crossing.c", line', C_LINE),
    ('pricing.lua", line 7, in', LUA_LINE),
    ('app.py", line 7, in bad_callback', 'raise ValueError("bad %d" % count)'),
    ("ValueError: bad 3",),
]
FAILS_IN_LUA = [
    ('app.py", line 15, in lua_error',),
    ('crossing.c", line', C_LINE),
    ('pricing.lua", line 5, in', LUA_ERROR),
    ("HResultError: ", "pricing.lua:5: no count"),
]


def flat(lists: list[tuple[str, ...]]) -> list[str]:
    return [part for parts in lists for part in parts]


def test_the_interpreter_itself(run):
    output = run("import app\napp.price()\n", "test_app.py", status=1)
    assert_in_order(output, "Traceback (most recent call last):", *flat(CALLS_BACK))
    output = run("import app\napp.lua_error()\n", "-X", "dev", "test_app.py", status=1)
    assert_in_order(output, *flat(FAILS_IN_LUA))
    assert "Warning" not in output


def test_unittest(run):
    source = """
import app, unittest
class Prices(unittest.TestCase):
    def test_a_price(self):
        app.price()
    def test_lua(self):
        app.lua_error()
"""
    output = run(source, "-m", "unittest", "-v", "test_app", status=1)
    assert_in_order(output, "ERROR: test_a_price", *flat(CALLS_BACK), "ERROR: test_lua", *flat(FAILS_IN_LUA))
    assert "FAILED (errors=2)" in output


PYTEST_SOURCE = """
import app
def test_price():
    app.price()
def test_lua():
    app.lua_error()
"""


@pytest.mark.parametrize("style", ["long", "short", "native", "line", "auto", "long -l"])
def test_pytest(run, style):
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", *f"--tb={style}".split(), "test_app.py"]
    output = run(PYTEST_SOURCE, *arguments, status=1)
    assert "2 failed" in output and "INTERNALERROR" not in output
    if style == "line":
        assert_in_order(output, "app.py:7: ValueError: bad 3", "pricing.lua:5: ")
    elif style == "native":
        assert_in_order(output, *flat(CALLS_BACK), *flat(FAILS_IN_LUA))
    else:
        assert_in_order(output, C_LINE, LUA_LINE, "ValueError: bad 3", C_LINE, LUA_ERROR)
        assert_in_order(output, "crossing.c:", "pricing.lua:7: ", "app.py:7: ", "pricing.lua:5: ")


def test_rich(run):
    pytest.importorskip("rich")
    source = """
import app
from rich.console import Console
from rich.traceback import install
install(show_locals=True, console=Console(width=160, no_color=True))
app.{}()
"""
    output = run(source.format("price"), "test_app.py", status=1)
    assert_in_order(output, "app.py:11 in price", C_LINE, "pricing.lua:7 in", LUA_LINE, "ValueError: bad 3")
    output = run(source.format("lua_error"), "test_app.py", status=1)
    assert_in_order(output, "pricing.lua:5 in", LUA_ERROR, "no count")
