"""Compiled modules that call Python back: pybind11, nanobind, Cython.  Nothing but install()."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bridging import HERE, Run, compile_extension

needs_the_event = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")

BEGIN = """
import importlib, re, sys, traceback
sys.path.insert(0, sys.argv[1])
import stacksplice
from seen import *

def places(text):
    '''The functions of a report, outermost first; native ones with their language.'''
    found = []
    for line in text.splitlines():
        if re.match(r"  (\\(C\\) .|File)", line):
            name = re.sub(r" \\([^()]*\\)$", "", line.rpartition(", in ")[2])
            if line.startswith("  (C)"):
                name = "C qsort" if "libc.so" in line else "C " + name
            if found[-1:] != ["C qsort"] or name != "C qsort":
                found.append(name)
    return found

def number(_):
    fail()

def below(module, name, *arguments):
    return getattr(module, name)(*arguments)
"""


@pytest.fixture(scope="session")
def pybind11_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pybind11 = pytest.importorskip("pybind11", reason="pybind11 is not installed")
    return build(tmp_path_factory, "with_pybind11", f"-I{pybind11.get_include()}")


@pytest.fixture(scope="session")
def nanobind_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nanobind = pytest.importorskip("nanobind", reason="nanobind is not installed")
    folder = Path(nanobind.__file__).parent
    headers = [f"-I{folder / 'include'}", f"-I{folder / 'ext' / 'robin_map' / 'include'}"]
    source = str(folder / "src" / "nb_combined.cpp")
    return build(tmp_path_factory, "with_nanobind", "-fno-strict-aliasing", *headers, source)


def build(factory: pytest.TempPathFactory, name: str, *options: str) -> Path:
    folder = factory.mktemp(name)
    compile_extension(folder / name, HERE / f"{name}.cpp", *options)
    return folder


STABLE_ABI = ["-DCYTHON_LIMITED_API=1", "-DPy_LIMITED_API=0x030b0000"]


@pytest.fixture(scope="session", params=[[], STABLE_ABI], ids=["whole", "stable"])
def cython_module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("Cython", reason="Cython is not installed")
    folder = tmp_path_factory.mktemp("with_cython")
    source = folder / "with_cython.c"
    subprocess.run(
        [sys.executable, "-m", "cython", str(HERE / "with_cython.pyx"), "-o", str(source)], check=True
    )
    compile_extension(folder / "with_cython", source, *request.param)
    return folder


CHECK_CPP = """
stacksplice.install()
module = importlib.import_module(sys.argv[2])
exc = caught(below, module, "call_twice", number, 3)
text = "".join(stacksplice.format_exception(exc))
assert places(text) == ["<module>", "caught", "below", "C call_twice", "number", "fail"], text
assert type(exc) is ValueError and "GAP" not in text and "gap" not in text
told = [frame.function for frame in stacksplice.error_info(exc).stack if not frame.glue]
assert told.index("fail") < told.index("number") < told.index("call_twice") < told.index("below")
"""


@needs_the_event
def test_a_std_function_of_pybind11(run: Run, pybind11_module: Path) -> None:
    run(BEGIN + CHECK_CPP, str(pybind11_module), "with_pybind11")


def test_what_pybind11_does_stays(run: Run, pybind11_module: Path) -> None:
    run(
        BEGIN
        + """
import with_pybind11
mine = ValueError("mine")
def raise_mine():
    raise mine

def facts():
    translated = caught(with_pybind11.throw_below, "shelf 17")
    return [caught(with_pybind11.pass_on, raise_mine) is mine, type(translated), str(translated),
            translated.__cause__, with_pybind11.pass_on(lambda: 7)]

before = facts()
assert before[:3] == [True, IndexError, "shelf 17"]
stacksplice.install()
assert facts() == before
if sys.version_info >= (3, 12):
    stacksplice.install(capture_at_raise=True)
    assert facts() == before
assert stacksplice.peek_error() is None
""",
        str(pybind11_module),
    )


@needs_the_event
def test_a_std_function_of_nanobind(run: Run, nanobind_module: Path) -> None:
    run(BEGIN + CHECK_CPP, str(nanobind_module), "with_nanobind")


def test_cythons_lines_stay(run: Run, cython_module: Path) -> None:
    """Python's traceback has them."""
    run(
        BEGIN
        + """
import with_cython
stacksplice.install()
exc = caught(below, with_cython, "call_twice", number, 3)
traceback.format_exception(exc)  # linecache of 3.14 finds a relative file at its second look
text = "".join(stacksplice.format_exception(exc))
plain = "".join(traceback.format_exception(exc))
assert text == plain, text + plain
wanted = ["caught", "below", "with_cython.call_twice", "with_cython.call", "number", "fail"]
assert places(text) == wanted, text
""",
        str(cython_module),
    )


@needs_the_event
def test_c_code_between_functions_of_cython(run: Run, cython_module: Path) -> None:
    """Cython's lines stand where its functions were, on both sides of qsort."""
    run(
        BEGIN
        + """
import with_cython
stacksplice.install()
exc = caught(below, with_cython, "sort", lambda a, b: fail())
text = "".join(stacksplice.format_exception(exc))
wanted = ["<module>", "caught", "below", "sort", "sort_numbers", "C qsort", "compare", "<lambda>", "fail"]
assert [place.rpartition(".")[2] for place in places(text)] == wanted, text
told = scripts(stacksplice.error_info(exc).stack)
in_order(told, "python fail", "python <lambda>", "python with_cython.compare", "native qsort",
         "python with_cython.sort_numbers", "python with_cython.sort", "python below", "python caught",
         "python <module>")
""",
        str(cython_module),
    )
