"""Lines of source in dumps: those of the files that the process read, and no others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import command, start
from test_core import core_of, read
from test_dump import dumped

pytestmark = pytest.mark.any_python

PROGRAM = """import sys


def rest():
    (lambda: sys.stdin.read())()
    password = "hunter2"


try:
    raise KeyError("é")
except KeyError:
    print(flush=True);   rest()
"""
SHOWN = ["    raise KeyError", "    print(flush=True);   rest()", "      (lambda: sys.stdin.read())()"]


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def process(program) -> Iterator[int]:
    with start(program.name, cwd=program.parent) as child:  # a name in the process's folder
        yield child.pid


def sources_of(process: int) -> dict[str, tuple[str | None, int | None]]:
    thread = dumped(process)["threads"][0]
    frames = [frame for frame in thread["stack"] if frame["kind"] == "script"]
    frames += thread["exceptions"][0]["stack"]
    return {
        f"{frame['function']} {frame['line']}": (frame.get("source"), frame.get("source_column"))
        for frame in frames
        if frame["file"].endswith("program.py")
    }


def test_each_script_frame_has_its_line(process):
    assert sources_of(process) == {
        "rest.<locals>.<lambda> 5": ("(lambda: sys.stdin.read())()", 5),
        "rest 5": ("(lambda: sys.stdin.read())()", 5),
        "<module> 12": ("print(flush=True);   rest()", 5),
        "<module> 10": ('raise KeyError("é")', 5),
    }
    text = command("dump", str(process)).stdout
    assert all(f"{line}\n" in text or f"{line}(" in text for line in SHOWN)


@pytest.mark.parametrize("change", ["written later", "gone", "a pipe", "too large", "shorter", "no text"])
def test_what_is_not_the_file_that_was_read(program, process, change):
    if change == "written later":
        os.utime(program, (time.time() + 60, time.time() + 60))
    else:
        program.unlink()
    if change == "a pipe":
        os.mkfifo(program)
    elif change == "too large":
        with program.open("wb") as file:
            file.truncate(1 << 30)
    elif change == "shorter":
        program.write_text("1\n")
    elif change == "no text":
        program.write_bytes(b"\xff\xfe\n" * 20)
    if change in ("too large", "shorter", "no text"):
        os.utime(program, (1e9, 1e9))
    assert set(sources_of(process).values()) == {(None, None)}


def test_core_files(tmp_path):
    core = core_of(sys.executable, "read", tmp_path)
    frames = [frame for frame in read(core)["threads"][0]["stack"] if frame["kind"] == "script"]
    sources = {frame["function"]: frame.get("source") for frame in frames}
    assert sources["crash"] == "ctypes.string_at(16)"
    assert sources["main"] == "ctypes.CDLL(None).qsort(numbers, 2, 4, COMPARE(crash))"
    os.utime(core, (1e9, 1e9))  # every file is newer
    assert not any("source" in frame for frame in read(core)["threads"][0]["stack"])
