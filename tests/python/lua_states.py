"""Runtimes of lupa of each version."""

from __future__ import annotations

import types

import pytest
import stacksplice

VERSIONS = ["lua53", "lua54", "lua55"]
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


def module(version: str) -> types.ModuleType:
    found = pytest.importorskip(f"lupa.{version}", reason=f"lupa has no {version}")
    stacksplice.uninstall()  # pytest's plugin attaches all runtimes
    return found


def lua_lines(stack) -> list[int]:
    return [frame.line for frame in stack if (frame.kind, frame.language) == ("script", "lua")]
