"""gdb and lldb on the programs of the tests, and what is compared of their stacks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, PACKAGE, Resting

GDB_SCRIPT = PACKAGE / "_debuggers" / "stacksplice_gdb.py"
LLDB_SCRIPT = PACKAGE / "_debuggers" / "stacksplice_lldb.py"


def gdb(
    *commands: str,
    script: Path | None = GDB_SCRIPT,
    arguments: tuple[str, ...] = (),
    program: str = "gdb",
) -> str:
    """What gdb prints."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    given = [program, "-nx", "-batch", "-ex", "set width 0", "-ex", "set confirm off", *arguments]
    for each in (f"source {script}" if script else "", *commands):
        given += ["-ex", each] if each else []
    without = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        given,
        capture_output=True,
        text=True,
        errors="replace",
        env=without,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return done.stdout + done.stderr


def needs_known_program() -> None:
    """Skips where a debugger takes the loader, which was told to run Python, for the program."""
    if os.path.basename(os.readlink("/proc/self/exe")).startswith("ld-"):
        pytest.skip("debuggers know no binary of a process that was begun as ld.so program")


def part(text: str, begin: str = "BEGIN\n") -> str:
    return text.partition(begin)[2]


def frames(text: str) -> list[str]:
    """Frames of scripts as lines, and of each run of native ones the binary that it begins with."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith(("    (Python)", "    (Lua)")):
            found.append(line.strip())
        elif line.startswith("    (C)"):
            binary = re.search(r"([^/(]+)\)?(?:\+0x\w+\))?$", line.replace(" [inferred]", ""))
            assert binary, line
            # By whichever link it is known.
            name = binary[1].rstrip(")").partition("+")[0].partition(".so")[0]
            if not found or found[-1] != name:
                found.append(name)
    return found


def scripts_of(text: str) -> list[str]:
    return [line for line in frames(text) if line.startswith("(")]


def lua_library() -> str | None:
    return next((name for name in ("liblua5.4.so.0", "liblua5.4-system.so.0") if can_load(name)), None)


def can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def lldb(*commands: str) -> str:
    """What lldb prints, until the first error."""
    program = shutil.which("lldb")
    if program is None:
        pytest.skip("lldb is not installed")
    given = ["lldb", "--no-lldbinit", "-b", "-o", f"command script import {LLDB_SCRIPT}"]
    for each in commands:
        given += ["-o", each]
    without = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Debian's lldb 14 looks for its own modules in a folder that does not exist.
    installed = Path(program).resolve().parent.parent
    without |= {"PYTHONPATH": str(module.parent) for module in installed.glob("lib/python3*/*-packages/lldb")}
    done = subprocess.run(
        given, capture_output=True, text=True, env=without, stdin=subprocess.DEVNULL, timeout=120
    )
    if "No module named 'lldb" in done.stdout + done.stderr:
        pytest.skip("lldb has no Python: python3-lldb is not installed")
    return done.stdout + done.stderr


def in_parts(arguments: tuple[str, ...], *commands: str) -> list[str]:
    """What gdb prints for each of COMMANDS, which may be several lines."""
    given = [line for each in commands for line in ("echo BEGIN\\n", *each.split("\n"))]
    return gdb(*given, arguments=arguments).split("BEGIN\n")[1:]


def in_gdb(process: int, *commands: str) -> str:
    return part(gdb("echo BEGIN\\n", *commands, arguments=("-p", str(process))))


def in_lldb(process: int, *commands: str) -> str:
    return lldb(f"process attach --pid {process}", *commands)


each_debugger = pytest.mark.parametrize("debugger", [in_gdb, in_lldb])


@contextlib.contextmanager
def begun() -> Iterator[int]:
    """Python calls Lua, which calls Python, which calls Lua, Python and C, and rests there."""
    library = lua_library()
    if library is None:
        pytest.skip("no shared Lua 5.4")
    with Resting(sys.executable, HERE / "dump_lua_program.py", library) as child:
        assert child.line == "ready\n"
        yield child.pid
