"""Test suites of others, without stacksplice and with it: the same tests fail.

`sitecustomize` calls install(), and imports ctypes so that stacks are kept at raises.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("stacksplice").origin).parent
INSTALLS = "import ctypes, stacksplice\nstacksplice.install()\n"
# One run: modules of CPython that look at exceptions, hooks, threads, processes and the interpreter's end.
MODULES = """
    test_exceptions test_exception_group test_except_star test_raise test_traceback test_code_module
    test_contextlib test_pickle test_copy test_gc test_weakref test_ctypes test_coroutines test_generators
    test_sys test_threading test_logging test_atexit test_sys_settrace test_subprocess
    test_concurrent_futures
""".split()
TASKS = ["test_asyncio.test_tasks", "test_asyncio.test_events"]
GREENLET = ["test_greenlet", "test_throw", "test_tracing", "test_cpp", "test_generator"]


def failing(command: list[str], folder: Path, path: str) -> tuple[set[str], int]:
    """The names of the tests that fail, and how many there are."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=3000
    )
    file = folder / "report.xml"
    assert file.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    cases = list(ElementTree.parse(file).iter("testcase"))
    file.unlink()
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {f"{case.get('classname', '')}.{case.get('name')}" for case in bad}, len(cases)


def compare(command: list[str], folder: Path, path: str = "") -> None:
    """COMMAND, which writes report.xml, finds the same with install()."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(INSTALLS)
    plain, count = failing(command, folder, path)
    ours, count_with = failing(command, folder, os.pathsep.join([str(site), str(PACKAGE.parent), path]))
    assert count == count_with > 10
    assert ours == plain


def suite_of(name: str, folder: Path) -> Path:
    """The unpacked source of a package, with its tests."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--no-binary", name, "-d", str(folder), name], capture_output=True, text=True, timeout=300
    )
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"the source of {name} cannot be had: {done.stderr.strip()[-200:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.mark.parametrize("modules", [MODULES, TASKS], ids=["cpython", "cpython-asyncio"])
def test_of_cpython(tmp_path, modules):
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_code_module") is None:
        pytest.skip("this Python comes without its tests")
    there = [name for name in modules if importlib.util.find_spec(f"test.{name}") is not None]
    compare([sys.executable, "-m", "test", "--junit-xml", str(tmp_path / "report.xml"), *there], tmp_path)


def test_of_greenlet(tmp_path):
    pytest.importorskip("greenlet")
    wanted = tmp_path / "wanted"
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(wanted), "objgraph", "psutil"]
    if subprocess.run(command, capture_output=True, timeout=300).returncode:
        pytest.skip("what greenlet's tests import cannot be had")
    modules = [f"greenlet.tests.{name}" for name in GREENLET]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    compare([*command, "--pyargs", *modules], tmp_path, str(wanted))


def test_of_tblib(tmp_path):
    pytest.importorskip("tblib")
    source = suite_of("tblib", tmp_path / "source")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
    report = f"--junitxml={tmp_path}/report.xml"
    compare([*command, report, "--rootdir", str(source), str(source / "tests")], tmp_path)
