"""The code in the pages for users of Python runs as it stands, and the pages name what there is."""

from __future__ import annotations

import os
import re
import sys

import pytest
import stacksplice
from building import ROOT, compile_c, core_library, ran

pytestmark = pytest.mark.any_python

# A program whose errors cross a border.
HOST = """
import border

def fails():
    raise ValueError("no price")

def run():
    border.call(fails)
"""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", blocks("how-to/unhandled.md", "python"))
def test_unhandled(child, source):
    reports = "logging.exception('it')" if "logging" in source else "raise"
    crossing = f"""
import border
def fails(): raise ValueError("unhandled")
try: border.call(fails)
except ValueError: {reports}
"""
    done = child(source + crossing, status=int(reports == "raise"))
    assert "ValueError: unhandled" in done.stderr


def test_c(tmp_path):
    (block,) = blocks("how-to/unhandled.md", "c")
    source = tmp_path / "host.c"
    source.write_text(
        "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <stacksplice/python.h>\n"
        "void stop_main_loop(int status);\n" + block + "void (*use)(PyObject *) = tick;\n"
    )
    compile_c(tmp_path / "host.so", [source], "-shared", "-fPIC", *core_library())


def run_in(folder, child, source):
    """SOURCE as a program in FOLDER, beside the module host."""
    (folder / "host.py").write_text(HOST)
    paths = f"{folder}{os.pathsep}{child.environment['PYTHONPATH']}"
    return child(f"import os\nos.chdir({str(folder)!r})\n{source}", PYTHONPATH=paths)


def test_the_tutorial_with_lupa(child):
    pytest.importorskip("lupa.lua54")
    (source,) = [block for block in blocks("start/python.md", "python") if "import lupa" in block]
    text = child(source, status=1).stderr
    places = [
        text.index(words) for words in ("in <module>", "(Lua) ", "line 3, in ", "in rate", "KeyError: 'XXX'")
    ]
    assert places == sorted(places)


def test_the_tutorial(child, tmp_path):
    sources = [block for block in blocks("start/python.md", "python") if "import lupa" not in block]
    outputs = [run_in(tmp_path, child, source) for source in sources]
    assert "in report_progress" in outputs[1].stdout
    assert "python <module> <string> " in outputs[2].stdout
    assert "ValueError: no price" in outputs[3].stderr and "received by python" in outputs[3].stdout
    (shell,) = [block for block in blocks("start/python.md", "sh") if "errors.ndjson" in block]
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "stacksplice").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stacksplice "$@"\n')
    (tmp_path / "stacksplice").chmod(0o755)
    shown = ran("/bin/sh", "-ec", shell, cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert shown.stdout.count("==== order: O-25150 ====\n") == 3


@pytest.mark.parametrize("source", blocks("how-to/troubleshooting.md", "python"))
def test_troubleshooting(child, tmp_path, source):
    assert run_in(tmp_path, child, source).stdout == "None\n"


def test_troubleshooting_names_gaps_that_there_are():
    table = page("reference/gaps.md")
    text = page("how-to/troubleshooting.md")
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    quoted = [reason for row in rows for reason in re.findall("`(.*?)`", row)]
    assert len(quoted) >= 8 and "Lua tail calls replaced the frames of the callers" in table
    for reason in quoted:
        assert any(line.startswith(f"| `{reason}") for line in table.splitlines()), reason


def test_the_reference_has_every_public_name(tmp_path):
    pdoc = pytest.importorskip("pdoc")
    pdoc.pdoc("stacksplice", output_directory=tmp_path)
    text = (tmp_path / "stacksplice.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in text for name in stacksplice.__all__ if name != "winrt")


@pytest.mark.parametrize(
    "name", ["SECURITY.md", "docs/inside/contracts.md", "docs/how-to/sandboxes-and-limits.md"]
)
def test_the_tests_of_promises_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    table = text[text.index("Tests of this page") :]
    named = re.findall(r"`(tests/[^`]+)`", table)
    assert len(named) > 5 and [path for path in named if not (ROOT / path).is_file()] == []


def test_each_part_of_the_contracts_has_tests():
    *parts, last = re.findall(r"^## (.+)$", page("inside/contracts.md"), re.MULTILINE)
    assert last == "Tests of this page"
    anchors = {re.sub(r"[^\w -]", "", part).lower().replace(" ", "-") for part in parts}
    named = set(re.findall(r"^\| \[.+\]\(#(.+)\) \| `tests/", page("inside/contracts.md"), re.MULTILINE))
    assert named == anchors
