"""``dump`` and ``core`` on each CPython of this machine: frames, variables and exceptions that are handled,
read without running any code of the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import stacksplice
from building import HERE, Resting, command, compile_c
from raising import text_of_value
from stacksplice._base.redaction import local_of
from test_core import copy_of, damage
from test_dump import PAGE, PROGRAM, dumped, interpreters, locals_of

# docs/how-to/local-variables.md
VARIABLES, FRAMES = 20, 32
OBJECT = r"<{} object at 0x[0-9a-f]+>"


class Told(NamedTuple):
    """What a process says of itself, and what is read of it or of its core file."""

    seen: dict[str, Any]
    document: dict[str, Any]


@pytest.fixture(scope="module", params=list(interpreters()))
def resting(request) -> Iterator[Resting]:
    with Resting(request.param, HERE / "dump_any_program.py") as child:
        yield child


@pytest.fixture(scope="module", params=["dump", "core"])
def told(request, resting: Resting, tmp_path_factory) -> Told:
    seen = json.loads(resting.line)
    if request.param == "dump":
        return Told(seen, dumped(resting.pid, "--locals"))
    core = copy_of(resting.pid, tmp_path_factory.mktemp("core"))
    return Told(seen, json.loads(command("core", "--json", "--locals", core).stdout))


# ---- Frames --------------------------------------------------------------------------------------


def test_frames_are_those_of_getframe(told: Told):
    stacks = {thread["thread_id"]: thread["stack"] for thread in told.document["threads"]}
    for name, (thread, frames) in told.seen["frames"].items():
        scripts = [frame for frame in stacks[thread] if frame["kind"] == "script"]
        rows = [[frame["file"], frame["function"], frame["line"]] for frame in scripts]
        assert rows[-len(frames) :] == frames, name
        assert not [frame for frame in stacks[thread] if frame["kind"] == "gap"], name
        assert stacks[thread][-1]["kind"] == "native"


# ---- Exceptions ----------------------------------------------------------------------------------


def row(exception: dict) -> list:
    assert all(frame["trust"] == "traceback" for frame in exception["stack"])
    frames = [[f["file"], f["function"].rpartition(".")[2], f["line"]] for f in exception["stack"]]
    relation = exception.get("relation") or exception["state"]
    return [relation, exception["type"], exception["message"], frames]


def exceptions_of(document: dict) -> dict[str, list]:
    return {
        str(thread["thread_id"]): [
            [row(each), *map(row, each["transformed"])] for each in thread.get("exceptions", ())
        ]
        for thread in document["threads"]
    }


def test_exceptions_are_what_python_says(told: Told):
    # str() of an exception of several arguments is decided by its type; of a file, its name is added.
    no_file = "[Errno 2] No such file or directory"
    wanted = json.loads(json.dumps(told.seen["exceptions"]).replace(f"{no_file}: '/missing/file'", no_file))
    found = exceptions_of(told.document)
    assert {thread: found[thread] for thread in wanted} == wanted
    assert sum(map(bool, found.values())) == 4


def test_exceptions_look_as_tracebacks(resting: Resting):
    assert dumped(resting.pid)["notes"] == []
    text = command("dump", str(resting.pid)).stdout
    assert text.count("\nException that this thread handles:\n") == 4
    assert "\nOwnError: ('a text', 3)\n\nDuring handling of the above exception, another" in text
    assert "\nTypeError: alone\n" in text
    assert "it is over" not in text and "RuntimeError" not in text


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


def test_an_exception_on_its_way(tmp_path):
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


# ---- Variables -----------------------------------------------------------------------------------

EXPECTED = {
    "numbers": {
        **{"zero": "0", "rest": "(1, 2)", "yes": "True", "no": "False", "none": "None"},
        **{"more": "{'other': 3}", "small": "7", "negative": "-3", "digits": str(2**60)},
        **{"large": str(10**99), "below": str(-(10**99)), "largest": "<int, very large>"},
        **{"half": "0.5", "tiny": "5e-324", "infinite": "inf", "nothing": "nan"},
    },
    "texts": {
        **{"empty": "''", "no_bytes": "b''", "plain": '"it\'s"', "latin": r"'naïve\x85'", "two": "'日本'"},
        **{"four": r"'𝄞\udc80'", "escaped": r"""'\x00\n\t"\'\\'""", "raw": r'''b"\x00\xff'a"'''},
    },
    "containers": {
        **{"parameter": "[]", "pair": "(1, 2.5)", "one": "('a',)", "few": "{3}", "kept": "frozenset({4})"},
        **{"nested": "{'k': [1, {2}], (1, 2): None}", "nothing": "((), {}, set(), frozenset())"},
        **{"deep": "[[[[...]]]]", "itself": "[1, [1, [1, [...]]]]", "holes": "{8: '8'}", "number": "7"},
        **{"fields": "{'inner': 1}", "shared": "[{'a': 'a', 'b': 'b'}, {'b': 'b', 'a': 'a'}]"},
    },
    "others": {
        **{"thing": OBJECT.format("Größe"), "derived": OBJECT.format("Sub"), "kind": OBJECT.format("type")},
        **{"ordered": OBJECT.format(r"collections\.OrderedDict"), "counted": OBJECT.format("Counter")},
        **{"function": OBJECT.format("function"), "module": OBJECT.format("module")},
    },
    "cells": {
        **{"argument": "1", "kept": "2", "local": "'changed'", "unused": "[3]"},
        **{"inner": OBJECT.format("function")},
    },
    "cells.<locals>.inner": {"argument": "1", "local": "'changed'", "free": "'in a cell'"},
    "made.<locals>.Body": {"attribute": "3", "_private": "'p'", "_Body__mangled": "4"},
    "<module>": {"NUMBER": "5", "NAMES": "['a', 'b']"},
}


def test_variables(told: Told):
    found = locals_of(told.document)
    for function, expected in EXPECTED.items():
        variables = found[function]
        assert list(variables) == sorted(expected), function
        for name, text in expected.items():
            if text.startswith("<") and "0x" in text:
                assert re.fullmatch(text, variables[name]), name
            else:
                assert variables[name] == text, name
    assert found["rest"] == {} and found["made"].keys() <= {"Body"}


VALUES = """
[list(range(n)) for n in (9, 10, 11, 12)]
tuple(range(11))
{n: -n for n in range(11)}
set(range(8)), set(range(11))
{n: {m: [n, m] for m in range(5)} for n in range(12)}
['x' * 60] * 9
["é" * n for n in (199, 200, 201)]
"x" * 200
"x" * 201
"日" * 201
"x" * 190 + "password=" + "hunter2 " * 30
b"x" * 201
b"\\xff" * 201
["x" * 250] * 3
[[[]], [[[]]], [[[[]]]]]
{"password": "hunter2", "a": {"api_key": [1, 2]}}
[10 ** 98, -10 ** 300, 2 ** 30, 2 ** 59, 2 ** 60 - 1, -2 ** 61, 2 ** 332]
[True, 1.5, 1e300, -0.0, 0.1, 1e15, 1e16, 123456789012345.6, 0.0001, 0.00001, 2.0 ** 53 + 2]
{10 ** 400: 1, 10 ** 401: 2}
"a\\x85\\u2028\\U0010ffff"
""".strip().splitlines()


def test_texts_of_variables_are_those_of_reports():
    lines = [f"v{number} = {value}" for number, value in enumerate(VALUES)]
    program = "def f():\n " + "\n ".join(lines) + "\n print(flush=True)\n input()\nf()"
    with Resting(sys.executable, "-c", program) as child:
        shown = subprocess.run([PROGRAM, "--pid", str(child.pid), "--locals"], capture_output=True, text=True)
        assert locals_of(dumped(child.pid)) == {}
    found = locals_of(json.loads(shown.stdout))["f"]
    stacksplice.install(locals=True)
    try:
        for number, value in enumerate(VALUES):
            assert local_of("value", found[f"v{number}"]) == text_of_value(eval(value)), value
    finally:
        stacksplice.uninstall()


SECRETS = """
def f():
    password = "hunter1"
    shop = {"card": {"api_key": "hunter2"}, "url": "https://anna:hunter3@shop.example"}
    long = "x" * 190 + "password=" + "hunter4" + "y" * 500
    print(flush=True)
    input()
f()
"""


def test_text_has_them_below_their_frame_without_secrets():
    with Resting(sys.executable, "-c", SECRETS) as child:
        forms = [[], ["--json"], *PAGE]
        texts = [command("dump", "--locals", *form, str(child.pid)).stdout for form in forms]
    assert all("hunter" not in text and text.count("[redacted: ") >= 3 for text in texts)
    lines = texts[0].splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith("in f"))
    assert [line.split(" = ")[0].strip() for line in lines[at + 1 : at + 4]] == ["long", "password", "shop"]
    assert lines[at + 2] == "        password = [redacted: password]"


LARGE = """
def inner(n):
    if n:
        return inner(n - 1)
    print(flush=True)
    input()
def many():
    a00 = list(range(10 ** 6)); a01 = dict.fromkeys(range(10 ** 6)); a02 = set(range(10 ** 6))
    a03 = "x" * (50 << 20); a04 = b"x" * (50 << 20); a05 = 1 << 10 ** 6
    a06 = []
    for _ in range(100000): a06 = [a06]
    a07 = [["x" * 20000] * 20] * 20
    a08 = dict.fromkeys(range(200000), 1); [a08.pop(n) for n in range(199999)]
    a09 = a10 = a11 = a12 = a13 = a14 = a15 = a16 = a17 = a18 = a19 = a20 = a21 = 1
    inner(50)
many()
"""


@pytest.mark.long
def test_large_values_are_bounded():
    with Resting(sys.executable, "-c", LARGE) as child:
        raw = subprocess.run([PROGRAM, "--pid", str(child.pid), "--locals"], capture_output=True).stdout
        (thread,) = dumped(child.pid, "--locals")["threads"]
    assert len(raw) < 1 << 20
    shown = [frame["locals"] for frame in thread["stack"] if "locals" in frame]
    assert len(shown) == FRAMES + 1 and shown[0] == {"n": "0"} and [*shown[-1]] == ["..."]
    with Resting(sys.executable, "-c", LARGE.replace("inner(50)", "inner(5)")) as child:
        found = locals_of(dumped(child.pid, "--locals"))["many"]
    assert len(found) == VARIABLES + 1 and found["..."] == "<more are not shown>"
    assert all(len(text) < 600 for text in found.values())
    assert found["a00"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]" and found["a05"] == "<int, very large>"


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    with Resting(sys.executable, HERE / "dump_any_program.py") as child:
        return copy_of(child.pid, tmp_path_factory.mktemp("core"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_damaged_values_do_no_harm(copied, tmp_path, seed):
    names = rb"in a cell|attribute|NUMBER|parameter"
    damage(copied, tmp_path, seed, "--locals", near=names, reach=30000)


# ---- More than is shown --------------------------------------------------------------------------

# Each generator has a place of its own for what it handles.
HANDLING = """
import sys
def handles(n):
    try:
        raise ValueError(n) from None
    except ValueError:
        if n:
            next(handles(n - 1))
        print(flush=True)
        sys.stdin.read()
    yield
next(handles(COUNT))
"""
MORE = ["not all exceptions are shown: a thread handles more, or one was made from more"]


@pytest.mark.parametrize("count", [7, 8])
def test_a_note_says_that_a_thread_handles_more_exceptions(count):
    with Resting(sys.executable, "-c", HANDLING.replace("COUNT", str(count))) as child:
        document = dumped(child.pid)
    (thread,) = document["threads"]
    assert (len(thread["exceptions"]), document["notes"]) == (8, MORE[: count - 7])


CHAIN = """
import sys
exc = None
for number in range(COUNT + 1):
    last, exc = exc, ValueError(number)
    exc.__cause__ = last
try:
    raise exc
except ValueError:
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("count", [15, 16])
def test_a_note_says_that_an_exception_was_made_from_more(count):
    with Resting(sys.executable, "-c", CHAIN.replace("COUNT", str(count))) as child:
        document = dumped(child.pid)
    (exception,) = document["threads"][0]["exceptions"]
    assert (len(exception["transformed"]), document["notes"]) == (15, MORE[: count - 15])


def test_remarks_stand_for_variables_that_are_not_shown():
    names = [f"v{number:03}" for number in range(VARIABLES + 1)]
    script = f"import sys\ndef many({'=0, '.join(names)}=0):\n    print(flush=True); sys.stdin.read()\n"
    script += "def deep(n):\n    return deep(n - 1) if n else many()\ndeep(50)"
    with Resting(sys.executable, "-c", script) as child:
        (thread,) = dumped(child.pid, "--locals")["threads"]
        text = command("dump", "--locals", str(child.pid)).stdout
    shown = [frame["locals"] for frame in thread["stack"] if "locals" in frame]
    assert [*shown[0].items()] == [*((name, "0") for name in names[:-1]), ("...", "<more are not shown>")]
    assert shown[1:] == [
        *({"n": str(n)} for n in range(FRAMES - 1)),
        {"...": "<not shown from here outward>"},
    ]
    assert text.count(" ... = <more are not shown>\n") == 1


@pytest.mark.long
def test_a_note_says_that_there_are_more_frames():
    script = "import sys; sys.setrecursionlimit(10 ** 6)\ndef deep(n):\n    if n: deep(n - 1)\n"
    script += "    print(flush=True); sys.stdin.read()\ndeep(140_000)"
    with Resting(sys.executable, "-c", script) as child:
        document = dumped(child.pid)
    assert document["notes"] == ["not all Python frames are shown: there are too many"]
