"""The table in docs/inspection.md of what other tools show: each that is installed looks at one process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, ROOT
from test_commands import command
from test_dump import end, start

# What tools print if they show what a row is about.
SIGNS = {
    "Python frames": r"sort_in_c",
    "lines of Python": r"# a line of source",
    "native frames": r"nanosleep",
    "lines of C": r"\.c(?:\", line |:)\d+",
    "inlined functions": r"\(inlined\)|^#[1-9]\d* +[a-zA-Z_]",
    "Lua frames": r"\bin_lua\b(?!\()",
    "native and script frames in one order": r"ORDERED",
    "names of Python's threads": r"named handle",
    "which thread holds the GIL": r"active\+gil|Has the GIL|holds the GIL",
    "which threads wait for it": r"(?i)wait(?:s|ing) for the GIL",
    "running or sleeping": r"\b(?:running|sleeping|idle|active)\b",
    "garbage collection": r"(?i)garbage.collecting|collects garbage",
    "local variables": r"a local value",
    "exceptions that are handled": r"in flight",
    "what they were made from": r"the cause'",
    "command line": r"an-argument",
    "version of Python": r"Python v?3\.\d+\.\d+",
    "arguments of C functions": r"\(clock_id=",
}
DEBUG_INFORMATION = (
    "lines of C",
    "inlined functions",
    "arguments of C functions",
)  # this machine may lack it
BLOCK = re.compile(r"\n(?=thread |Thread |Traceback )")


def table() -> dict[str, dict[str, str]]:
    """The rows of the table by their first cell, each with the cells by the tools' names."""
    text = (ROOT / "docs" / "inspection.md").read_text(encoding="utf-8")
    lines = text.partition("| shown |")[1:]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in "".join(lines).split("\n\n")[0].split("\n")
    ]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def beside(name: str) -> str | None:
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else shutil.which(name)


def script_of_gdb() -> str | None:
    program = f"{os.path.realpath(sys.executable)}-gdb.py"
    return next(
        (path for path in (program, f"/usr/share/gdb/auto-load{program}") if os.path.exists(path)), None
    )


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    child = start(str(HERE / "beside_program.py"), "an-argument")
    assert child.stdout is not None
    child.stdout.readline()
    last = time.monotonic() + 30
    while time.monotonic() < last:
        if "holds the GIL" in command("dump", str(child.pid)).stdout:
            break
    yield child
    end(child)


def by_gdb(process: subprocess.Popen[str]) -> list[str] | None:
    gdb, script = shutil.which("gdb"), script_of_gdb()
    if not gdb or not script:
        return None
    orders = [f"source {script}", *(f"thread apply all {each}" for each in ("bt", "py-bt", "py-locals"))]
    return [gdb, "-batch", "-p", str(process.pid), *(word for order in orders for word in ("-ex", order))]


def by_program(name: str, *arguments: str) -> list[str] | None:
    program = beside(name)
    return [program, *arguments] if program else None


def told(tool: str, process: subprocess.Popen[str]) -> str:
    """What TOOL prints about PROCESS."""
    pid = str(process.pid)
    if tool == "stacksplice":
        return command("dump", "--all-frames", "--locals", pid).stdout
    if tool == "faulthandler":
        os.kill(process.pid, signal.SIGUSR1)
        time.sleep(1)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process.stdout.read()
    found = {
        "py-spy": lambda: by_program("py-spy", "dump", "--native", "--locals", "--pid", pid),
        "pystack": lambda: by_program("pystack", "remote", "--native", "--locals", pid),
        "gdb": lambda: by_gdb(process),
    }[tool]()
    if not found:
        pytest.skip(f"{tool} is not installed, or has no script of Python")
    return subprocess.run(found, capture_output=True, text=True, timeout=120).stdout


def has_order(block: str) -> bool:
    places = [
        block.find("sort_in_c ("),
        block.find("in sort_in_c"),
        block.find("msort"),
        block.find("qsort_r"),
    ]
    outer, native = max(places[:2]), max(places[2:])
    inner = max(block.find("compared ("), block.find("in compared"))
    return min(outer, native, inner) >= 0 and (outer < native < inner or inner < native < outer)


@pytest.mark.parametrize("tool", ["stacksplice", "py-spy", "pystack", "gdb", "faulthandler"])
def test_the_table_says_what_is_seen(process, tool):
    text = told(tool, process)
    assert "sort_in_c" in text
    if any(map(has_order, BLOCK.split(text))):
        text += "\nORDERED\n"
    rows = table()
    assert set(SIGNS) < set(rows)
    own = told("stacksplice", process)
    for row, sign in SIGNS.items():
        cell = rows[row][tool]
        if row in DEBUG_INFORMATION and not re.search(sign, own, re.MULTILINE):
            continue
        if row == "Lua frames" and "in_lua" not in own:
            continue  # there is no lupa
        if cell in ("yes", "no"):
            assert bool(re.search(sign, text, re.MULTILINE)) == (cell == "yes"), row
