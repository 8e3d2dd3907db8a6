"""setup.py says in one line what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from building import ROOT

pytest.importorskip("setuptools", "77", reason="there is no setuptools that builds this package")

BUILD = "import runpy, sys; sys.argv = ['setup.py', '-q', 'build_ext', '-b', {out!r}, '-t', {out!r}]\n"


def build(tmp_path: Path, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    source = before + BUILD.format(out=str(tmp_path)) + f"runpy.run_path({str(ROOT / 'setup.py')!r})"
    return subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_without_cmake(tmp_path):
    done = build(tmp_path, PATH=str(tmp_path))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "install cmake" in done.stderr


def test_without_python_h(tmp_path):
    (tmp_path / "cmake").touch(0o755)
    nowhere = "import sysconfig; sysconfig.get_path = lambda *_: '/nowhere'\n"
    done = build(tmp_path, nowhere, PATH=str(tmp_path))
    name = f"python{sysconfig.get_python_version()}-dev"
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "/nowhere/Python.h was not found" in done.stderr and name in done.stderr


def test_a_build_that_fails_says_so_last(tmp_path):
    cmake = tmp_path / "cmake"
    cmake.write_text("#!/bin/sh\necho no compiler >&2\nexit 3\n")
    cmake.chmod(0o755)
    done = build(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1 and done.stderr.count("\n") == 2, done.stderr
    assert done.stderr.startswith("no compiler\ncmake -S failed with status 3")
