"""``stacksplice dump``: what is read from outside is what the process knows of itself."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, PACKAGE, ROOT, Resting, command, compile_c, ran, start
from stacksplice import _stacksplice
from stacksplice._tools.dump.text import is_c_library, mark_start_up
from validating import validator

PROGRAM = PACKAGE / "stacksplice-inspect"
WAIT = "threads.<locals>.wait"  # of dump_any_program.py
PAGE = [["--html", "-"]] if importlib.util.find_spec("jinja2") else []
# What stacks of another process are compared by: one line has one column for each call on it.
FIELDS = ("kind", "language", "function", "file", "line", "module", "module_offset", "inlined", "interpreter")

if not PROGRAM.exists():
    pytest.skip("this machine's processes cannot be inspected", allow_module_level=True)
if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)


def may_trace() -> bool:
    """Whether the kernel lets a process trace its sibling: in some containers it does not."""
    child = subprocess.Popen([sys.executable, "-c", "import sys\nsys.stdin.read()"], stdin=subprocess.PIPE)
    done = subprocess.run([PROGRAM, "--pid", str(child.pid)], capture_output=True, text=True)
    child.kill()
    child.communicate()
    return "not permitted to trace" not in done.stderr


if not may_trace():
    pytest.skip("this system lets no process trace another one", allow_module_level=True)


@pytest.fixture(scope="module")
def resting() -> Iterator[tuple[int, dict]]:
    """A process whose threads rest, and the stacks that it has captured itself."""
    with start(HERE / "dump_any_program.py", "capture") as child:
        yield child.pid, json.loads(child.line)["captured"]


@pytest.fixture
def sleeping() -> Iterator[Resting]:
    with start("-c", "import sys\nprint(flush=True)\nsys.stdin.read()") as child:
        yield child


def dumped(process: int, *options: str) -> dict:
    document = json.loads(command("dump", "--json", *options, str(process)).stdout)
    if importlib.util.find_spec("jsonschema"):
        validator("dump-1").validate(document)
    return document


def rows_of(stack: list[dict]) -> list[tuple]:
    """What the frames of a process are compared by with those it captured itself."""
    rows = []
    for frame in stack:
        # The loader and the kernel may name a library by different links.
        frame = {**frame, "module": os.path.realpath(frame.get("module", "/"))}
        rows.append(tuple(frame.get(field) or None for field in FIELDS))
    return rows


def outside(stack: list[dict]) -> list[tuple]:
    """The frames outside of the innermost one called wait, and that one."""
    first = next(at for at, frame in enumerate(stack) if frame.get("function") == WAIT)
    return rows_of(stack[first:])


def locals_of(document: dict) -> dict[str, dict[str, str]]:
    """The variables of each frame of the first thread, by its function."""
    stack = document["threads"][0]["stack"]
    return {frame["function"]: frame["locals"] for frame in stack if "locals" in frame}


def test_stacks_are_those_that_the_threads_captured(resting):
    process, seen = resting
    document = dumped(process)
    assert document["notes"] == []
    assert document["process"]["id"] == process and document["process"]["stopped_microseconds"] > 0
    stacks = {thread["thread_id"]: thread["stack"] for thread in document["threads"]}
    assert len(stacks) == len(seen) + 1
    for name, own in seen.items():
        assert outside(stacks[own["thread_id"]]) == outside(own["stack"]), name
        assert not [frame for frame in stacks[own["thread_id"]] if frame["kind"] == "gap"], name


def test_several_processes(resting, sleeping):
    gone = subprocess.Popen(["true"])
    gone.wait()
    numbers = [resting[0], gone.pid, sleeping.pid]
    done = command("dump", "--json", *map(str, numbers), status=2)
    found = [json.loads(line)["process"]["id"] for line in done.stdout.splitlines()]
    assert found == [resting[0], sleeping.pid]
    assert done.stderr.count("\n") == 1 and str(gone.pid) in done.stderr
    text = command("dump", *map(str, found)).stdout
    assert [int(number) for number in re.findall(r"(?:^|\n\n)process (\d+), ", text)] == found
    for option in (("--html", "-"), ("--repeat", "1")):
        assert "name one PID" in command("dump", *option, *map(str, found), status=2).stderr


def test_names_of_threads_and_of_the_process(resting):
    process, _ = resting
    document = dumped(process)
    assert document["process"]["executable"] == os.readlink(f"/proc/{process}/exe")
    names = {thread["thread_id"]: thread["name"] for thread in document["threads"]}
    assert names == {task: Path(f"/proc/{process}/task/{task}/comm").read_text().strip() for task in names}


def test_text_has_the_newest_frame_last_and_hides_the_interpreter(resting):
    process, seen = resting
    text = command("dump", str(process)).stdout
    version = ".".join(map(str, sys.version_info[:3]))
    assert re.match(
        rf"process {process}, /\S+, paused for \d+\.\d ms\ncommand line: .*dump_any_program\.py capture\n"
        rf"Python {version}\S* \(/\S+\)\n\nthread {process} \(\S+, ",
        text,
    )
    part = next(part for part in text.split("\n\n") if f"thread {seen['mixed']['thread_id']} " in part)
    lines = [line for line in part.splitlines() if line.startswith("    (Python)")]
    functions = [line.rpartition(" in ")[2] for line in lines]
    assert functions.index("threads.<locals>.mixed") < functions.index(WAIT)
    name = "PyEval_EvalCode"  # exported, unlike what else of the interpreter calls itself
    assert name not in text and name in command("dump", "--all-frames", str(process)).stdout


def test_two_stacks_in_one_mapping():
    """As with the guard pages of newer C libraries; the older thread has the lower one."""
    program = """import ctypes, mmap, sys, threading
SIZE = 1 << 20
libc, stay, begun = ctypes.CDLL(None), threading.Event(), threading.Semaphore(0)
def low(_):
    begun.release()
    stay.wait()
def high(_):
    begun.release()
    stay.wait()
both = mmap.mmap(-1, 2 * SIZE)
lower = ctypes.addressof(ctypes.c_char.from_buffer(both))
routines = [ctypes.CFUNCTYPE(None, ctypes.c_void_p)(each) for each in (low, high)]
for number, routine in enumerate(routines):
    attributes, thread = (ctypes.c_char * 64)(), ctypes.c_ulong()
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstack(attributes, ctypes.c_void_p(lower + number * SIZE), ctypes.c_size_t(SIZE))
    assert libc.pthread_create(ctypes.byref(thread), attributes, routine, None) == 0
    begun.acquire()
print(flush=True)
sys.stdin.read()"""
    with start("-c", program) as child:
        stacks = [thread["stack"] for thread in dumped(child.pid)["threads"]]
    seen = [[frame["function"] for frame in stack if frame.get("file") == "<string>"] for stack in stacks]
    assert seen == [["<module>"], ["low"], ["high"]]
    assert not [frame for stack in stacks for frame in stack if frame["kind"] == "gap"]


def test_a_handler_on_another_stack():
    program = """import ctypes, mmap, signal, sys
SIZE = 1 << 18
libc, memory = ctypes.CDLL(None), mmap.mmap(-1, SIZE)
class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_char * 128), ("flags", ctypes.c_int),
                ("restorer", ctypes.c_void_p)]
def rest(number):
    print(flush=True)
    sys.stdin.read()
def interrupted():
    getattr(libc, "raise")(signal.SIGUSR1)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(rest)
stack = Stack(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 0, SIZE)
action = Action(handler=ctypes.cast(handler, ctypes.c_void_p).value, flags=0x08000000)  # SA_ONSTACK
assert libc.sigaltstack(ctypes.byref(stack), None) == 0
assert libc.sigaction(signal.SIGUSR1, ctypes.byref(action), None) == 0
interrupted()"""
    with start("-c", program) as child:
        (thread,) = dumped(child.pid)["threads"]
    seen = [frame["function"] for frame in thread["stack"] if frame.get("file") == "<string>"]
    assert seen == ["rest", "interrupted", "<module>"]
    assert not [frame for frame in thread["stack"] if frame["kind"] == "gap"]


def test_text_counts_equal_frames():
    program = """import sys
def fall(n):
    return fall(n - 1) if n else print(flush=True) or sys.stdin.read()
fall(500)"""
    with start("-c", program) as child:
        lines = command("dump", str(child.pid)).stdout.splitlines()
    frame = next(line for line in lines if line.endswith(" in fall"))
    at = lines.index(frame)
    assert lines[at : at + 4] == [frame] * 3 + ["    [Previous line repeated 498 more times]"]


# ---- Processes without stacksplice -----------------------------------------------------------------


def interpreters() -> Iterator[str]:
    """One program for each CPython from 3.11 on that this machine has."""
    folders = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    fetched = ROOT / "build" / "interpreters"
    names = [sys.executable, *map(str, Path("/usr/bin").glob("python3.1?"))]
    names += [str(path) for path in sorted(folders.glob("3.1[1-9].*/bin/python3"))]
    names += [str(path) for path in sorted(fetched.glob("python3.1?/usr/bin/python3.1?"))]
    question = "import sys; print(sys.version_info >= (3, 11), sys.version)"
    told = set()
    for name in names:
        done = subprocess.run([name, "-c", question], capture_output=True, text=True)
        if done.stdout.startswith("True") and done.stdout not in told:
            told.add(done.stdout)
            yield name


GREENLETS = """
import sys, greenlet
def inner():
    print(flush=True)
    sys.stdin.read()
def outer():
    greenlet.greenlet(inner).switch()
greenlet.greenlet(outer).switch()
"""


def test_a_greenlet_ends_at_its_own_base():
    pytest.importorskip("greenlet")
    with start("-c", GREENLETS) as child:
        (thread,) = dumped(child.pid)["threads"]
    stack = thread["stack"]
    assert [frame["function"] for frame in stack if frame["kind"] == "script"] == ["inner"]
    assert stack[-1]["reason"] == "end of this greenlet's own stack"
    assert [frame["kind"] for frame in stack].count("gap") == 1


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_process_goes_on_as_it_was(sleeping):
    dumped(sleeping.pid)
    assert state_of(sleeping.pid) == "S"
    sleeping.send_signal(signal.SIGSTOP)
    while state_of(sleeping.pid) != "T":
        pass
    stack = dumped(sleeping.pid)["threads"][0]["stack"]
    assert "<module>" in [frame.get("function") for frame in stack]
    assert state_of(sleeping.pid) == "T"
    sleeping.send_signal(signal.SIGCONT)
    assert sleeping.communicate("", timeout=60)[0] == "" and sleeping.returncode == 0


def test_a_thread_that_cannot_be_stopped_is_let_go(tmp_path):
    """It would stop as soon as it can, for a reader that has other things to do by then."""
    program = compile_c(tmp_path / "held", [HERE / "held_program.c"], "-pthread")
    child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    reader = None
    try:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "held\n"
        # What it writes does not fit in, so that it waits.
        reader = subprocess.Popen([PROGRAM, "--pid", str(child.pid)], stdout=subprocess.PIPE, pipesize=4096)
        assert reader.stdout is not None
        begin = reader.stdout.read(1)  # nobody takes the rest now
        child.stdin.write("\n")
        child.stdin.close()
        assert select.select([child.stdout], [], [], 60)[0]
        assert child.stdout.readline() == "on\n" and reader.poll() is None
        written = begin + reader.stdout.read()
        assert len(written) > 3 * 4096
        document = json.loads(written)
    finally:
        for process in filter(None, (reader, child)):
            process.kill()
            process.wait()
    reasons = [thread["stack"][0].get("reason") for thread in document["threads"]]
    assert "thread waits in the kernel and cannot be stopped" in reasons


def test_a_process_with_more_binaries_than_files_may_be_open(resting):
    """Each is open while stacks are unwound; a shell's usual limit is 1024."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    process, _ = resting
    done = subprocess.run(
        [PROGRAM, "--pid", str(process)], stdout=subprocess.PIPE, check=True, preexec_fn=limit
    )
    assert json.loads(done.stdout)["notes"] == []


def test_a_process_whose_first_thread_has_ended():
    """The kernel then shows its memory and files under the numbers of other threads only."""
    with start("-c", LEFT) as child:
        while state_of(child.pid) != "Z":
            pass
        document = dumped(child.pid)
    assert document["process"]["executable"] == os.readlink("/proc/self/exe") and document["notes"] == []
    (thread,) = document["threads"]
    assert "rest" in [frame["function"] for frame in thread["stack"] if frame["kind"] == "script"]
    assert any(frame["module"].endswith("/libc.so.6") for frame in thread["stack"] if "module" in frame)


LEFT = """
import ctypes, sys, threading
def rest():
    print(flush=True)
    sys.stdin.read()
threading.Thread(target=rest).start()
ctypes.CDLL(None).pthread_exit(None)
"""

CLOCK = """
#include <stdio.h>
#include <time.h>
int main(void)
{
    struct timespec now;
    puts("");
    fflush(stdout);
    for (;;)
        clock_gettime(CLOCK_MONOTONIC, &now);
}
"""


def test_code_of_the_kernel_in_a_process(tmp_path):
    """It has no file, and is unwound when the process runs again."""
    (tmp_path / "clock.c").write_text(CLOCK)
    program = compile_c(tmp_path / "clock", [tmp_path / "clock.c"])
    with Resting(program) as child:
        for _ in range(20):
            (thread,) = dumped(child.pid)["threads"]
            assert "main" in [frame.get("function") for frame in thread["stack"]]
            assert all(frame["trust"] == "exact" and frame["kind"] == "native" for frame in thread["stack"])


DEEP = """
#include <unistd.h>
static int __attribute__((noinline)) deep(int levels)
{
    int below = levels ? deep(levels - 1) : (int)write(1, "\\n", 1) + pause();
    __asm__ volatile("" : "+r"(below));
    return below;
}
int main(void) { return deep(100000); }
"""


def test_both_ends_of_a_very_long_stack(tmp_path):
    (tmp_path / "deep.c").write_text(DEEP)
    with Resting(compile_c(tmp_path / "deep", [tmp_path / "deep.c"])) as child:
        shown = ran(PROGRAM, "--pid", child.pid).stdout
    stack = json.loads(shown)["threads"][0]["stack"]
    middle = 1 << 14
    assert [at for at, frame in enumerate(stack) if frame["kind"] == "gap"] == [middle]
    left_out = re.fullmatch(
        r"(\d+) frames omitted here: stack longer than the limit", stack[middle]["reason"]
    )
    assert len(stack) == 2 * middle + 1
    # Around the recursion: pause() inside, main() and what called it outside.
    assert 100_001 < int(left_out[1]) + 2 * middle < 100_020
    assert len({frame["module"] for frame in stack[-5:]}) == 2


BUSY = """
import threading
def inner(n):
    return [inner(n - 1) for _ in range(2)] if n else {}
def run():
    while True:
        exec("def made(n):\\n    return inner(n)\\nmade(5)", {"inner": inner})
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
print(flush=True)
run()
"""


def test_a_process_that_never_rests():
    with start("-c", BUSY) as child:
        for _ in range(20):
            done = subprocess.run([PROGRAM, "--pid", str(child.pid)], stdout=subprocess.PIPE, check=True)
            document = json.loads(done.stdout)
            assert document["notes"] == []
            for thread in document["threads"]:
                frames = [frame for frame in thread["stack"] if frame["kind"] == "script"]
                assert frames[-1]["function"] in ("<module>", "Thread._bootstrap")


# ---- What cannot be inspected --------------------------------------------------------------------


def refused(process: int) -> str:
    done = command("dump", str(process), status=2)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr.removeprefix("stacksplice: ").rstrip()


def test_no_process():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert refused(child.pid) == f"there is no process {child.pid}: ps lists those that run"


def test_a_dead_process_whose_parent_does_not_ask():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert refused(child.pid) == (
        f"process {child.pid} has ended: only its parent has not asked for its status"
    )
    child.wait()


def test_a_thread_of_the_kernel():
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            if "State:\tZ" not in text and "VmLck:" not in text:
                process = int(status.parent.name)
                reason = f"process {process} is a thread of the kernel, which runs no program"
                assert refused(process) == reason
                return
    pytest.skip("this system shows none of its kernel's threads")


def test_a_process_that_is_traced_already(sleeping):
    seize, detach = 0x4206, 17
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(seize, sleeping.pid, None, None) == 0
    try:
        assert refused(sleeping.pid) == (
            f"process {sleeping.pid} is traced by process {os.getpid()} already: end that debugger first"
        )
    finally:
        os.kill(sleeping.pid, signal.SIGSTOP)
        os.waitpid(sleeping.pid, 0x40000000)
        assert libc.ptrace(detach, sleeping.pid, None, None) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user(sleeping):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy2(PROGRAM, folder)
        done = subprocess.run(
            [program, "--pid", str(sleeping.pid)], capture_output=True, text=True, user=65534
        )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"not permitted to trace process {sleeping.pid}: ")
    assert "sudo" in done.stderr


@pytest.mark.parametrize("argument", ["0", "-1", "x", "99999999999"])
def test_no_number_of_a_process(argument):
    done = command("dump", "--", argument, status=2)
    assert done.stderr.splitlines()[-1] != ""


def test_no_secret_is_shown(tmp_path):
    script = tmp_path / "password=hunter2" / "x.py"
    script.parent.mkdir()
    script.write_text("import sys\nprint(flush=True)\nsys.stdin.read()\n")
    with start(str(script)) as child:
        shown = [command("dump", *form, str(child.pid)).stdout for form in ([], ["--json"])]
    for text in shown:
        assert "hunter2" not in text and "password=[redacted: password]" in text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("libc.so.6 libm.so.6 libpthread.so.0 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1", True),
        ("libc-2.31.so libpthread-2.31.so ld-2.31.so", True),
        ("ld-musl-x86_64.so.1 libc.so", True),
        ("libc-client.so.2007e.0 libcurl.so.4 libm.so libclang.so.1 ld libstdc++.so.6 python3", False),
    ],
)
def test_what_the_c_library_is(names, expected):
    for name in names.split():
        for path in (f"/lib/{name}", f"/snap/core/usr/lib/{name} (deleted)"):
            assert is_c_library(path) is expected, path


def test_lines_of_the_c_library_only_on_request(resting):
    process, _ = resting
    everything = command("dump", "--all-frames", str(process)).stdout
    if not re.search(r'\(C\) File ".*libc\.so\.6\)', everything):
        pytest.skip("this machine has no debug information of its C library")
    lines = [line for line in command("dump", str(process)).stdout.splitlines() if "/libc.so.6)" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r"    \(C\) [\w.]+\+0x[0-9a-f]+ \(/[^ ]+/libc\.so\.6\)", line)


def test_start_up_without_symbols():
    """What calls main in a C library without symbols is glue, as where it has its name."""
    sleep = {"function": "clock_nanosleep", "module": "/lib/libc.so.6"}
    inside = {"module": "/lib/libc.so.6"}
    program = {"module": "/srv/shop"}
    named = {"function": "_start", "module": "/srv/shop", "glue": True}

    def hidden(*stack):
        stack = [dict(frame) for frame in stack]
        mark_start_up(stack)
        return [frame.get("glue", False) for frame in stack]

    assert hidden(sleep, program, inside, named) == [False, False, True, True]
    assert hidden(sleep, program, inside, inside, program) == [False, False, True, True, True]
    assert hidden(sleep, inside, program, program) == [False] * 4
    assert hidden(inside, inside) == [False, True]
    assert hidden({"kind": "gap"}, sleep) == [False, False]


# A process that waits in one call of the C library and prints what it returned.
WAITING = """
import ctypes, errno, os, select, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
here, there = socket.socketpair()
here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))
epoll = select.epoll()
epoll.register(0, select.EPOLLIN)
room, usr1 = ctypes.create_string_buffer(64), (1 << 9).to_bytes(128, "little")
one = struct.pack("ihh", 0, select.POLLIN, 0)
waits = {
    "poll": lambda: libc.poll(one, 1, -1),
    "poll with a limit": lambda: libc.poll(one, 1, 60_000),
    "select": lambda: libc.select(1, ctypes.create_string_buffer(bytes([1]), 128), None, None, None),
    "read": lambda: libc.read(0, room, 1),
    "usleep": lambda: libc.usleep(6_000_000),
    "sleep": lambda: libc.sleep(6),
    "epoll_wait": lambda: libc.epoll_wait(epoll.fileno(), room, 1, -1),
    "sigtimedwait": lambda: libc.sigtimedwait(usr1, None, struct.pack("ll", 60, 0)),
    "recv": lambda: libc.recv(here.fileno(), room, 1, 0),
}
print(flush=True)
result = waits[sys.argv[1]]()
print(result, errno.errorcode.get(ctypes.get_errno(), "-") if result < 0 else "-")
"""


@pytest.mark.parametrize(
    ("wait", "ended"),
    [
        ("poll", "1 -"),
        ("poll with a limit", "1 -"),
        ("select", "1 -"),
        ("read", "1 -"),
        ("usleep", "0 -"),
        ("sleep", "0 -"),
        ("epoll_wait", "-1 EINTR"),
        ("sigtimedwait", "-1 EINTR"),
        ("recv", "-1 EINTR"),
    ],
)
def test_which_waits_end(wait: str, ended: str) -> None:
    """Those that docs/how-to/running-processes.md names."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING, wait], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "\n"
        calls = Path(f"/proc/{child.pid}/syscall")
        while "running" in calls.read_text():
            time.sleep(0.01)
        time.sleep(0.05)
        dumped(child.pid)
        out, _ = child.communicate("x\n")
    assert out == f"{ended}\n"
