"""lldb's command `stacksplice`: it shows what dump and core do, as gdb's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from building import Resting, command
from debugging import begun, frames, gdb, lldb, needs_known_program, scripts_of
from test_core import copy_of

# test_debugger_*.py try lldb in each run of the tests; it takes seconds to start.
pytestmark = [pytest.mark.any_python, pytest.mark.long]


@pytest.fixture(scope="module", params=["process", "core"])
def target(request, tmp_path_factory):
    """How lldb is to begin, and what our own command says of the same."""
    with begun() as process:
        if request.param == "process":
            told = command("dump", "--all-frames", str(process)).stdout
            yield f"process attach --pid {process}", told
        else:
            needs_known_program()
            core = copy_of(process, tmp_path_factory.mktemp("core"))
            told = command("core", "--all-frames", str(core)).stdout
            yield f"target create {os.path.realpath(sys.executable)} --core {core}", told


def test_bt_shows_what_dump_and_core_do(target):
    begin, told = target
    seen = lldb(begin, "stacksplice bt -all-frames")
    assert len(frames(told)) > 20
    assert frames(seen) == frames(told)


def test_bt_hides_glue(target):
    begin, told = target
    seen = lldb(begin, "stacksplice bt all")
    assert scripts_of(seen) == scripts_of(told) and " glue frames hidden\n" in seen
    assert not re.search(r"^    \(C\) .*(lua_pcallk|_PyEval)", seen, re.MULTILINE)


@pytest.mark.parametrize("interpreter", ["/usr/bin/python3", sys.executable])
def test_a_core_file_without_the_pages_of_binaries(interpreter, tmp_path):
    """lldb takes them from the files, section by section."""
    needs_known_program()
    program = os.path.realpath(interpreter)
    if not os.path.exists(program):
        pytest.skip(f"no {program}")
    core = tmp_path / "core"
    with Resting(program, "-c", "def rest():\n print(flush=True)\n input()\nrest()") as child:
        gdb(f"gcore {core}", script=None, arguments=("-p", str(child.pid)))
    told = scripts_of(command("core", str(core)).stdout)
    assert len(told) == 2
    assert scripts_of(lldb(f"target create {program} --core {core}", "stacksplice bt")) == told


@pytest.mark.parametrize("numbers", ["those of this machine", "those of another"])
def test_a_process_behind_gdbserver(numbers):
    if shutil.which("gdbserver") is None:
        pytest.skip("gdbserver is not installed")
    needs_known_program()
    elsewhere = "import stacksplice_lldb as target; target._is_traced = lambda process: False"
    with begun() as process:
        told = scripts_of(command("dump", str(process)).stdout)
        server = subprocess.Popen(
            ["gdbserver", "--once", "--attach", "localhost:0", str(process)],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stderr is not None
            port = next(line.split()[-1] for line in server.stderr if line.startswith("Listening on port"))
            seen = lldb(
                f"target create {os.path.realpath(sys.executable)}",
                f"gdb-remote localhost:{port}",
                f"script {elsewhere if 'another' in numbers else 0}",
                "stacksplice bt",
                "detach",
            )
        finally:
            server.terminate()
            server.communicate()
    if "another" in numbers:  # gdbserver does not tell lldb where stacks are
        assert "note: this target does not say what is mapped: frames of scripts may be missing" in seen
        assert set(scripts_of(seen)) < set(told)
    else:
        assert scripts_of(seen) == told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "a command is missing, one of: bt, errors, frame"),
        ("bt every", "'every' is no option here; there are: all, -all-frames, -locals, -no-source"),
        (
            "bt",
            "no process and no core file here: begin with run, process attach, or target create --core FILE",
        ),
    ],
)
def test_errors_are_one_line_with_the_next_step(words, why):
    seen = lldb(f"stacksplice {words}")
    assert [line for line in seen.splitlines() if "stacksplice: " in line] == [f"error: stacksplice: {why}"]


def test_help():
    assert "bt prints the combined stack of the selected thread" in lldb("help stacksplice")
