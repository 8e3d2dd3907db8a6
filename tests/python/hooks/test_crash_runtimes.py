"""Crash reports in the same process as Java and Go, which own the signals of faults."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from building import HERE, compile_c, core_library, ran

pytestmark = [pytest.mark.any_python, pytest.mark.long]


def run(folder, *command):
    """Status, stdout, stderr and the reports of a COMMAND in FOLDER."""
    no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # noqa: E731
    options = {"status": None, "cwd": folder, "preexec_fn": no_core}
    done = ran(*command, **options, STACKSPLICE_REPORT_DIR=folder)
    files = sorted(folder.glob("stacksplice-*.json"))
    return done, [json.loads(file.read_text(encoding="utf-8")) for file in files]


def modules_of(stack):
    return [Path(frame["module"]).name for frame in stack if frame.get("module")]


def events_of(reports):
    return [report["header"]["event"] for report in reports]


# ---- Java --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """What starts Java: the host, the library and the classes."""
    compiler = shutil.which("javac")
    home = Path(os.path.realpath(compiler)).parent.parent if compiler else Path()
    library = home / "lib" / "server" / "libjvm.so"
    if not compiler or not library.exists() or not (home / "include" / "jni.h").exists():
        pytest.skip("no JDK: neither javac nor libjvm.so and jni.h beside it")
    folder = tmp_path_factory.mktemp("java")
    subprocess.run([compiler, "-d", folder, HERE / "Faults.java"], check=True, timeout=120)
    includes = [f"-I{home / 'include'}", f"-I{home / 'include' / 'linux'}"]
    host = compile_c(folder / "host", [HERE / "java_host.c"], *includes, *core_library(), "-ldl")
    return host, library, folder


@pytest.mark.parametrize("order", ["after", "others_first"])
def test_java_keeps_its_faults(java, tmp_path, order):
    done, reports = run(tmp_path, *java, order, "end")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["raised 2 2 1", "raised 2 2 1", "end", ""]
    assert (done.stderr, reports) == ("", [])


def test_java_started_first_reports_a_fault_of_its_own_once(java, tmp_path):
    """Not what anybody wants: others_first is for this."""
    done, reports = run(tmp_path, *java, "before", "end")
    assert done.stdout.endswith("raised 2 2 1\nend\n"), done.stderr
    assert len(reports) == 1


def test_crash_below_java(java, tmp_path):
    """Java gives what it does not know to our handler."""
    done, (report,) = run(tmp_path, *java, "after", "crash")
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert report["header"]["event"] == "SIGSEGV"
    assert modules_of(report["error"]["stack"])[0] == "host"
    assert "spinner" in [thread["name"] for thread in report["threads"] if thread["answered"]]


def test_crash_below_java_that_started_first(java, tmp_path):
    """Java writes its own report and aborts."""
    done, (report,) = run(tmp_path, *java, "others_first", "crash")
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert "SIGSEGV (0xb)" in done.stdout
    assert list(tmp_path.glob("hs_err_pid*.log"))
    assert report["header"]["event"] == "SIGABRT"
    found = modules_of(report["error"]["stack"])
    assert found.index("libjvm.so") < found.index("host")


# ---- Go ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """What loads Go: the host and the library."""
    if not shutil.which("go"):
        pytest.skip("no go")
    folder = tmp_path_factory.mktemp("go")
    command = ["go", "build", "-buildmode=c-shared", "-o", folder / "faults.so", HERE / "faults.go"]
    environment = {**os.environ, "CGO_ENABLED": "1", "GOTOOLCHAIN": "local"}
    subprocess.run(command, check=True, timeout=300, env=environment)
    host = compile_c(folder / "host", [HERE / "go_host.c"], *core_library(), "-ldl")
    return host, folder / "faults.so"


@pytest.mark.parametrize("order", ["after", "others_first"])
def test_go_keeps_its_faults(go, tmp_path, order):
    done, reports = run(tmp_path, *go, order, "end")
    assert (done.returncode, done.stdout, done.stderr, reports) == (0, "recovered 1 1\nend\n", "", [])


def test_crash_in_a_thread_of_go(go, tmp_path):
    """Go gives faults of C to our handler, which runs on the small stack of Go's thread."""
    done, (report,) = run(tmp_path, *go, "after", "crash")
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert report["header"]["event"] == "SIGSEGV"
    assert modules_of(report["error"]["stack"])[0] == "host"
    assert len(report["threads"]) > 1
    assert all(thread["answered"] for thread in report["threads"]), done.stderr


def test_crash_below_go_that_was_loaded_first(go, tmp_path):
    """Go ends the process itself when a fault strikes below it, but not when C aborts."""
    done, reports = run(tmp_path, *go, "others_first", "crash")
    assert "SIGSEGV: segmentation violation" in done.stderr
    assert reports == []
    done, reports = run(tmp_path, *go, "others_first", "abort")
    assert (done.returncode, events_of(reports)) == (-signal.SIGABRT, ["SIGABRT"])
