"""Crashes of Python programs: what their reports have, and who else handles the signals."""

from __future__ import annotations

import json
import pickle
import platform
import re
import signal

import pytest
import stacksplice
from building import HERE, command, compile_c
from crashing import BEGIN, HOW, Run, scripts_of


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="watches glibc's heap")
def test_heap_is_not_used(tmp_path, monkeypatch):
    """Neither by the thread that crashes nor by the others, none of which has captured before."""
    watch = compile_c(tmp_path / "heap_watch.so", [HERE / "heap_watch.c"], "-shared", "-fPIC")
    program = """
import _thread
def sleep_long(): time.sleep(60)
def start(function):
    _thread.start_new_thread(function, ())
    time.sleep(0.1)
stacksplice.install(crash=True)
start(sleep_long)
start(lambda: lua(sleep_long))
start(lambda: ctypes.memset(8, 0, 1))
time.sleep(60)
"""
    monkeypatch.setenv("LD_PRELOAD", str(watch))
    run = Run(tmp_path, BEGIN + program)
    assert run.status == -signal.SIGSEGV, run.err
    assert "heap:" not in run.err, run.err
    stacks = [scripts_of(thread["stack"]) for thread in run.report["threads"] if thread["answered"]]
    assert ["python", "sleep_long"] in [stack[0] for stack in stacks]
    assert ["python", "<lambda>"] in run.scripts


def test_crash_in_the_interpreter(tmp_path):
    """The place is shown although it is glue, in the report and when it has its names."""
    program = """
stacksplice.install(crash=True)
damaged = [[]]
ctypes.c_size_t.from_address(id(damaged) + object.__basicsize__ - 8).value = 0
gc.collect()
"""
    run = Run(tmp_path, BEGIN + program)
    assert run.status == -signal.SIGSEGV, run.err
    assert re.search(r"^Stack of .*\n    \(C\) ", run.err, re.M), run.err
    assert "glue" not in run.report["error"]["stack"][0]
    (file,) = (tmp_path / "reports").iterdir()
    done = command("symbolize", file, DEBUGINFOD_URLS="")
    assert "glue" not in json.loads(done.stdout)["error"]["stack"][0], done.stderr


def test_current_error_threads_and_no_secrets(tmp_path):
    """In the text on stderr, in the file, and in what show makes of it."""
    program = """
def sleep_long(): time.sleep(60)
threading.Thread(target=sleep_long, name="sleeper", daemon=True).start()
time.sleep(0.1)
stacksplice.winrt.RoOriginateError(-2147024809, "bad amount in postgres://bob:hunter2@db/x")
stacksplice.install(crash=True)
segv()
"""
    run = Run(tmp_path, BEGIN + program, "segv")
    message = "bad amount in postgres://[redacted: credentials]@db/x"
    assert run.report["current_error"]["message"] == message
    assert f"\nCurrent error of this thread:\n{message}\n" in run.err
    (file,) = (tmp_path / "reports").iterdir()
    assert "hunter2" not in run.err + run.reports[0]
    info = stacksplice.ErrorInfo.from_json(run.reports[0])
    assert info.to_dict() == run.report and pickle.loads(pickle.dumps(info)).type == "SIGSEGV"
    for form in ((), ("--newest-first",)):
        done = command("show", *form, file)
        assert info.format(newest_last=not form) == "".join(done.stdout.splitlines(keepends=True)[3:])
        error, current, thread = done.stdout.split("\n\n")
        assert re.match(r"==== event: SIGSEGV.* ====\ntime: .*Z\nprocess: .*, pid: \d+, .*, cwd: ", error)
        assert "SIGSEGV: no memory at address 0x8" in error
        assert current.startswith("Current error of this thread:\n") and "bad amount" in current
        assert re.search(r"in sleep_long$", thread, re.M)
        assert re.search(r"^Thread \d+: ", thread, re.M)


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


def test_others_first(tmp_path):
    """faulthandler ends the process by itself: the report comes before that all the same."""
    program = "faulthandler.enable()\nstacksplice.install(crash=True, others_first=True)\ncrash()\n"
    run = Run(tmp_path, BEGIN + program, "segv")
    assert run.status == -signal.SIGSEGV, run.err
    assert run.err.index("Fatal Python error") < run.err.index("Stack of thread")
    assert run.scripts == run.logged


def test_uninstall_gives_threads_their_method_back(child):
    child("""
import threading, stacksplice
plain = vars(threading.Thread).copy()
for _ in range(2):
    stacksplice.install(crash=True)
    stacksplice.install(crash=True)
    assert dict(vars(threading.Thread)) != plain
    stacksplice.uninstall()
    assert dict(vars(threading.Thread)) == plain
""")


def test_nothing_where_it_is_not_installed(tmp_path):
    for before in ("stacksplice.install(crash=True); stacksplice.uninstall()", "stacksplice.install()"):
        run = Run(tmp_path, f"{BEGIN}{before}; crash()\n", "segv")
        assert (run.status, run.reports, run.err) == (-signal.SIGSEGV, [], "")


def test_command(tmp_path):
    (tmp_path / "program.py").write_text(BEGIN + "crash()\n", encoding="utf-8")
    run = Run(tmp_path, "program.py", "segv", command=("-m", "stacksplice", "run", "--crash"))
    assert run.status == -signal.SIGSEGV, run.err
    assert run.scripts == run.logged
    (tmp_path / "plain").mkdir()
    run = Run(tmp_path / "plain", "../program.py", "segv", command=("-m", "stacksplice", "run"))
    assert (run.status, run.reports) == (-signal.SIGSEGV, [])
