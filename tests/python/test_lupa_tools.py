"""Tools that know nothing of stacksplice show Lua's lines of lupa's exceptions, with install() alone.

What others show of any Lua frame in __traceback__ is in test_foreign_frames_tools.py.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback

import lupa_runtimes
import pytest
import stacksplice
import stacksplice.logging
from building import ran
from lupa_runtimes import RULES, runtime_of
from raising import caught

lua = lupa_runtimes.lua
LINES = {"price": 3, "fails": 7}
ARGUMENTS = {"price": ["XXX"], "fails": []}
born = pytest.mark.parametrize("born", ["price", "fails"])


def failing(lua, name: str):
    """A function that fails in Python below Lua, or in Lua itself."""
    function = runtime_of(lua).globals()[name]
    return lambda: function(*ARGUMENTS[name])


def line_of(name: str) -> str:
    """How a traceback shows the function of Lua."""
    return f'File "<rules>", line {LINES[name]}, in {name}\n'


# ---- The standard library ------------------------------------------------------------------------


@born
def test_traceback(lua, born: str) -> None:
    assert line_of(born) in "".join(traceback.format_exception(caught(failing(lua, born))))


@born
def test_logging_with_our_formatter(lua, born: str) -> None:
    try:
        failing(lua, born)()
    except Exception as exc:
        record = logging.LogRecord("shop", 40, "", 0, "", None, (type(exc), exc, exc.__traceback__))
    text = stacksplice.logging.Formatter().format(record)
    assert f'(Lua) File "rules", line {LINES[born]}, in {born}\n' in text and ".pyx" not in text


# ---- Programs of others --------------------------------------------------------------------------

SHOP = """
import importlib
runtime = importlib.import_module("lupa.{lua}").LuaRuntime()
runtime.globals().rate = {{}}.__getitem__
with open("rules.lua") as file:
    runtime.execute(file.read(), name="@rules.lua")
price, fails = runtime.globals().price, runtime.globals().fails
"""


@pytest.fixture
def run(tmp_path, request: pytest.FixtureRequest):
    """Runs a program beside shop.py and rules.lua: its output and errors."""

    def run(name: str, status: int, *command: str) -> str:
        (tmp_path / "shop.py").write_text(SHOP.format(lua=name))
        (tmp_path / "rules.lua").write_text(RULES)
        variables = {"NO_COLOR": "1", "COLUMNS": "100", "IPYTHONDIR": tmp_path, "HOME": tmp_path}
        options = {"status": status, "stderr": subprocess.STDOUT, "cwd": tmp_path, "PYTEST_ADDOPTS": ""}
        return ran(sys.executable, *command, **options, **variables).stdout

    return run


of_one_lua = pytest.mark.parametrize("name", lupa_runtimes.each_lua()[:1])  # tools know no version
CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for cell in ["import stacksplice; stacksplice.install()", "from shop import *", "price('XXX')", "fails()"]:
    shell.run_cell(cell)
"""


@of_one_lua
def test_ipython(run, name: str) -> None:
    """The shell's own traceback has Lua's line with its source; the report follows it."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    shown = run(name, 0, "-c", CELLS)
    assert "----> 3   local found = rate(currency)\n" in shown and '----> 7   error("no price")\n' in shown
    assert '(Lua) File "rules.lua", line 3, in price\n    local found = rate(currency)\n' in shown
    assert '(Lua) File "rules.lua", line 7, in fails\n    error("no price")\n' in shown


TESTS = """
from shop import *
{install}
def test_price(): price("XXX")
def test_fails(): fails()
"""
PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", "test_shop.py")
REPORT = '  (Lua) File "rules.lua", line 3, in price\n    local found = rate(currency)\n'


@of_one_lua
def test_pytest_with_the_plugin(run, name: str, tmp_path) -> None:
    """No line of code is needed: the traceback has Lua's lines, and the combined stack follows."""
    (tmp_path / "test_shop.py").write_text(TESTS.format(install=""))
    shown = run(name, 1, *PYTEST, "-p", "stacksplice.pytest_plugin")
    assert "rules.lua:3: in price\n    local found = rate(currency)\n" in shown
    assert "rules.lua:7: LuaError\n" in shown
    assert shown.count("- combined stack -") == 2 and REPORT in shown


@of_one_lua
def test_pytest_without_the_plugin(run, name: str, tmp_path) -> None:
    (tmp_path / "test_shop.py").write_text(TESTS.format(install="import stacksplice; stacksplice.install()"))
    shown = run(name, 1, *PYTEST, "-p", "no:stacksplice.pytest_plugin")
    assert "rules.lua:3: in price\n    local found = rate(currency)\n" in shown
    assert "rules.lua:7: LuaError\n" in shown and "- combined stack -" not in shown


ATTACHED = """
import pytest, sys
class Outer:
    def pytest_configure(self, config):
        import shop
        from stacksplice import error_info
        self.shop = shop
    def pytest_sessionfinish(self, session):
        assert pytest.main(["-q", "-p", "stacksplice.pytest_plugin", "--markers"]) == 0
        assert told(self.shop)
def told(shop):
    from stacksplice import error_info
    try:
        shop.price("XXX")
    except KeyError as exc:
        return error_info(exc) is not None
plugin = Outer()
arguments = ["-q", "-p", "no:cacheprovider", "-p", "stacksplice.pytest_plugin", "-c", "/dev/null"]
assert pytest.main([*arguments, "--rootdir", ".", "none"], plugins=[plugin]) == 4
assert not told(plugin.shop)
"""


def test_runtimes_are_attached_while_pytest_runs(run) -> None:
    """Also after another pytest ran inside of it; not any more when it has ended."""
    shown = run(lupa_runtimes.each_lua()[0], 0, "-c", ATTACHED)
    assert "AssertionError" not in shown and "pytest.mark.skip" in shown
