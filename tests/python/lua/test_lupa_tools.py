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


# ---- What lupa puts into tracebacks --------------------------------------------------------------

WAYS = """
import sys, traceback
lua.globals().rate = {{}}.__getitem__
lua.execute(\"\"\"
function price(c) local r = rate(c) return r end
function fails() error({{code = 7}}) end
function calls(f) local r = f() return r end
\"\"\", name="@rules/42.lua")
at = lua.globals()
def again():
    return at.price("b")
ways = [
    lambda: at.price("a"), at.fails, lambda: at.calls(again), lambda: lua.eval("price('c'), 1"),
    lambda: lua.execute("price('d')"), lambda: lua.execute("return 1 +"),
    lambda: next(lua.eval("function() price('e') end").coroutine()),
    lambda: lua.eval("function() price('f') end").coroutine().send(None),
    lambda: lua.compile("return price('g'), 1")(), lambda: lua.table_from([1]).no.such,
]
for way in ways:
    try:
        way()
    except Exception as exc:
        entries = [(f.filename.rpartition("/")[2], f.name) for f in traceback.extract_tb(exc.__traceback__)]
        bridge = [name for file, name in entries if file.endswith(".pyx")]
        print(type(exc).__name__, exc.args, bridge, [file for file, name in entries if ".lua" in file])
"""
MAKES = 'import importlib; lua = importlib.import_module("lupa.{lua}").LuaRuntime()\n'


def ways(run, name: str, install: str) -> list[str]:
    begin = f"import stacksplice; stacksplice.install({install})\n" if install != "none" else ""
    return run(name, 0, "-c", begin + (MAKES + WAYS).format(lua=name)).splitlines()


@pytest.mark.parametrize("name", lupa_runtimes.VERSIONS)
def test_tracebacks_have_no_entries_of_lupa(run, name: str) -> None:
    """Whatever call an exception leaves lupa by; types and arguments are lupa's."""
    alone, with_us = ways(run, name, "none"), ways(run, name, "")
    assert len(alone) == len(with_us) == 10
    for before, after in zip(alone, with_us, strict=True):
        assert after.startswith(before.partition(") [")[0]) and ") [] [" in after, (before, after)
    assert sum("42.lua>" in line for line in with_us) == 8  # not the wrong syntax, nor the last one


@of_one_lua
def test_they_stay_for_those_who_ask(run, name: str) -> None:
    kept, alone = ways(run, name, "bridges=True"), ways(run, name, "none")
    assert [line.rpartition(" [")[0] for line in kept] == [line.rpartition(" [")[0] for line in alone]
    assert all("lupa." in line for line in kept[:-1])


# ---- Lines of chunks that are no file ------------------------------------------------------------

RULE = "function price(c)\\n  local r = rate(c) -- the line\\n  return r\\nend"
UNFILED = f"""
import stacksplice; stacksplice.install()
import lupa.lua54
lua = lupa.lua54.LuaRuntime()
lua.globals().rate = {{}}.__getitem__
lua.execute("{RULE}", name="@rules/42.lua")
price = lua.globals().price
"""
SHOWS = {
    "the interpreter": (1, "price('XXX')"),
    "logging": (0, "import logging\ntry: price('XXX')\nexcept KeyError: logging.exception('failed')"),
    "pytest": (1, "import pytest\nopen('test_it.py', 'w').write('import shop\\ndef test(): shop.price(0)')\n"
               "raise SystemExit(pytest.main(['-q', '-p', 'no:stacksplice', 'test_it.py']))"),
    "IPython": (0, "from IPython.core.interactiveshell import InteractiveShell\n"
                "shell = InteractiveShell.instance(colors='NoColor')\n"
                "shell.run_cell('from shop import price')\nshell.run_cell('price(0)')"),
    "sentry_sdk": (0, "import sentry_sdk, json\n"
                   "def say(event, hint): print(json.dumps(event))\n"
                   "sentry_sdk.init(dsn='https://a@localhost/1', before_send=say)\n"
                   "try: price(0)\nexcept KeyError as exc: sentry_sdk.capture_exception(exc)"),
}  # fmt: skip


@pytest.mark.parametrize("tool", SHOWS)
def test_tools_have_the_lines_of_text_that_lupa_was_given(run, tmp_path, tool: str) -> None:
    if tool in ("IPython", "sentry_sdk"):
        pytest.importorskip(tool, reason=f"{tool} is not installed")
    status, program = SHOWS[tool]
    (tmp_path / "program.py").write_text((UNFILED if tool != "pytest" else "") + program)
    run("lua54", 0, "-c", "pass")  # writes shop.py
    (tmp_path / "shop.py").write_text(UNFILED)
    done = ran(sys.executable, "program.py", status=status, stderr=subprocess.STDOUT, cwd=tmp_path,
               NO_COLOR="1", PYTEST_ADDOPTS="", HOME=tmp_path, IPYTHONDIR=tmp_path)  # fmt: skip
    assert "local r = rate(c) -- the line" in done.stdout and ".pyx" not in done.stdout, done.stdout


NAMED = """
import importlib, json, linecache, traceback
import stacksplice; stacksplice.install()
module = importlib.import_module("lupa.{lua}")
def run(text, name, of=None):
    lua = of or module.LuaRuntime()
    lua.execute(text, **({{"name": name}} if name else {{}}))
    try:
        lua.globals().f(lua.table())
    except module.LuaError as exc:
        entry = traceback.extract_tb(exc.__traceback__)[-1]
        saved = [f.get("source") for f in json.loads(stacksplice.error_info(exc).to_json())["stack"]
                 if f["language"] == "lua"]
        print([entry.line, saved[0], "return x.y.z" in "".join(stacksplice.format_exception(exc))])
    return lua
TEXT = "function f(x)\\n  return x.y.z\\nend"
for name in [None, "@db/rules/42.lua", "=rules.42", "rules 42", "@stdin", "=string"]:
    run(TEXT, name)
other = TEXT.replace("x.y.z", "x.q.z")
run(other, "@db/rules/42.lua")            # another of that name: which one a traceback means is not known
lua = run(TEXT, "@again.lua")
run(other, "@again.lua", lua)             # in one runtime
open("there.lua", "w").write("function f(x)\\n  return x.y.z -- the file\\nend")
lua = run(TEXT, "@there.lua")             # the file has the line
import os; os.remove("there.lua")
run(other, "@there.lua", lua)             # which of the two a function is of is not known
run(TEXT, "@there.lua")
for number in range(200):
    run(TEXT, f"@many/{{number}}.lua")
ours = [name for name in linecache.cache if name.startswith(("<many/", "<db", "[string", "<again"))]
print(len(ours), "<many/199.lua>" in ours)
"""


@pytest.mark.parametrize("name", lupa_runtimes.VERSIONS)
def test_lines_of_chunks_by_their_names(run, name: str) -> None:
    shown = run(name, 0, "-c", NAMED.format(lua=name)).splitlines()
    line = "return x.y.z"
    assert shown[:4] == [str([line, line, True])] * 4
    assert shown[4:6] == [str(["", line, True])] * 2  # names of Python's own: its lines are not ours to give
    assert shown[6] == str(["", "return x.q.z", False])
    assert shown[7] == str([line, line, True]) and shown[8] == str(["", None, False])
    assert shown[9] == str([f"{line} -- the file"] * 2 + [True])
    assert shown[10] == str(["", None, False])
    assert shown[11] == str([line, line, True])
    assert shown[-1] == "64 True"
