"""Runs lupa_program.py, and compares its report with what the program saw of its stack at the raise."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from gap_reasons import ENDED

PROGRAM = Path(__file__).resolve().parent / "lupa_program.py"
CASES = ["python_below_lua", "lua_below_python", "coroutine", "generator", "thread"]
PLACE = re.compile(r'File "([^"]+)", line (\d+), in')
GAP = re.compile(r"\[gap: (.+)\]$", re.MULTILINE)
# What runs the program or its thread, and is left out of reports.
RUNNER = ("<frozen runpy>", "__main__.py", "run.py", "program.py", "threading.py")


def places(report: str) -> list[list[object]]:
    """The places in a report, innermost first."""
    return [[os.path.basename(file), int(line)] for file, line in PLACE.findall(report)][::-1]


def check_report(python: str, folder: Path, with_run: bool, *arguments: str, **environment: str) -> None:
    """Run the program by `-m stacksplice run`, or else with install() as its first line."""
    program = folder / PROGRAM.name
    first = "" if with_run else "import stacksplice; stacksplice.install()\n"
    program.write_text(first + PROGRAM.read_text())
    command = [python, *(["-m", "stacksplice", "run"] if with_run else []), str(program), *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )
    assert done.stdout, done.stderr
    truth = [place for place in json.loads(done.stdout) if place[0] not in RUNNER]
    assert places(done.stderr) == truth, f"{truth}\n{done.stderr}"
    # All C code here is lupa's, or a function of Lua's own library.
    assert not re.search(r"\(C\) (?!luaB_)", done.stderr), done.stderr
    # What resumed a coroutine in C is gone when that has failed, and nothing else is missing.
    may_lack = {ENDED} if {"coroutine", "generator"} & {*arguments} else set()
    assert {*GAP.findall(done.stderr)} <= may_lack, done.stderr
