"""``dump --locals`` and ``core --locals``: variables of Lua's functions, read without running any code."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from building import HERE, Resting, command, lua_with_stacksplice
from test_core import copy_of, damage
from test_dump import PROGRAM, dumped
from test_dump_locals import FRAMES, PAGE, VARIABLES, locals_of
from test_dump_lua import luas, name_of

pytestmark = pytest.mark.any_python

OBJECT = "<{}: 0x[0-9a-f]+>"
EXPECTED = {
    "others": {
        "parameter": "1",
        "unset": "nil",
        "yes": "true",
        "no": "false",
        "zero": "0",
        "negative": "-7",
        "least": str(-(2**63)),
        "half": "0.5",
        "whole": "2.0",
        "large": "1e+300",
        "small": "-4.9406564584125e-324",
        "infinite": "-inf",
        "empty": '""',
        "text": r'"naïve\000\n\"\\\127' + '\ufffd"',
        "long": '"' + "é" * 100 + '"...',
        "longer": '"' + "x" * 200 + '"...',
        "thread": OBJECT.format("thread"),
        "file": OBJECT.format("userdata"),
        "closure": OBJECT.format("function"),
        "builtin": OBJECT.format("function"),
    },
    "scopes": {"index": "1", "value": '"a"', "shadowed": "2"},
    "main chunk": {
        "rest": OBJECT.format("function"),
        "tables": OBJECT.format("function"),
        "scopes": OBJECT.format("function"),
        "others": OBJECT.format("function"),
    },
    "rest": {},
    "tables": {
        "empty": "{}",
        "sequence": "{1, 2, 3}",
        "record": '{x = "a"}',
        "holes": "{1, [3] = 3}",
        "removed": "{b = 2}",
        "nested": "{{{{...}}}}",
        "itself": "{itself = {itself = {itself = {...}}}}",
        "array": "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...}",
        "short": "{1, 2, 3, 4, 5, 6, 7}",
        "length": "7",
        "keys": "{[2.5] = true}",
        "odd": '{["not a name"] = 1}',
        "number": "{[-1] = 1}",
        "truth": "{[true] = false}",
        "watched": "{1}",
        "password": "[redacted: password]",
        "ended": "1",
        "shop": '{password = "[redacted: password]", card = {api_key = "[redacted: key]"}}',
    },
}
PROGRAM_OF_LUA = str(HERE / "dump_locals_program.lua")


def sorted_pairs(text: str) -> str:
    """The text of a table whose pairs have no order."""
    return "".join(sorted(text))


def of_lua(document: dict) -> dict[str, dict[str, str]]:
    for thread in document["threads"]:
        thread["stack"] = [frame for frame in thread["stack"] if frame["language"] == "lua"]
    return locals_of(document)


def check(found: dict[str, dict[str, str]]) -> None:
    del found["main chunk"]["hostile"]
    assert found.keys() == EXPECTED.keys()
    for function, expected in EXPECTED.items():
        assert list(found[function]) == sorted(expected), function
        for name, text in expected.items():
            if "0x" in text:
                assert re.fullmatch(text, found[function][name]), name
            else:
                assert sorted_pairs(found[function][name]) == sorted_pairs(text), name


@pytest.fixture(scope="module", params=list(luas()), ids=name_of)
def resting(request) -> Iterator[int]:
    with Resting(*request.param, PROGRAM_OF_LUA) as child:
        yield child.pid


def test_every_version(resting):
    check(of_lua(dumped(resting, "--locals")))


def test_a_core_file(resting, tmp_path):
    path = copy_of(resting, tmp_path)
    found = locals_of(json.loads(command("core", "--json", "--locals", str(path)).stdout))
    assert found == locals_of(dumped(resting, "--locals"))
    assert locals_of(dumped(resting)) == {}


def test_no_secret_is_shown(resting):
    for form in ([], ["--json"], *PAGE):
        text = command("dump", "--locals", *form, str(resting)).stdout
        assert "hunter" not in text and text.count("[redacted: ") >= 3


# ---- As reports have them --------------------------------------------------------------------------

REPORTED = r"""
local stacksplice = require "stacksplice"
local values = {
  {1, 2, {3, {4, {5, {}}}}}, {}, {{}, {{}}, {{{}}}},
  {("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60), ("x"):rep(60)},
  {{("y"):rep(190)}, {("y"):rep(190)}, {("y"):rep(190)}, 1},
  ("é"):rep(100), ("é"):rep(101), "x" .. ("é"):rep(100),
  ("x"):rep(190) .. "password=" .. ("hunter2 "):rep(30),
  {password = {1}}, {[1.5] = {}}, {[-1] = "a\nb"}, {["a b"] = "\0"},
  1e15, 1e100, -0.0, 0.1, 3, "\27[1m", true,
}
local sequence, mixed = {}, {1, 2, 3, x = 4}
for i = 1, 12 do sequence[i] = {i} end
table.insert(values, sequence)
table.insert(values, mixed)
require 'stacksplice.host'.install {locals = true}
local function fails(value) error {} end
for _, value in ipairs(values) do
  local _, failure = xpcall(function() fails(value) end, stacksplice.handler)
  print((stacksplice.error_info(failure):text():match "        value = ([^\n]+)"))
end
local function shown(number, value)
  if values[number + 1] ~= nil then
    shown(number + 1, values[number + 1])
  else
    print() io.flush() io.read "a"
  end
  return number
end
shown(1, values[1])
"""


def test_texts_are_those_of_reports():
    lua, variables = lua_with_stacksplice()
    with Resting(lua, "-e", REPORTED, **variables) as child:
        lines = [child.line, *iter(child.stdout.readline, "\n")]
        (thread,) = dumped(child.pid, "--locals")["threads"]
    reported = [line.rstrip("\n") for line in lines]
    frames = [frame["locals"] for frame in thread["stack"] if frame.get("function") == "shown"]
    assert len(reported) == len(frames) == 22
    assert [frame["value"] for frame in reversed(frames)] == reported


# ---- Bounds and damage -----------------------------------------------------------------------------

LARGE = """
local function inner(n) if n > 0 then inner(n - 1) else print() io.flush() io.read "a" end return n end
local function many()
  local a01, a02, a03 = {}, {}, ("x"):rep(50000000)
  for i = 1, 1000000 do a01[i] = i a02[-i] = i end
  local a04 = {} for _ = 1, 100000 do a04 = {a04} end
  local a05 = {} for i = 1, 200000 do a05[-i] = i end for i = 1, 199999 do a05[-i] = nil end
  local a06, a07, a08, a09, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21
  inner(DEPTH)
end
many()
"""


@pytest.mark.long
def test_large_values_are_bounded(resting):
    (lua, *_) = luas()
    with Resting(*lua, "-e", LARGE.replace("DEPTH", "50")) as child:
        raw = subprocess.run([PROGRAM, "--pid", str(child.pid), "--locals"], capture_output=True).stdout
    assert len(raw) < 1 << 20 and raw.count(b'"locals":') == FRAMES
    with Resting(*lua, "-e", LARGE.replace("DEPTH", "5")) as child:
        found = locals_of(dumped(child.pid, "--locals"))["many"]
    assert len(found) == VARIABLES and "a20" in found
    assert found["a01"] == "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...}"
    assert all(len(text) < 600 for text in found.values())


@pytest.mark.parametrize("seed", range(3))
def test_damaged_values_do_no_harm(resting, tmp_path, seed):
    core = copy_of(resting, tmp_path)
    damage(core, tmp_path, seed, "--locals", near=rb"not a name|shadowed|api_key", reach=12000)
