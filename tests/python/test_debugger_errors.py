"""The commands `stacksplice errors` and `frame` of gdb and lldb: what dump says of the same process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from building import PACKAGE, Resting, command, start
from debugging import each_debugger, gdb, in_gdb, lldb
from test_core import copy_of
from test_dump import dumped
from test_dump_errors import PROGRAM_WITH_ERRORS

pytestmark = pytest.mark.any_python


@pytest.fixture(scope="module")
def failing() -> Iterator[int]:
    """A process whose threads have an error each."""
    with start(PROGRAM_WITH_ERRORS, "wait") as child:
        yield child.pid


PATH = str(PACKAGE.parent)


def errors_in(text: str) -> list[str]:
    """The report of each thread's error in TEXT, as far as debuggers and dump know the same symbols."""
    found = re.findall(
        r"^Current error of this thread:\n(.*?\n)(?=\n?thread |\(lldb\)|\[Inf|\Z)", text, re.M | re.S
    )
    without_glue = [re.sub(r".*glue frames? hidden\n", "", report).rstrip("\n") for report in found]
    # Debuggers show no source lines, for which they have commands of their own, and no marks below them.
    source = re.compile(r'^(\W*)(File ".*\n)\1  \S.*\n(?:\1  *[~^ ]+\n)?', re.MULTILINE)
    return sorted(source.sub(r"\1\2", report) for report in without_glue)


@each_debugger
def test_errors_are_those_of_dump(failing, debugger: Callable[..., str]):
    told = errors_in(command("dump", str(failing)).stdout)
    assert len(told) == 3 and "ExceptionGroup: inner" in told[0]
    seen = debugger(failing, "stacksplice errors")
    assert errors_in(seen) == told
    assert "hunter2" not in seen and "Thread.run" not in seen  # no secrets, and no stacks of threads


def test_errors_in_a_core_file(failing, tmp_path):
    core = copy_of(failing, tmp_path)
    told = errors_in(command("core", str(core)).stdout)
    program = str(Path(sys.executable).resolve())
    assert len(told) == 3
    seen = gdb("stacksplice errors", "echo thread ends\\n", arguments=(program, str(core)))
    assert errors_in(seen) == told
    assert errors_in(lldb(f"target create {program} --core {core}", "stacksplice errors")) == told


def line_of(frame: dict) -> str:
    trust = "" if frame["trust"] == "exact" else f" [{frame['trust']}]"
    return f'(Python) File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}{trust}'


@each_debugger
def test_frames_of_elements(failing, debugger: Callable[..., str]):
    frames = [frame for thread in dumped(failing)["threads"] for frame in thread["error"]["stack"]]
    scripts = [frame for frame in frames if frame["kind"] == "script"]
    seen = debugger(failing, *(f"stacksplice frame {frame['address']}" for frame in scripts))
    assert re.findall(r"^\(Python\) .*", seen, re.MULTILINE) == [line_of(frame) for frame in scripts]


@each_debugger
def test_a_process_that_knows_its_threads_by_other_numbers(debugger: Callable[..., str]):
    inside = ["unshare", "--fork", "--pid", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("this system gives no namespaces of process numbers")
    with Resting(*inside, sys.executable, PROGRAM_WITH_ERRORS, "wait", PYTHONPATH=PATH) as child:
        assert "1" in json.loads(child.line)
        process = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())
        assert len(errors_in(debugger(process, "stacksplice errors"))) == 3


@each_debugger
def test_an_element_that_is_missing_or_unknown(failing, debugger: Callable[..., str]):
    assert "frame does not belong to this process" in debugger(
        failing, "stacksplice frame 0x5353000012345678"
    )
    why = "stacksplice: an element of a stack is missing: stacksplice frame TOKEN"
    assert why in debugger(failing, "stacksplice frame")


COPIES = """
import ctypes, sys
for path in sys.argv[1:]:
    lib = ctypes.CDLL(path)
    lib.stacksplice_RoOriginateError(ctypes.c_int(-2147467259), None)
print(flush=True)
sys.stdin.read()
"""


def test_two_copies_of_the_library(tmp_path):
    own = str(PACKAGE / "libstacksplice.so.0")
    other = shutil.copy(own, tmp_path / "other.so")
    with start("-c", COPIES, own, str(other)) as child:
        seen = in_gdb(child.pid, "stacksplice errors")
    assert "note: the process has several copies of stacksplice: of a thread's errors, only that" in seen
    assert seen.count("HRESULT 0x80004005") == 1


def test_a_process_without_errors():
    with start("-c", "print(flush=True)\nimport sys; sys.stdin.read()") as child:
        assert "no thread has an error that stacksplice knows" in in_gdb(child.pid, "stacksplice errors")
