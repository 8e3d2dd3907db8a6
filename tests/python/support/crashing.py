"""A program that crashes in a way and at a place, after it has logged its stack; and what is left of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys

from building import PACKAGE

BEGIN = """
import ctypes, faulthandler, gc, json, mmap, os, resource, signal, sys, tempfile, threading, time
import stacksplice
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def log():
    print(json.dumps([frame.to_dict() for frame in stacksplice.capture()]), flush=True)

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
def overflow():
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))
    log(); libc.regcomp(ctypes.create_string_buffer(256), b"(" * 1_000_000, 1)
def heap():
    blocks = [libc.malloc(100) for _ in range(200)] # beside the one that breaks is one of ours
    block = next(one for one, other in zip(blocks, blocks[1:]) if other - one == 112)
    log(); ctypes.memset(block - 8, 0x41, 128); libc.free(block)

def crash(): globals()[sys.argv[1]]()

def main(): crash()
def thread():
    threading.stack_size(1 << 20)
    runner = threading.Thread(target=crash)
    runner.start()
    runner.join()
def child():
    pid = os.fork()
    if pid == 0:
        crash()
    status = os.waitpid(pid, 0)[1]
    stacksplice.uninstall()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
def lua(inner=crash):
    import lupa.lua54
    runtime = lupa.lua54.LuaRuntime()
    runtime.execute("function price(f) local p = f() return p end", name="@rules.lua")
    runtime.globals().price(inner)
def between(): lua(callback)
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
    "heap": signal.SIGABRT,
}
# A sanitizer's handlers would end the process in their own way.
NO_HANDLERS = ":".join(f"handle_{name}=0" for name in ("segv", "sigbus", "sigfpe", "sigill", "abort"))
HOW = "stacksplice.install(crash=True)\nglobals()[sys.argv[2]]()\n"


class Run:
    """A program that crashes: what it said, its reports, and its core file where one is wanted."""

    def __init__(self, folder, source, *arguments, command=("-c",), with_core=False):
        files = folder / "reports"
        files.mkdir(exist_ok=True)
        limit = resource.RLIM_INFINITY if with_core else 0
        self.done = subprocess.run(
            [sys.executable, *command, source, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (limit, limit)),
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
    def logged_stack(self):
        """The stack right before the crash, without the function that logged it."""
        stack = json.loads(next(line for line in self.out.splitlines() if line.startswith("[{")))
        at = next(i for i, frame in enumerate(stack) if frame["function"] == "log")
        return stack[at + 1 :]

    @property
    def logged(self):
        """(language, function) of its script frames."""
        return scripts_of(self.logged_stack)


def scripts_of(stack):
    return [[f["language"], f["function"]] for f in stack if f["kind"] == "script"]


def reasons(stack):
    return [f["reason"] for f in stack if f["kind"] == "gap"]
