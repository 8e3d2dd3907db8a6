"""``dump``, ``core`` and the debuggers read files only as the process could, whoever runs them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import command, start
from debugging import gdb, lldb
from test_core import core_of, read
from test_dump import dumped

pytestmark = pytest.mark.any_python

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may read what others may not")

# Runs as nobody; each of its frames names another file as its own.
PROGRAM = f"""import os, sys
root, *names = sys.argv[1:]
if root:
    os.chroot(root)
    os.chdir("/")
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})

def rest():
    print(flush=True)
    sys.stdin.read()

call = rest
for name in names:
    scope = {{"call": call}}
    exec(compile("def frame(): call()\\n", name, "exec"), scope)
    call = scope["frame"]
call()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder).resolve()


def old(path: Path, text: str, mode: int = 0o644, group: int = 0) -> Path:
    """A file that no process has changed since it began."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{text}\n")
    os.chown(path, 0, group)
    path.chmod(mode)
    os.utime(path, (1, 1))
    return path


def sources_of(document: dict) -> dict[str, str | None]:
    return {
        frame["file"]: frame.get("source")
        for frame in document["threads"][0]["stack"]
        if frame.get("function") == "frame"
    }


@needs_root
def test_only_what_the_process_may_read_is_shown(place):
    seen = {
        old(place / "open.py", "OPEN 1"): "OPEN 1",
        old(place / "own group.py", "OPEN 2", 0o640, NOBODY): "OPEN 2",
        old(place / "shadow", "SECRET", 0o600): None,
        old(place / "other group", "SECRET", 0o640, 4): None,
        old(place / "closed" / "inside.py", "SECRET"): None,
        place / "link": None,
        place / "to open.py": "OPEN 1",
        place / "pipe": None,
        Path("/proc/1/cmdline"): None,
        Path("/dev/stdin"): None,
    }
    (place / "closed").chmod(0o700)
    (place / "link").symlink_to("shadow")
    os.mkfifo(place / "pipe")
    (place / "to open.py").symlink_to(place / "open.py")
    with start("-c", PROGRAM, "", *seen) as child:
        document = dumped(child.pid)
        assert sources_of(document) == {str(path): source for path, source in seen.items()}
        (note,) = document["notes"]
        assert note.startswith("not read, because the process may not: ") and "inside.py" in note
        process = str(child.pid)
        shown = {
            "text": command("dump", process).stdout,
            "html": command("dump", "--html", "-", process).stdout,
            "gdb": gdb("stacksplice bt", arguments=("-p", process)),
            "lldb": lldb(f"process attach -p {process}", "stacksplice bt"),
        }
        without = command("dump", "--no-source", process).stdout
        without += gdb("stacksplice bt -no-source", arguments=("-p", process))
    for name, text in shown.items():
        assert "OPEN" in text, (name, text)
        assert "SECRET" not in text, (name, text)
    assert "OPEN" not in without


@needs_root
def test_no_link_leads_out_of_the_root_of_the_process(place):
    outside = old(place / "outside.py", "OUTSIDE")
    root = place / "root"
    old(root / "open.py", "OPEN")
    (root / "there.py").symlink_to("/open.py")
    (root / "absolute.py").symlink_to(outside)
    (root / "up.py").symlink_to(f"../../../../../../../..{outside}")
    (root / "folder").symlink_to(place)
    (root / "circle").symlink_to("circle")
    names = {
        "/open.py": "OPEN",
        "/there.py": "OPEN",
        "/../../open.py": "OPEN",
        "/absolute.py": None,
        "/up.py": None,
        f"/../../../../../..{outside}": None,
        "/folder/outside.py": None,
        "/circle": None,
    }
    with start("-c", PROGRAM, root, *names) as child:
        document = dumped(child.pid)
    assert sources_of(document) == names
    assert not document["notes"]


# A name whose characters lie in the mapping of a file, which the kernel leaves out of core files.
MAPPED = """import ctypes, mmap, os, sys
libc, page = ctypes.CDLL(None), mmap.PAGESIZE
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
low = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
assert libc.mmap(low + page, page, 1, 0x12, os.open(sys.argv[1], os.O_RDONLY), 0) == low + page
text = "".join(["x"] * 24)
header = sys.getsizeof(text) - len(text) - 1
ctypes.memmove(low + page - header, id(text), header)
name = ctypes.cast(low + page - header, ctypes.py_object).value
def crash():
    ctypes.string_at(16)
crash.__code__ = crash.__code__.replace(co_name=name, co_qualname=name)
crash()
"""


def test_a_core_file_shows_no_bytes_of_files_that_are_no_binaries(tmp_path):
    mapped = tmp_path / "mapped"
    mapped.write_text("A NAME THAT IS MAPPED.. " * 10)
    core = core_of(sys.executable, str(mapped), tmp_path, MAPPED)
    mapped.write_text("SECRET " * 40)
    (frame,) = [
        frame for frame in read(core)["threads"][0]["stack"] if frame.get("source") == "ctypes.string_at(16)"
    ]
    assert "SECRET" not in json.dumps(frame)


@needs_root
def test_a_core_file_of_root_shows_what_all_may_read(tmp_path):
    core = core_of(sys.executable, "read", tmp_path)
    script = tmp_path / "crash.py"

    def source() -> str | None:
        frames = read(core)["threads"][0]["stack"]
        return next(frame.get("source") for frame in frames if frame.get("function") == "crash")

    assert source() == "ctypes.string_at(16)"
    assert "string_at(16)" not in command("core", "--no-source", str(core)).stdout
    script.chmod(0o600)
    assert source() is None
    os.chown(script, NOBODY, NOBODY)
    os.chown(core, NOBODY, NOBODY)  # it claims to be root's
    assert source() is None


# ---- Lines ---------------------------------------------------------------------------------------


RESTING = """import sys


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
    path.write_text(RESTING)
    return path


@pytest.fixture
def process(program) -> Iterator[int]:
    with start(program.name, cwd=program.parent) as child:  # a name in the process's folder
        yield child.pid


def lines_of(process: int) -> dict[str, tuple[str | None, int | None]]:
    thread = dumped(process)["threads"][0]
    frames = [frame for frame in thread["stack"] if frame["kind"] == "script"]
    frames += thread["exceptions"][0]["stack"]
    return {
        f"{frame['function']} {frame['line']}": (frame.get("source"), frame.get("source_column"))
        for frame in frames
        if frame["file"].endswith("program.py")
    }


def test_each_script_frame_has_its_line(process):
    assert lines_of(process) == {
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
    assert set(lines_of(process).values()) == {(None, None)}
    told = {"written later": "it was changed since", "too large": "it has more than 16 MB"}.get(change)
    text = command("dump", str(process)).stdout
    assert f"not read, because {told}: {program}" in text if told else "it has more" not in text


@pytest.mark.parametrize("by", ["a file that was moved there", "a file that was written there"])
def test_no_line_of_a_file_that_was_replaced_by_an_older_one(program, process, by):
    other = program.read_text().replace("(lambda:", "(lambda other=1:")
    time.sleep(2.5)  # when a process began is known to a second, and files of its start are its own
    if by == "a file that was written there":  # as rsync and tar do
        program.unlink()
        program.write_text(other)
        os.utime(program, (1e9, 1e9))
    else:  # it is as old as it says
        older = program.with_name("older.py")
        older.write_text(other)
        os.utime(older, (1e9, 1e9))
        os.replace(older, program)
    assert set(lines_of(process).values()) == {(None, None)}
    assert f"not read, because it was changed since: {program}" in command("dump", str(process)).stdout


def test_core_files(tmp_path):
    core = core_of(sys.executable, "read", tmp_path)
    frames = [frame for frame in read(core)["threads"][0]["stack"] if frame["kind"] == "script"]
    sources = {frame["function"]: frame.get("source") for frame in frames}
    assert sources["crash"] == "ctypes.string_at(16)"
    assert sources["main"] == "ctypes.CDLL(None).qsort(numbers, 2, 4, COMPARE(crash))"
    os.utime(core, (1e9, 1e9))  # every file is newer
    assert not any("source" in frame for frame in read(core)["threads"][0]["stack"])
