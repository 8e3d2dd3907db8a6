"""A program that PyInstaller froze finds the libraries for Lua, or says which one is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from bridging import PACKAGES

pytest.importorskip("PyInstaller", reason="PyInstaller is not installed")
pytest.importorskip("lupa.lua54", reason="lupa is not installed")

PROGRAM = """
import lupa.lua54
import stacksplice

stacksplice.install()
lua = lupa.lua54.LuaRuntime()
lua.globals().rate = {}.__getitem__
lua.execute("function price(c) local r = rate(c) return r end price('XXX')", name="@rules")
"""


def freeze(folder: Path) -> Path:
    (folder / "frozen.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "PyInstaller", "--onedir", "--noconfirm", "--log-level", "ERROR"]
    known = [point.value for point in entry_points(group="pyinstaller40")]
    if "stacksplice._pyinstaller:hook_dirs" not in known:
        command += ["--additional-hooks-dir", str(PACKAGES / "stacksplice" / "_pyinstaller")]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    subprocess.run([*command, "frozen.py"], cwd=folder, env=environment, check=True, timeout=600)
    return folder / "dist" / "frozen"


def report_of(bundle: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(bundle / "frozen")], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.long
def test_a_frozen_program(tmp_path: Path) -> None:
    bundle = freeze(tmp_path)
    assert '(Lua) File "rules", line 1, in price' in report_of(bundle)
    for library in bundle.rglob("libstacksplice-lua54.so.*"):
        library.unlink()
    report = report_of(bundle)
    assert report.count("libstacksplice-lua54.so.0 is missing") == 1
    assert "(Lua)" not in report and "KeyError: 'XXX'" in report
