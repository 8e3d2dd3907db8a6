"""Tools that know nothing of stacksplice show Lua's lines of lupa's exceptions, with install() alone.

What others show of any Lua frame in __traceback__ is in test_foreign_frames_tools.py.
"""

from __future__ import annotations

import subprocess
import sys

import lupa_runtimes
import pytest
from building import ran
from lupa_runtimes import RULES

lua = lupa_runtimes.lua


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


of_one_lua = pytest.mark.parametrize("name", lupa_runtimes.VERSIONS[:1])  # tools know no version
CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for cell in ["import stacksplice; stacksplice.install()", "from shop import *", "price('XXX')", "fails()"]:
    shell.run_cell(cell)
"""


@of_one_lua
def test_ipython(run, name: str) -> None:
    """The shell's own traceback has Lua's line with its source; no report follows it."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    shown = run(name, 0, "-c", CELLS)
    assert "----> 3   local found = rate(currency)\n" in shown and '----> 7   error("no price")\n' in shown
    assert "(Lua) " not in shown


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
    shown = run(lupa_runtimes.VERSIONS[0], 0, "-c", ATTACHED)
    assert "AssertionError" not in shown and "pytest.mark.skip" in shown
