"""Test suites of others, without stacksplice and with it: the same tests fail.

`sitecustomize` calls install(), and imports ctypes so that stacks are kept at raises.  (Not every
subinterpreter can import it.)
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("stacksplice").origin).parent
INSTALLS = """
import contextlib
with contextlib.suppress(ImportError):
    import ctypes
import stacksplice
stacksplice.install({options})
"""
# What those of Lua are run with: errors that scripts catch are kept, or not.
KEEPING = pytest.mark.parametrize("options", ["", "lua_pcall=True"])
# One run: modules of CPython that look at exceptions, hooks, threads, processes and the interpreter's end.
MODULES = """
    test_exceptions test_exception_group test_except_star test_raise test_traceback test_code_module
    test_contextlib test_pickle test_copy test_gc test_weakref test_ctypes test_coroutines test_generators
    test_sys test_threading test_logging test_atexit test_sys_settrace test_subprocess
    test_concurrent_futures
""".split()
TASKS = ["test_asyncio.test_tasks", "test_asyncio.test_events"]
GREENLET = ["test_greenlet", "test_throw", "test_tracing", "test_cpp", "test_generator"]
FAKEREDIS = """
    test_mixins/test_scripting_commands.py test_mixins/test_function_commands.py test_async/test_scripts.py
    test_internals/test_lua_modules.py test_valkey/test_valkey_lua.py
""".split()
# Its tests ask a real server which version it is.  Those that use one are left out.
SERVER = """

@pytest.fixture(scope="session")
def real_server_details():
    return ServerDetails("redis", (7, 4), None, None, None)
"""
# lupa makes a class of tests for each Lua by itself, in a way that pytest does not know.
LUPA = """
import gc
import unittest
import lupa.tests
import pytest

@pytest.fixture(autouse=True, scope="session")
def small_heap():
    gc.freeze()     # each of its tests collects

def cases(tests):
    for one in tests:
        yield from cases(one) if isinstance(one, unittest.TestSuite) else [one]

@pytest.mark.parametrize("case", cases(lupa.tests.suite()), ids=lambda case: case.id())
def test(case):
    result = unittest.TestResult()
    case.run(result)
    assert result.wasSuccessful(), result.failures + result.errors
"""
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def failing(command: list[str], folder: Path, path: str) -> tuple[set[str], list[str]]:
    """The names of the tests that fail, and those of all."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=3000,
        # A shell's background jobs ignore it, and CPython's tests wait for it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    file = folder / "report.xml"
    assert file.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    cases = list(ElementTree.parse(file).iter("testcase"))
    file.unlink()
    names = [f"{case.get('classname', '')}.{case.get('name')}" for case in cases]
    bad = [case.find("failure") is not None or case.find("error") is not None for case in cases]
    return {name for name, is_bad in zip(names, bad) if is_bad}, names


def compare(
    command: list[str],
    folder: Path,
    path: str = "",
    flaky: re.Pattern | None = None,
    options: str = "",
) -> list[str]:
    """COMMAND, which writes report.xml, finds the same with install(): the names of its tests.

    FLAKY: fails by chance, also without it.
    """
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(INSTALLS.format(options=options))
    plain, names = failing(command, folder, path)
    ours, names_with = failing(command, folder, os.pathsep.join([str(site), str(PACKAGE.parent), path]))
    assert len(names) == len(names_with) > 10
    differing = [
        f"{'only with it' if name in ours else 'only without'}: {name}"
        for name in sorted(ours ^ plain)
        if flaky is None or not flaky.search(name)
    ]
    assert not differing
    return names


def suite_of(name: str, folder: Path) -> Path:
    """The unpacked source of an installed package, with its tests."""
    wanted = f"{name}=={version(name)}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name]
    # lupa would build its own copies of Lua, only to tell its version.
    environment = {**os.environ, "LUPA_NO_BUNDLE": "true"}
    done = subprocess.run(
        [*command, "-d", str(folder), wanted], capture_output=True, text=True, timeout=300, env=environment
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
    for name in ["greenlet", "objgraph", "psutil"]:
        pytest.importorskip(name)
    modules = [f"greenlet.tests.{name}" for name in GREENLET]
    compare([*PYTEST, "--junitxml=report.xml", "--pyargs", *modules], tmp_path)


def test_of_tblib(tmp_path):
    pytest.importorskip("tblib")
    source = suite_of("tblib", tmp_path / "source")
    report = f"--junitxml={tmp_path}/report.xml"
    compare([*PYTEST, "-o", "addopts=", report, "--rootdir", str(source), str(source / "tests")], tmp_path)


@KEEPING
def test_of_lupa(tmp_path, record_testsuite_property, options):
    """Each Lua that lupa has, in one process as in lupa's own runs; the report counts the tests of each."""
    lupa = pytest.importorskip("lupa")
    source = suite_of("lupa", tmp_path / "source")
    # Its tests belong to its package, and a wheel has none.
    shutil.copytree(Path(lupa.__file__).parent, tmp_path / "lupa")
    shutil.copytree(source / "lupa" / "tests", tmp_path / "lupa" / "tests", dirs_exist_ok=True)
    shutil.copy(source / "README.rst", tmp_path)
    (tmp_path / "test_lupa.py").write_text(LUPA)
    # 29 of 429 runs of lupa alone fail there, on Lua 5.5, which the package lupa itself takes.
    flaky = re.compile(r"_(lua55|lupa)\.test_overwrite_in_python")
    names = compare(
        [*PYTEST, "--junitxml=report.xml", "test_lupa.py"], tmp_path, str(tmp_path), flaky, options
    )
    for file in Path(lupa.__file__).parent.glob("lua*.so"):
        module = file.name.partition(".")[0]
        count = sum(f"_{module}." in name for name in names)
        record_testsuite_property(f"tests of lupa.{module}", count)
        assert count > 200, module


@KEEPING
@pytest.mark.parametrize("version", ["5.1", "5.4"])
def test_of_fakeredis(tmp_path, monkeypatch, version, options):
    """Scripts of Redis, which a Lua runs: Redis' own is 5.1, which fakeredis takes by itself."""
    for name in ["fakeredis", "valkey", "pytest_asyncio", f"lupa.lua{version.replace('.', '')}"]:
        pytest.importorskip(name)
    monkeypatch.setenv("FAKEREDIS_LUA_VERSION", version)
    source = suite_of("fakeredis", tmp_path / "source")
    with (source / "test" / "conftest.py").open("a") as file:
        file.write(SERVER)
    shutil.rmtree(source / "fakeredis")
    tests = [str(source / "test" / name) for name in FAKEREDIS]
    chosen = ["-m", "not real", "-p", "pytest_asyncio.plugin", f"--junitxml={tmp_path}/report.xml"]
    compare([*PYTEST, *chosen, "--rootdir", str(source), *tests], tmp_path, options=options)
