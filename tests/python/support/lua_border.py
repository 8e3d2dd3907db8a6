"""The module of tests/host/crossing.c, in which Python and Lua call each other, built for this Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
from building import ROOT, SHARED, compile_c, core_library

PRICING = """\
local M = {}

function M.price(order, callback)
   if not order.count then
      error("no count")
   end
   local price = callback and py(callback, order.count) or 1
   return price + 1
end

function M.deep(n)
   if n == 0 then error("deep") end
   local below = M.deep(n - 1)
   return below + 1
end

return M
"""


def _lua_flags() -> list[str]:
    try:
        done = subprocess.run(["pkg-config", "--cflags", "--libs", "lua5.4"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no pkg-config to find Lua 5.4 with")
    if done.returncode:
        pytest.skip("the headers of Lua 5.4 are not installed")
    return shlex.split(done.stdout)


def compile_crossing(folder: Path) -> Path:
    """The module crossing in FOLDER, beside pricing.lua."""
    lua = ROOT / "bindings" / "lua"
    build = os.environ.get("STACKSPLICE_BUILD_DIR")
    library = Path(build, "bindings", "lua", "libstacksplice-lua.a") if build else None
    if library is not None and library.exists():
        sources, objects = [], [str(library)]
    else:
        own = [file for file in sorted((lua / "src").rglob("*.c")) if file.name != "jit.c"]  # of LuaJIT
        sources, objects = [*own, SHARED / "lua_chunks.c", SHARED / "value_text.c"], []
    output = folder / f"crossing{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [f"-I{lua / 'include'}", f"-I{lua / 'src'}", f"-I{SHARED.parent}", "-D_GNU_SOURCE"]
    includes += ["-shared", "-fPIC", "-pthread", "-Wl,-z,nodelete"]
    sources.insert(0, ROOT / "tests" / "host" / "crossing.c")
    compile_c(output, sources, *includes, *objects, *_lua_flags(), *core_library(), "-ldl", "-lm")
    (folder / "pricing.lua").write_text(PRICING)
    return output
