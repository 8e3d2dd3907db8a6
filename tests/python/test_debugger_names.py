"""stacksplice_register_debugger_names: gdb alone names the elements of captured stacks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

import pytest
from building import PACKAGE, start
from debugging import gdb, needs_known_program, part
from test_core import copy_of

pytestmark = pytest.mark.any_python

PROGRAM = """
import ctypes, json, stacksplice, sys

core = ctypes.CDLL(sys.argv[1])
core.stacksplice_register_debugger_names.restype = ctypes.c_uint32

def early():
    return stacksplice.capture()

def late():
    return stacksplice.capture()

told = [core.stacksplice_register_debugger_names() if sys.argv[2] != "never" else 0]
stacks = [early()]
for _ in range(3):  # each replaces the names before
    if sys.argv[2] != "never":
        told.append(core.stacksplice_register_debugger_names())
stacks.append(late())
frames = [[frame.kind, frame.function, frame.line, frame.address] for stack in stacks for frame in stack]
print(json.dumps([told, frames]), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["always", "never"])
def named(request) -> Iterator[tuple[int, dict[str, tuple[int, int]], bool]]:
    """A process, its script frames by function with line and address, and whether it names them."""
    needs_known_program()
    with start("-c", PROGRAM, PACKAGE / "libstacksplice.so.0", request.param) as child:
        told, frames = json.loads(child.line)
        assert set(told) == {0}
        scripts = {name: (line, address) for kind, name, line, address in frames if kind == "script"}
        yield child.pid, scripts, request.param == "always"


def symbol_of(address: int, *arguments: str) -> str:
    seen = gdb(f"info symbol {address}", script=None, arguments=arguments)
    return next(line for line in seen.splitlines() if re.search(r" in section |^No symbol matches", line))


def test_names_of_a_process_and_of_its_core_file(named, tmp_path):
    process, frames, is_named = named
    line, address = frames["early"]
    core = copy_of(process, tmp_path)
    for arguments in (("-p", str(process)), (sys.executable, str(core))):
        if is_named:
            assert symbol_of(address, *arguments).startswith(f"early (<string>:{line}) in section .text")
        else:
            assert symbol_of(address, *arguments) == f"No symbol matches {address}."
    # What came after the last call has no name.
    assert "late" not in symbol_of(frames["late"][1], "-p", str(process))


def test_a_debugger_sees_each_call_and_the_newest_names(tmp_path):
    needs_known_program()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    seen = gdb(
        f"set environment PYTHONPATH {PACKAGE.parent}",
        f"set args {program} {PACKAGE / 'libstacksplice.so.0'} always",
        "catch syscall exit_group",
        "run",
        "echo BEGIN\\n",
        "info functions ^early",
        "info functions ^late",
        script=None,
        arguments=(sys.executable,),
    )
    names = re.findall(r"^0x5353\w+ +(\w+) \(\S+/program.py:\d+\)$", part(seen), re.MULTILINE)
    assert names == ["early"]
