"""Crashes of Python programs: each report has the stack that the program knew right before."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from building import PACKAGE

BEGIN = """
import ctypes, faulthandler, gc, json, mmap, os, signal, sys, tempfile, threading, time
import stacksplice
libc = ctypes.CDLL(None)

def log():
    frames = [(f.language, f.function) for f in stacksplice.capture() if f.kind == "script"]
    print(json.dumps([f for f in frames if f[1] != "log"]), flush=True)

def segv(): log(); ctypes.memset(8, 0, 1)
def bus():
    with tempfile.TemporaryFile() as file:
        file.truncate(1)
        mapped = mmap.mmap(file.fileno(), 1)
        file.truncate(0)
        log(); mapped[0]
def fpe(): log(); signal.raise_signal(signal.SIGFPE)
def ill(): log(); signal.raise_signal(signal.SIGILL)
def sys_(): log(); signal.raise_signal(signal.SIGSYS)
def abort(): log(); os.abort()
def fatal(): log(); ctypes.pythonapi.Py_FatalError(b"it is over")
def overflow(): log(); faulthandler._stack_overflow()

def crash(): globals()[sys.argv[1]]()

def main(): crash()
def thread():
    runner = threading.Thread(target=crash)
    runner.start()
    runner.join()
def child():
    pid = os.fork()
    if pid == 0:
        crash()
    status = os.waitpid(pid, 0)[1]
    stacksplice.uninstall()
    os.kill(os.getpid(), os.WTERMSIG(status))
def callback():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(a, b):
        crash()
        return 0
    libc.qsort((ctypes.c_int * 2)(2, 1), 2, 4, kind(compare))
class Finalized:
    def __del__(self): crash()
def collection():
    cycle = Finalized()
    cycle.self = cycle
    del cycle
    gc.collect()
def lua():
    import lupa.lua54
    runtime = lupa.lua54.LuaRuntime()
    runtime.execute("function price(f) local p = f() return p end", name="@rules.lua")
    runtime.globals().price(crash)
"""
SIGNALS = {
    "segv": signal.SIGSEGV,
    "bus": signal.SIGBUS,
    "fpe": signal.SIGFPE,
    "ill": signal.SIGILL,
    "abort": signal.SIGABRT,
    "sys_": signal.SIGSYS,
    "fatal": signal.SIGABRT,
    "overflow": signal.SIGSEGV,
}
# A sanitizer's handlers would end the process in their own way.
NO_HANDLERS = ":".join(f"handle_{name}=0" for name in ("segv", "sigbus", "sigfpe", "sigill", "abort"))
PLACES = ["main", "thread", "child", "callback", "collection", "lua"]
HOW = "stacksplice.install(crash=True)\nglobals()[sys.argv[2]]()\n"


class Run:
    """A program that crashes: what it said, and its reports."""

    def __init__(self, folder, source, *arguments, command=("-c",)):
        files = folder / "reports"
        files.mkdir(exist_ok=True)
        self.done = subprocess.run(
            [sys.executable, *command, source, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            env={
                **os.environ,
                "NO_COLOR": "1",
                "PYTHONPATH": str(PACKAGE.parent),
                "STACKSPLICE_REPORT_DIR": str(files),
                "ASAN_OPTIONS": NO_HANDLERS,
            },
        )
        self.status, self.out, self.err = self.done.returncode, self.done.stdout, self.done.stderr
        self.reports = [file.read_text(encoding="utf-8") for file in files.iterdir()]

    @property
    def report(self):
        (text,) = self.reports
        return json.loads(text)

    @property
    def scripts(self):
        """(language, function) of the script frames of the crash, the innermost first."""
        return scripts_of(self.report["error"]["stack"])

    @property
    def logged(self):
        return json.loads(next(line for line in self.out.splitlines() if line.startswith("[[")))


def scripts_of(stack):
    return [[f["language"], f["function"]] for f in stack if f["kind"] == "script"]


def reasons(stack):
    return [f["reason"] for f in stack if f["kind"] == "gap"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", [way for way in SIGNALS if way != "overflow"])
def test_each_signal_at_each_place(tmp_path, way, place):
    if place == "lua":
        pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    run = Run(tmp_path, BEGIN + HOW, way, place)
    assert run.status == -SIGNALS[way], run.err
    assert run.report["error"]["type"] == SIGNALS[way].name
    assert run.scripts == run.logged, run.err
    assert ["python", "crash"] in run.logged
    assert reasons(run.report["error"]["stack"]) == []
    if place == "lua":
        assert ["lua", "price"] in run.scripts
    assert '(Python) File "<string>", line' in run.err


@pytest.mark.parametrize("place", ["main", "thread"])
def test_stack_used_up(tmp_path, place):
    run = Run(tmp_path, BEGIN + HOW, "overflow", place)
    assert run.status == -signal.SIGSEGV, run.err
    assert run.report["error"]["message"] == "the stack is used up"
    assert run.scripts == run.logged, run.err


def test_fatal_error_of_the_interpreter(tmp_path):
    run = Run(tmp_path, BEGIN + HOW, "fatal", "main")
    assert "Fatal Python error" in run.err and "it is over" in run.err
    assert run.report["error"]["message"] == "the process aborted itself"


def test_other_threads(tmp_path):
    program = """
def sleep_long(): time.sleep(60)
def wait_long(): threading.Event().wait(60)
def spin():
    while True: pass
for each in (sleep_long, wait_long, spin):
    threading.Thread(target=each, daemon=True).start()
time.sleep(0.2)
stacksplice.install(crash=True)
segv()
"""
    run = Run(tmp_path, BEGIN + program, "segv")
    assert run.status == -signal.SIGSEGV, run.err
    threads = run.report["threads"]
    assert all(thread["answered"] for thread in threads), run.err
    found = [name for thread in threads for _, name in scripts_of(thread["stack"])]
    assert {"sleep_long", "wait_long", "spin"} <= set(found), run.err
    assert found.count("Thread._bootstrap") == 3
    assert run.err.count("\nStack of thread ") == 4


def test_saved_report_shows_all(tmp_path):
    program = """
def sleep_long(): time.sleep(60)
threading.Thread(target=sleep_long, name="sleeper", daemon=True).start()
time.sleep(0.1)
stacksplice.winrt.RoOriginateError(-2147024809, "bad amount")
stacksplice.install(crash=True)
segv()
"""
    Run(tmp_path, BEGIN + program, "segv")
    (file,) = (tmp_path / "reports").iterdir()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NO_COLOR": "1"}
    for form in ((), ("--newest-first",)):
        done = subprocess.run(
            [sys.executable, "-m", "stacksplice", "show", *form, str(file)],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        error, current, thread = done.stdout.split("\n\n")
        assert error.startswith("==== event: SIGSEGV, time: ")
        assert "SIGSEGV: no memory at address 0x8" in error
        assert current.startswith("Current error of this thread:\n") and "bad amount" in current
        assert re.search(r"in sleep_long$", thread, re.M)
        assert re.search(r"^Thread \d+: ", thread, re.M)


def test_core_file_has_the_same_stack(tmp_path):
    """The handler leaves the crash as it was, for those who look at it later."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        if file.read().strip() != "core":
            pytest.skip("core files are not put where the program runs")
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\n"
    run = Run(tmp_path, limit + BEGIN + HOW, "segv", "callback")
    (core,) = tmp_path.glob("core*")
    done = subprocess.run(
        [sys.executable, "-m", "stacksplice", "core", "--json", str(core)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.returncode == 0, done.stderr
    (thread,) = json.loads(done.stdout)["threads"]
    assert [frame["address"] for frame in thread["stack"] if frame["kind"] == "native"][0] == (
        run.report["error"]["stack"][0]["address"]
    )
    assert [name for _, name in scripts_of(thread["stack"])] == [name for _, name in run.logged]


@pytest.mark.parametrize("first", ["faulthandler", "stacksplice"])
def test_beside_faulthandler(tmp_path, first):
    calls = ["faulthandler.enable()", "stacksplice.install(crash=True)"]
    program = "\n".join(calls if first == "faulthandler" else calls[::-1])
    run = Run(tmp_path, BEGIN + program + "\ncrash()\n", "segv")
    assert run.status == -signal.SIGSEGV, run.err
    assert run.err.count("Fatal Python error: Segmentation fault") == 1
    assert run.scripts == run.logged
    assert (run.err.index("Fatal Python error") < run.err.index("Stack of thread")) == (
        first == "stacksplice"
    )


def test_current_error(tmp_path):
    program = """
stacksplice.winrt.RoOriginateError(-2147024809, "bad amount")
stacksplice.install(crash=True)
crash()
"""
    run = Run(tmp_path, BEGIN + program, "segv")
    assert run.report["current_error"]["message"] == "bad amount"
    assert "\nCurrent error of this thread:\nbad amount\n" in run.err


def test_no_secrets(tmp_path):
    program = """
stacksplice.winrt.RoOriginateError(-2147024809, "cannot open postgres://bob:hunter2@db/x")
stacksplice.install(crash=True)
crash()
"""
    run = Run(tmp_path, BEGIN + program, "segv")
    (file,) = run.reports
    for text in (file, run.err):
        assert "hunter2" not in text and "[redacted: credentials]" in text


def test_uninstalled(tmp_path):
    run = Run(tmp_path, BEGIN + "stacksplice.install(crash=True); stacksplice.uninstall(); crash()\n", "segv")
    assert (run.status, run.reports, run.err) == (-signal.SIGSEGV, [], "")


def test_not_asked_for(tmp_path):
    run = Run(tmp_path, BEGIN + "stacksplice.install(); crash()\n", "segv")
    assert (run.status, run.reports) == (-signal.SIGSEGV, [])


def test_command(tmp_path):
    (tmp_path / "program.py").write_text(BEGIN + "crash()\n", encoding="utf-8")
    run = Run(tmp_path, "program.py", "segv", command=("-m", "stacksplice", "run", "--crash"))
    assert run.status == -signal.SIGSEGV, run.err
    assert run.scripts == run.logged
    (tmp_path / "plain").mkdir()
    run = Run(tmp_path / "plain", "../program.py", "segv", command=("-m", "stacksplice", "run"))
    assert (run.status, run.reports) == (-signal.SIGSEGV, [])
