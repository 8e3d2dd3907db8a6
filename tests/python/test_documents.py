"""The code in docs/unhandled.md runs as it stands."""

from __future__ import annotations

import re

import pytest
from building import ROOT, compile_c, core_library

PAGE = (ROOT / "docs" / "unhandled.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", blocks("python"))
def test_python(child, source):
    reports = "logging.exception('it')" if "logging" in source else "raise"
    crossing = f"""
import border
def fails(): raise ValueError("unhandled")
try: border.call(fails)
except ValueError: {reports}
"""
    done = child(source + crossing, status=int(reports == "raise"))
    assert "ValueError: unhandled (0x80070057)" in done.stderr


def test_c(tmp_path):
    (block,) = blocks("c")
    source = tmp_path / "host.c"
    source.write_text(
        "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <stacksplice/python.h>\n"
        "void stop_main_loop(int status);\n" + block + "void (*use)(PyObject *) = tick;\n"
    )
    compile_c(tmp_path / "host.so", [source], "-shared", "-fPIC", *core_library())
