"""Local variables and lines of source in gdb and lldb: those of `dump --locals`, but for secrets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

import pytest
from building import HERE, Resting, command
from debugging import each_debugger, gdb, in_gdb, needs_known_program
from test_core import copy_of
from test_dump_lua import luas

pytestmark = pytest.mark.any_python

LUA = str(HERE / "dump_locals_program.lua")
PYTHON = str(HERE / "dump_locals_program.py")


def of_scripts(text: str) -> list[str]:
    """The script frames of TEXT with what is below each, but for what reports redact."""
    found, within = [], False
    for line in text.splitlines():
        if not line.startswith("      "):
            within = line.startswith(("    (Python)", "    (Lua)"))
        if within and not line.strip().startswith(("password = ", "shop = ")):
            found.append(line)
    return found


@each_debugger
def test_python(debugger: Callable[..., str]):
    with Resting(sys.executable, PYTHON) as child:
        told = of_scripts(command("dump", "--locals", str(child.pid)).stdout)
        seen = debugger(child.pid, "stacksplice bt -locals")
        assert "        half = 0.5" in told and '      texts("", b"")' in told
        assert of_scripts(seen) == told
        assert " half = " not in debugger(child.pid, "stacksplice bt")


@each_debugger
def test_lua(debugger: Callable[..., str]):
    with Resting(*next(luas()), LUA) as child:
        told = of_scripts(command("dump", "--locals", str(child.pid)).stdout)
        assert "        half = 0.5" in told
        assert of_scripts(debugger(child.pid, "stacksplice bt -locals")) == told


RECURSION = """local function rest(n)
    local long = {}
    for i = 1, 9 do long[i] = string.rep("x", 80) end
    if n > 0 then rest(n - 1) else print() io.stdout:flush() io.read() end
    return n
end
rest(9)
"""


@each_debugger
def test_long_tables_and_frames_that_repeat(debugger: Callable[..., str], tmp_path):
    program = tmp_path / "program.lua"
    program.write_text(RECURSION)
    with Resting(*next(luas()), str(program)) as child:
        told = of_scripts(command("dump", "--locals", str(child.pid)).stdout)
        repeated = command("dump", str(child.pid)).stdout
        seen = debugger(child.pid, "stacksplice bt -locals", "stacksplice bt")
    stacks = of_scripts(seen)
    assert any(line.endswith(", ...}") for line in told) and stacks[: len(told)] == told
    lines = [line for line in repeated.splitlines() if "frame repeated" in line]
    assert len(lines) == 1 and [line for line in seen.splitlines() if "frame repeated" in line] == lines


def test_a_core_file(tmp_path):
    needs_known_program()
    with Resting(sys.executable, PYTHON) as child:
        core = str(copy_of(child.pid, tmp_path))
    told = of_scripts(command("core", "--locals", core).stdout)
    seen = gdb("stacksplice bt -locals", arguments=(os.path.realpath(sys.executable), core))
    assert "        half = 0.5" in told and of_scripts(seen) == told


def variables_in_gdb(process: int, function: str) -> set[str]:
    seen = in_gdb(process, "bt -full -hide")
    frame = re.search(rf"^(?:#\d+ +)?\({function} .*\n((?:  .*\n)+)", seen, re.MULTILINE)
    assert frame
    return {line.strip() for line in frame[1].splitlines()}


def test_in_gdbs_own_bt():
    with Resting(sys.executable, PYTHON) as child:
        seen = variables_in_gdb(child.pid, r"Python\) numbers")
    assert {'half = "0.5"', "small = 7", 'yes = "True"'} <= seen
    with Resting(*next(luas()), LUA) as child:
        seen = variables_in_gdb(child.pid, r"Lua\) others")
    assert {'whole = "2.0"', "negative = -7", 'unset = "nil"', "parameter = 1"} <= seen


def test_names_that_gdbs_charset_lacks(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("def größe(text):\n print(flush=True)\n input()\ngröße('é\\ud800')\n", "utf-8")
    with Resting(sys.executable, str(program)) as child:
        seen = in_gdb(child.pid, "set charset ASCII", "bt -full -hide")
    assert r"(Python) gr\xf6\xdfe () at " in seen and r'text = "\\xe9\\ud800"' in seen
