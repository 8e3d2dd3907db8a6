"""What programs that fail print, as a new user meets it: golden_programs/NAME.txt is of NAME.py or NAME.lua.

    STACKSPLICE_WRITE_EXPECTED=1 python -m pytest tests/python/reports/test_golden_programs.py

writes the files anew.  Read the difference as somebody who sees the report for the first time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from building import lua_with_stacksplice, ran
from test_golden import WRITES, read

PROGRAMS = Path(__file__).resolve().parent / "golden_programs"
NAMES = sorted(path.name for path in PROGRAMS.glob("*.*") if path.suffix != ".txt" and path.stem != "shop")
IN_COLOUR = ("tasks.py",)

pytestmark = [
    pytest.mark.any_python,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other Pythons have other marks and lines"),
]

# What differs between runs, machines and compilers, and what stands for it.
INSTEAD = [
    (r"\b(thread|process) \d+", r"\1 N"),
    (r"(Process-1\)) on [^\s\]]+", r"\1 on HOST"),
    (r"\d+( frames omitted here)", r"N\1"),
    (r"(repeated )\d+( more times)", r"\1N\2"),
    # In a recursion through C it is its native frames that decide at which of the others the gap begins.
    (r"(repeated N more times\]\n)(?:  File .*\n(?:    .*\n)+)(  \[gap: N frames omitted)", r"\1\2"),
    (r"(?m)^( *)\(C\) .*\((libc)\.so[^\n]*", r"\1(C) (libc)"),
    (r"(\(C\) \w+)\+0x\w+ \((lua54)[^\n]*\)", r"\1 (\2)"),
    (r'("/lib/python[^"]*", line )\d+', r"\1N"),
    (r"stacksplice-\d+-\w+-\w+\.json", "stacksplice-N.json"),
]


def steady(text: str, folder: Path) -> str:
    """TEXT of a program in FOLDER, without what differs from run to run."""
    text = text.replace(str(folder), "/srv").replace(sysconfig.get_path("stdlib"), "/lib/python")
    for pattern, instead in INSTEAD:
        text = re.sub(pattern, instead, text)
    return re.sub(r"(\(C\) \(libc\)\n)(?: *\(C\) \(libc\)\n)+", r"\1", text)


def printed(name: str, folder: Path, **variables: str) -> str:
    """What the program NAME prints, in a copy of its folder."""
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(PROGRAMS, folder)
    (folder / "reports").mkdir()
    program = [sys.executable]
    if name.endswith(".lua"):
        lua, paths = lua_with_stacksplice()
        program, variables = [lua, "-lstacksplice"], {**paths, **variables}
    done = ran(
        *program,
        name,
        cwd=folder,
        status=None,
        stderr=subprocess.STDOUT,
        STACKSPLICE_REPORT_DIR=str(folder / "reports"),
        **variables,
    )
    return steady(done.stdout, folder)


@pytest.mark.parametrize("name", NAMES)
def test_what_programs_print(name: str, tmp_path: Path) -> None:
    pytest.importorskip("lupa.lua54")
    made = {"output": printed(name, tmp_path / "plain")}
    if name in IN_COLOUR:
        made["in colour"] = printed(name, tmp_path / "plain", FORCE_COLOR="1")
    path = PROGRAMS / f"{name}.txt"
    if WRITES:
        text = "\n".join(f"==== {form} ====\n{text}" for form, text in made.items())
        path.write_text(text, encoding="utf-8")
    assert read(path) == {form: text.rstrip("\n") for form, text in made.items()}


def test_each_file_is_of_a_program() -> None:
    assert {path.name for path in PROGRAMS.glob("*.txt")} == {f"{name}.txt" for name in NAMES}
