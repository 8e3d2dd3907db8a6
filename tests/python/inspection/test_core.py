"""``stacksplice core``: a core file shows what the process knew; damaged ones do no harm."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, Resting, command, start
from html_pages import Page
from test_dump import PROGRAM, outside
from test_dump import interpreters as all_interpreters

CRASH = """
import ctypes, os, sys, threading

def resting(value):
    ready.set()
    threading.Event().wait()

def other():
    sorted([1], key=resting)

def crash(left, right):
    if sys.argv[1] == "abort":
        os.abort()
    elif sys.argv[1] == "call":
        ctypes.CFUNCTYPE(None)(16)()
    else:
        ctypes.string_at(16)

def main():
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, 4, COMPARE(crash))

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ready = threading.Event()
threading.Thread(target=other, daemon=True).start()
ready.wait()
main()
"""


def core_of(interpreter: str, how: str, folder: Path, script: str = CRASH, **variables: str) -> Path:
    """The core file of a process of INTERPRETER that crashes."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip("this system does not put core files where the process is")
    limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    (folder / "crash.py").write_text(script)
    done = subprocess.run(
        [interpreter, "crash.py", how],
        cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limit),
        env={**{name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}, **variables},
        stdout=subprocess.DEVNULL,
    )
    assert done.returncode < 0 or done.returncode > 128
    (found,) = folder.glob("*core*")
    return found


def read(core: Path, *arguments: str) -> dict:
    return json.loads(command("core", "--json", *arguments, str(core)).stdout)


def functions(thread: dict) -> list[str]:
    return [frame["function"] for frame in thread["stack"] if frame["kind"] == "script"]


@pytest.mark.parametrize("interpreter", list(all_interpreters()))
def test_every_version(interpreter, tmp_path):
    document = read(core_of(interpreter, "abort", tmp_path))
    assert document["notes"] == [] and document["process"]["signal"] == 6
    assert document["process"]["sender"] == {"process": document["process"]["id"], "user": os.getuid()}
    crashed, other = document["threads"]
    assert functions(crashed) == ["crash", "main", "<module>"]
    assert functions(other)[-6:-3] == ["resting", "other", "Thread.run"] or "resting" in functions(other)
    natives = [frame for frame in crashed["stack"] if frame["kind"] == "native"]
    assert any("qsort" in frame.get("function", "") for frame in natives) or not any(
        "function" in frame for frame in natives if "libc.so" in frame["module"]
    )
    assert all(frame["trust"] == "exact" for frame in crashed["stack"])


def test_a_call_of_what_is_no_code(tmp_path):
    document = read(core_of(sys.executable, "call", tmp_path))
    crashed = document["threads"][0]
    assert document["process"]["signal"] == 11 and document["process"]["fault_address"] == "0x10"
    assert crashed["stack"][0]["address"] == "0x10" and "module" not in crashed["stack"][0]
    assert functions(crashed) == ["crash", "main", "<module>"]
    assert "gap" not in [frame["kind"] for frame in crashed["stack"]]


def test_text_and_page(tmp_path):
    core = core_of(sys.executable, "read", tmp_path)
    lines = command("core", str(core)).stdout.splitlines()
    assert lines[0].endswith(", ended by signal 11 (SIGSEGV) at address 0x10")
    assert lines[1].startswith("command line: ")
    assert lines[2].startswith("Python ") and lines[3] == ""
    assert lines[4].startswith("thread ") and lines[4].endswith(", which got the signal")
    scripts = [line.rpartition(" in ")[2] for line in lines[5:] if "(Python)" in line]
    assert scripts[:2] == ["<module>", "main"]
    assert not any("??? (libpython" in line or "??? (python" in line for line in lines)
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    page = Page(command("core", "--html", "-", str(core)).stdout)
    assert page.texts("h1")[0] == lines[0]
    assert page.texts("h3")[0].endswith(", which got the signal")
    assert [name for name in page.texts("span", "function") if name in scripts[:2]][:2] == scripts[:2]


def copy_of(process: int, folder: Path) -> Path:
    """A core file of a process that goes on, made by gdb."""
    if shutil.which("gcore") is None:
        pytest.skip("no gcore")
    done = subprocess.run(["gcore", "-o", folder / "core", str(process)], capture_output=True, text=True)
    path = folder / f"core.{process}"
    assert path.exists(), done.stdout + done.stderr
    failed = re.findall(r"Memory read failed for corefile section, (\d+) bytes", done.stdout + done.stderr)
    if any(int(size) > 65536 for size in failed):  # others are the kernel's
        pytest.skip("this gdb cannot copy stacks whose guard pages are in the same mapping")
    return path


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Iterator[tuple[Path, dict]]:
    """A core file of a process that rests, and the stacks that it captured itself."""
    with start(HERE / "dump_any_program.py", "capture") as child:
        yield copy_of(child.pid, tmp_path_factory.mktemp("core")), json.loads(child.line)["captured"]


def test_stacks_are_those_that_the_threads_captured(copied):
    core, seen = copied
    document = read(core)
    stacks = {thread["thread_id"]: thread["stack"] for thread in document["threads"]}
    for name, own in seen.items():
        assert outside(stacks[own["thread_id"]]) == outside(own["stack"]), name


def test_files_are_found_by_root_and_program(copied, tmp_path):
    core, _ = copied
    document = read(core)
    program = document["process"]["executable"]
    alone = shutil.copy(program, tmp_path / "program")
    assert read(core, "--exe", str(alone))["threads"] == document["threads"]
    # Where no file of the process is, nothing can be followed: that is said.
    nothing = read(core, "--root", str(tmp_path))
    assert any("binaries of the process were not found here" in note for note in nothing["notes"])
    assert all(any(frame["kind"] == "gap" for frame in thread["stack"]) for thread in nothing["threads"])


@pytest.mark.parametrize("what", ["dump", "core"])
def test_a_program_that_was_deleted_since(tmp_path, monkeypatch, what):
    """The kernel's name of its file ends in " (deleted)".  A core needs a copy; --root can be relative."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, program = tmp_path / "resting.c", tmp_path / "bin" / "resting"
    source.write_text(
        '#include <stdio.h>\nint main(void)\n{\n puts("");\n fflush(stdout);\n return getchar();\n}\n'
    )
    program.parent.mkdir()
    subprocess.run(["cc", "-g", "-static", source, "-o", program], check=True)
    kept = Path(f"{tmp_path}/root{program}")
    kept.parent.mkdir(parents=True)
    with Resting(program) as child:
        shutil.copy(program, kept)
        program.unlink()
        if what == "dump":
            document = json.loads(command("dump", "--json", str(child.pid)).stdout)
        else:
            monkeypatch.chdir(tmp_path)
            document = read(copy_of(child.pid, tmp_path), "--root", "root")
    (thread,) = document["threads"]
    main = next(frame for frame in thread["stack"] if frame.get("function") == "main")
    assert (main["file"], main["line"]) == (str(source), 6)


def test_a_file_with_another_build_id_is_not_used(copied, tmp_path):
    core, _ = copied
    module = next(
        frame
        for thread in read(core)["threads"]
        for frame in thread["stack"]
        if "libc.so" in frame.get("module", "") and "build_id" in frame
    )
    wrong = tmp_path / module["module"].lstrip("/")
    wrong.parent.mkdir(parents=True)
    data = Path(module["module"]).read_bytes()
    build_id = bytes.fromhex(module["build_id"])
    assert data.count(build_id) == 1
    wrong.write_bytes(data.replace(build_id, bytes(len(build_id))))
    stacks = [thread["stack"] for thread in read(core, "--root", str(tmp_path))["threads"]]
    frames = [frame for stack in stacks for frame in stack if frame.get("module") == module["module"]]
    assert frames and all(frame["build_id"] == module["build_id"] for frame in frames)
    assert all(any(frame["kind"] == "gap" for frame in stack) for stack in stacks)


# ---- What is no core file, or damaged ------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty, or no file"),
        (b"\x7fELF", "is not a core file"),
        (b"#!/bin/sh\n", "is not a core file"),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "is compressed: unpack it first (coredumpctl dump does)"),
        (None, "is a program or library, not a core file: name its core first, and the program as --exe"),
    ],
)
def test_no_core_file(content, why, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(PROGRAM.read_bytes() if content is None else content)
    done = command("core", str(path), status=2)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.rstrip().endswith(why)


def test_nothing_there(tmp_path):
    assert "No such file" in command("core", str(tmp_path / "none"), status=2).stderr
    done = command("core", "--exe", str(tmp_path / "none"), str(PROGRAM), status=2)
    assert done.stderr == f"stacksplice: --exe: {tmp_path / 'none'} does not exist\n"


def inspected(core: Path, *arguments: str) -> dict | None:
    done = subprocess.run([PROGRAM, "--core", core, *arguments], capture_output=True, timeout=60)
    assert done.returncode in (0, 2), f"status {done.returncode}: {done.stderr!r}"
    assert (done.returncode == 2) == bool(done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else None


@pytest.mark.parametrize("quarters", [(2,), pytest.param((1, 3), marks=pytest.mark.long)])
def test_cut_files(copied, tmp_path, quarters):
    data = copied[0].read_bytes()
    whole = {thread["thread_id"]: len(thread["stack"]) for thread in read(copied[0])["threads"]}
    cut = tmp_path / "cut"
    for part in (1, 64, 1000, 4096, 20000, *(len(data) * quarter // 4 for quarter in quarters)):
        cut.write_bytes(data[:part])
        document = inspected(cut)
        if document is None:
            continue
        assert any("the core file is cut" in note for note in document["notes"]), part
        for thread in document["threads"]:
            # A stack that lacks callers says so.
            kinds = [frame["kind"] for frame in thread["stack"]]
            assert "gap" in kinds or len(kinds) == whole[thread["thread_id"]], part


def test_segments_that_have_the_same_notes(tmp_path):
    """A small file could name its threads again and again, millions in all."""
    count, threads = 60000, 1000
    status = struct.pack("<III8s", 5, 336, 1, b"CORE") + bytes(336)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0
    )
    notes = struct.pack("<IIQQQQQQ", 4, 0, 64 + 56 * count, 0, 0, threads * len(status), 0, 4)
    (tmp_path / "core").write_bytes(header + notes * count + status * threads)
    document = inspected(tmp_path / "core")
    assert document is not None and threads <= len(document["threads"]) < 20 * threads


def damage(core: Path, tmp_path: Path, seed: int, *arguments: str, near: bytes = b"", reach: int = 0) -> None:
    """Read CORE again and again, each time with other words, anywhere or within REACH of what NEAR finds."""
    data = core.read_bytes()
    chance = random.Random(seed)
    around = [found.start() for found in re.finditer(near, data)] if near else []
    assert len(around) > 4 or not near
    path = tmp_path / "damaged"
    path.write_bytes(data)
    for limit in (4096, 65536, len(data), len(data)) * 3:
        places = [chance.randrange(limit - 8) for _ in range(chance.choice((1, 4, 30, 1000)))]
        if near:
            places = [chance.choice(around) + chance.randrange(-reach, reach) for _ in places]
            places = [min(max(place, 64), len(data) - 8) & ~7 for place in places]
        with path.open("r+b") as file:
            for place in places:
                file.seek(place)
                other = data[place - 64 : place - 56]  # a pointer that leads elsewhere
                file.write(chance.choice((bytes(8), b"\xff" * 8, other, bytes([chance.randrange(256)]))))
        inspected(path, *arguments)
        with path.open("r+b") as file:
            for place in places:
                file.seek(place)
                file.write(data[place : place + 8])
    assert inspected(path, *arguments) == inspected(core, *arguments)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_damaged_files(copied, tmp_path, seed):
    damage(copied[0], tmp_path, seed)
