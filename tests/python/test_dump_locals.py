"""``dump --locals`` and ``core --locals``: variables of Python's frames, read without running any code."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stacksplice
from building import HERE, Resting, command
from stacksplice._base.redaction import local_of
from test_core import copy_of, damage
from test_dump import PROGRAM, dumped, interpreters
from test_locals import text_of_value

# docs/reports.md
VARIABLES, FRAMES = 20, 32
OBJECT = r"<{} object at 0x[0-9a-f]+>"

EXPECTED = {
    "numbers": {
        "zero": "0",
        "rest": "(1, 2)",
        "yes": "True",
        "no": "False",
        "none": "None",
        "more": "{'other': 3}",
        "small": "7",
        "negative": "-3",
        "digits": str(2**60),
        "large": str(10**99),
        "below": str(-(10**99)),
        "largest": "<int, very large>",
        "half": "0.5",
        "tiny": "5e-324",
        "infinite": "inf",
        "nothing": "nan",
    },
    "texts": {
        "empty": "''",
        "no_bytes": "b''",
        "plain": '"it\'s"',
        "latin": r"'naïve\x85'",
        "two": "'日本'",
        "four": r"'𝄞\udc80'",
        "escaped": r"""'\x00\n\t"\'\\'""",
        "raw": r'''b"\x00\xff'a"''',
    },
    "containers": {
        "parameter": "[]",
        "pair": "(1, 2.5)",
        "one": "('a',)",
        "nested": "{'k': [1, {2}], (1, 2): None}",
        "nothing": "((), {}, set(), frozenset())",
        "few": "{3}",
        "kept": "frozenset({4})",
        "deep": "[[[[...]]]]",
        "itself": "[1, [1, [1, [...]]]]",
        "holes": "{8: '8'}",
        "number": "7",
        "fields": "{'inner': 1}",
        "shared": "[{'a': 'a', 'b': 'b'}, {'b': 'b', 'a': 'a'}]",
    },
    "others": {
        "thing": OBJECT.format("Größe"),
        "derived": OBJECT.format("Sub"),
        "ordered": OBJECT.format(r"collections\.OrderedDict"),
        "counted": OBJECT.format("Counter"),
        "kind": OBJECT.format("type"),
        "function": OBJECT.format("function"),
        "module": OBJECT.format("module"),
    },
    "cells": {
        "argument": "1",
        "kept": "2",
        "local": "'changed'",
        "unused": "[3]",
        "inner": OBJECT.format("function"),
    },
    "cells.<locals>.inner": {"argument": "1", "local": "'changed'", "free": "'in a cell'"},
    "made.<locals>.Body": {"attribute": "3", "_private": "'p'", "_Body__mangled": "4"},
    "<module>": {"NUMBER": "5", "NAMES": "['a', 'b']"},
}


def locals_of(document: dict) -> dict[str, dict[str, str]]:
    """The variables of each of Python's frames."""
    (thread,) = document["threads"]
    return {frame["function"]: frame["locals"] for frame in thread["stack"] if "locals" in frame}


def check(found: dict[str, dict[str, str]]) -> None:
    for function, expected in EXPECTED.items():
        variables = found[function]
        assert list(variables) == sorted(expected), function
        for name, text in expected.items():
            if text.startswith("<") and "0x" in text:
                assert re.fullmatch(text, variables[name]), name
            else:
                assert variables[name] == text, name
    assert found["rest"] == {} and found["made"].keys() <= {"Body"}


@pytest.mark.parametrize("interpreter", list(interpreters()))
def test_every_version(interpreter):
    with Resting(interpreter, HERE / "dump_locals_program.py") as child:
        check(locals_of(dumped(child.pid, "--locals")))


def test_a_core_file(tmp_path):
    with Resting(sys.executable, HERE / "dump_locals_program.py") as child:
        path = copy_of(child.pid, tmp_path)
        live = locals_of(dumped(child.pid, "--locals"))
        assert locals_of(dumped(child.pid)) == {}
    check(live)
    assert locals_of(json.loads(command("core", "--json", "--locals", str(path)).stdout)) == live


# ---- As reports have them --------------------------------------------------------------------------

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


def test_texts_are_those_of_reports():
    lines = [f"v{number} = {value}" for number, value in enumerate(VALUES)]
    program = "def f():\n " + "\n ".join(lines) + "\n print(flush=True)\n input()\nf()"
    with Resting(sys.executable, "-c", program) as child:
        shown = subprocess.run([PROGRAM, "--pid", str(child.pid), "--locals"], capture_output=True, text=True)
    found = locals_of(json.loads(shown.stdout))["f"]
    stacksplice.install(locals=True)
    try:
        for number, value in enumerate(VALUES):
            assert local_of("value", found[f"v{number}"]) == text_of_value(eval(value)), value
    finally:
        stacksplice.uninstall()


PAGE = [["--html", "-"]] if importlib.util.find_spec("jinja2") else []
SECRETS = """
def f():
    password = "hunter1"
    shop = {"card": {"api_key": "hunter2"}, "url": "https://anna:hunter3@shop.example"}
    long = "x" * 190 + "password=" + "hunter4" + "y" * 500
    print(flush=True)
    input()
f()
"""


def test_no_secret_is_shown():
    with Resting(sys.executable, "-c", SECRETS) as child:
        for form in ([], ["--json"], *PAGE):
            text = command("dump", "--locals", *form, str(child.pid)).stdout
            assert "hunter" not in text and text.count("[redacted: ") >= 3


def test_text_has_them_below_their_frame():
    with Resting(sys.executable, "-c", SECRETS) as child:
        lines = command("dump", "--locals", str(child.pid)).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith("in f"))
    assert [line.partition(" = ")[0] for line in lines[at + 1 : at + 4]] == [
        "        long",
        "        password",
        "        shop",
    ]
    assert lines[at + 2] == "        password = [redacted: password]"


def test_a_flame_graph_has_none():
    done = command("dump", "--locals", "--repeat", "1", "1", status=2)
    assert done.stdout == "" and done.stderr.endswith("leave out --repeat or --locals\n")


# ---- Bounds ----------------------------------------------------------------------------------------

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
    assert len(shown) == FRAMES and shown[0] == {"n": "0"}
    with Resting(sys.executable, "-c", LARGE.replace("inner(50)", "inner(5)")) as child:
        found = locals_of(dumped(child.pid, "--locals"))["many"]
    assert len(found) == VARIABLES
    assert all(len(text) < 600 for text in found.values())
    assert found["a00"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]" and found["a05"] == "<int, very large>"


# ---- Damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    with Resting(sys.executable, HERE / "dump_locals_program.py") as child:
        return copy_of(child.pid, tmp_path_factory.mktemp("core"))


@pytest.mark.parametrize("seed", range(3))
def test_damaged_values_do_no_harm(copied, tmp_path, seed):
    names = rb"in a cell|attribute|NUMBER|parameter"
    damage(copied, tmp_path, seed, "--locals", near=names, reach=30000)
