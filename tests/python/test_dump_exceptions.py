"""``python -m stacksplice dump`` and ``core``: exceptions that threads of Python handle or raise."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from building import HERE, Resting, command, compile_c
from test_core import copy_of, read
from test_dump import dumped, interpreters

PROGRAM = HERE / "dump_exceptions_program.py"


@pytest.fixture(scope="module", params=list(interpreters()))
def handling(request) -> Iterator[tuple[int, dict]]:
    """A process without stacksplice, and what its threads say that they handle."""
    with Resting(request.param, PROGRAM) as child:
        yield child.pid, json.loads(child.line)


def row(told: dict) -> list:
    frames = [[frame["file"], frame["function"].rpartition(".")[2], frame["line"]] for frame in told["stack"]]
    assert all(frame["trust"] == "traceback" for frame in told["stack"])
    return [told.get("relation") or told["state"], told["type"], told["message"], frames]


def rows_of(document: dict) -> dict[str, list]:
    return {
        str(thread["thread_id"]): [
            [row(told), *map(row, told["transformed"])] for told in thread.get("exceptions", ())
        ]
        for thread in document["threads"]
        if thread["thread_id"] != document["process"]["id"]
    }


def expected(seen: dict) -> dict:
    """str() of an exception of several arguments is decided by its type; of a file, its name is added."""
    text = json.dumps(seen).replace("[Errno 2] No such file or directory: '/missing/file'", "ENOENT")
    return json.loads(text.replace("ENOENT", "[Errno 2] No such file or directory"))


def test_they_are_what_python_says(handling):
    process, seen = handling
    assert rows_of(dumped(process)) == expected(seen)


def test_a_core_file_has_the_same(handling, tmp_path):
    process, seen = handling
    assert rows_of(read(copy_of(process, tmp_path))) == expected(seen)


def test_text_looks_as_tracebacks(handling):
    process, _ = handling
    text = command("dump", str(process)).stdout
    assert text.count("\nException that this thread handles:\n") == 4
    assert "\nOwnError: ('a text', 3)\n\nDuring handling of the above exception, another" in text
    assert "\nTypeError: alone\n" in text and "over" not in text and "RuntimeError" not in text


RAISING = r"""
#include <Python.h>
#include <unistd.h>
static PyObject *wait_raising(PyObject *self, PyObject *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    (void)!write(1, "\n", 1);
    (void)!read(0, (char[1]){0}, 1);
    return NULL;
}
static PyMethodDef functions[] = {{"wait_raising", wait_raising, METH_O, ""}, {NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "raising_module", "", -1, functions};
PyMODINIT_FUNC PyInit_raising_module(void) { return PyModule_Create(&module); }
"""


def test_one_on_its_way(tmp_path):
    (tmp_path / "raising.c").write_text(RAISING)
    compile_c(tmp_path / "raising_module.so", [tmp_path / "raising.c"], "-shared", "-fPIC", "-w")
    script = "import sys; sys.path.insert(0, sys.argv[1]); import raising_module\n"
    script += "raising_module.wait_raising(ValueError('token=abc'))"
    with Resting(sys.executable, "-c", script, str(tmp_path)) as child:
        (thread,) = dumped(child.pid)["threads"]
        text = command("dump", str(child.pid)).stdout
    (told,) = thread["exceptions"]
    assert row(told) == ["raised", "ValueError", "token=[redacted: token]", []]
    assert "\nException on its way in this thread:\nValueError: token=[redacted: token]\n" in text
