"""What the tests of lupa share: each Lua that it ships and we know, and a runtime with two functions."""

from __future__ import annotations

import gc
import importlib.util
import sys
import types
from pathlib import Path

import pytest
import stacksplice

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for versions.py, also in children

import versions  # noqa: E402

pytest.importorskip("lupa", reason="lupa is not installed")

# Line 3 calls Python, line 7 raises.
RULES = """
function price(currency)
  local found = rate(currency)
  return found
end
function fails()
  error("no price")
end
"""


# Functions that call each other, and what debug.getinfo says of their lines.
NESTED = """
function convert(f)
    local result = f()
    return result
end
function price(f)
    local result = convert(f)
    return result
end
function lines()
    local found = {}
    for level = 2, 100 do
        local info = debug.getinfo(level, "Sl")
        if not info then break end
        if info.what ~= "C" then found[#found + 1] = info.currentline end
    end
    return table.concat(found, " ")
end
"""
# The last is the one that every Python runs.
VERSIONS = [name for name in versions.LUPAS if importlib.util.find_spec(f"lupa.{name}")]


# What one Lua is to a further Python, the others are.
PARAMETERS = [
    pytest.param(name, marks=[] if name == VERSIONS[-1] else pytest.mark.any_python) for name in VERSIONS
]


@pytest.fixture(params=PARAMETERS)
def lua(request: pytest.FixtureRequest):
    """lupa's module of each Lua that we know, with stacksplice installed."""
    stacksplice.install()
    yield importlib.import_module(f"lupa.{request.param}")
    stacksplice.uninstall()
    gc.collect()  # other tests find no runtime


def runtime_of(lua, **options):
    runtime = lua.LuaRuntime(**options)
    runtime.globals().rate = {"EUR": 1.0}.__getitem__
    runtime.execute(RULES, name="@rules")
    return runtime


def entries(exc: BaseException) -> list[str]:
    """The names in EXC's __traceback__ but those of lupa's own code, outermost first."""
    names, entry = [], exc.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not code.co_filename.endswith(".pyx"):
            names.append(code.co_name)
        entry = entry.tb_next
    return names


def module(version: str) -> types.ModuleType:
    found = pytest.importorskip(f"lupa.{version}", reason=f"lupa has no {version}")
    stacksplice.uninstall()  # pytest's plugin attaches all runtimes
    return found


def lua_lines(stack) -> list[int]:
    return [frame.line for frame in stack if (frame.kind, frame.language) == ("script", "lua")]
