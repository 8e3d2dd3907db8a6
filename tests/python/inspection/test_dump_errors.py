"""``stacksplice dump`` and ``core``: the errors of other processes are what they say themselves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, PACKAGE, Resting, command, lua_with_stacksplice, ran, start
from test_core import copy_of, core_of, damage, read
from test_dump import PROGRAM, dumped, rows_of

PROGRAM_WITH_ERRORS = str(HERE / "dump_errors_program.py")
# What only the process itself makes of an error.
OWN = ("schema", "symbol", "description", "fingerprint", "loose_fingerprint")


@pytest.fixture(scope="module")
def failing() -> Iterator[tuple[int, dict]]:
    """A process whose threads have an error each, and its own reports of them."""
    with start(PROGRAM_WITH_ERRORS, "wait") as child:
        yield child.pid, json.loads(child.line)


def plain(error: dict) -> dict:
    """What both the process and its reader say of an error."""
    rows = {name: value for name, value in error.items() if name not in OWN}
    if "stack" in rows:
        rows["stack"] = rows_of(rows["stack"])
    for name in ("propagation", "exceptions", "transformed"):
        if rows.get(name) is not None:
            rows[name] = [plain(inner) for inner in rows[name]]
    return rows


def errors_of(document: dict) -> dict[str, dict]:
    return {str(thread["thread_id"]): plain(thread["error"]) for thread in document["threads"]}


def clean(report: dict) -> dict:
    return json.loads(json.dumps(plain(report)).replace("hunter2", "[redacted: password]"))


def same(found: dict[str, dict], own: dict[str, dict]) -> None:
    assert {name: json.loads(json.dumps(error)) for name, error in found.items()} == {
        name: clean(report) for name, report in own.items()
    }


def test_errors_are_those_that_the_process_reports(failing):
    process, own = failing
    document = dumped(process)
    assert document["notes"] == [] and "failed" not in document
    (interpreter,) = document["interpreters"]
    assert (interpreter["language"], interpreter["version"]) == ("python", sys.version)
    same(errors_of(document), own)
    (error,) = [thread["error"] for thread in document["threads"] if thread["error"]["propagation"]]
    assert len(error["propagation"]) == 2 and len(error["transformed"]) == 1 and error["notes"]
    assert max([len(thread["error"]["transformed"]) for thread in document["threads"]]) == 63


@pytest.fixture(scope="module")
def copied(failing, tmp_path_factory) -> Path:
    """A core file of that process, made by gdb."""
    return copy_of(failing[0], tmp_path_factory.mktemp("core"))


def test_a_core_file_has_the_same(failing, copied):
    same(errors_of(read(copied)), failing[1])


@pytest.fixture(scope="module")
def crashed(tmp_path_factory) -> Path:
    """A core file of the kernel."""
    script = Path(PROGRAM_WITH_ERRORS).read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("crash")
    return core_of(sys.executable, "abort", folder, script, PYTHONPATH=str(PACKAGE.parent))


def test_a_core_file_of_the_kernel(crashed):
    found = [thread["error"] for thread in read(crashed)["threads"]]
    messages = {(error["message"], len(error["propagation"])) for error in found}
    assert messages == {
        ("password=[redacted: password]", 2),
        ("group (2 sub-exceptions)", 0),
        ("99", 0),
    }


def test_text_is_that_of_reports(failing):
    process, _ = failing
    text = command("dump", str(process)).stdout
    parts = text.split("\nCurrent error of this thread:\n")
    assert len(parts) == 4 and all(part.count("\nthread ") <= 1 for part in parts[1:])
    (group,) = [part for part in parts if "+-+---------------- 1 ----------------" in part]
    assert "    | ExceptionGroup: inner (1 sub-exception)\n" in group
    (chain,) = [part for part in parts if "KeyError" in part]
    assert "\nKeyError: 'a ключ, \U0001f511'\n" in chain
    assert "\nValueError: password=[redacted: password]\nnote: while the order was read\n" in chain
    assert ", line 28, in fail\n" in chain
    assert "hunter2" not in text


def test_each_token_can_be_asked_for(failing):
    process, _ = failing
    document = dumped(process)
    stacks = [thread["error"]["stack"] for thread in document["threads"]]
    for frame in [frame for stack in stacks for frame in stack if frame["kind"] != "native"]:
        for member in ("source", "source_column"):  # which the command adds
            frame.pop(member, None)
        told = ran(PROGRAM, "--pid", str(process), "--token", frame["address"]).stdout
        assert json.loads(told) == frame


def test_a_process_without_the_library(failing):
    with start("-c", "print(flush=True)\ninput()") as child:
        document = dumped(child.pid)
        token = ran(PROGRAM, "--pid", str(child.pid), "--token", "0x5353000000010008").stdout
    assert not any("error" in thread for thread in document["threads"])
    assert json.loads(token)["reason"] == "the process has no stacksplice that can be read"


LUA = """
local stacksplice = require "stacksplice"
stacksplice.originate("token=abc from Lua")
io.write("ready\\n"):flush()
io.read()
"""


def test_lua(tmp_path):
    lua, variables = lua_with_stacksplice()
    (tmp_path / "x.lua").write_text(LUA)
    with Resting(lua, tmp_path / "x.lua", **variables) as child:
        assert child.line == "ready\n"
        document = dumped(child.pid)
    (thread,), (state,) = document["threads"], document["interpreters"]
    assert (state["language"], state["version"]) == ("lua", "5.4")
    error = thread["error"]
    assert error["language"] == "lua" and error["message"] == "token=[redacted: token] from Lua"
    assert ("x.lua", 3) in [
        (os.path.basename(frame.get("file", "")), frame.get("line")) for frame in error["stack"]
    ]


# ---- Damage --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_damaged_errors(crashed, tmp_path, seed):
    words = rb"stacksplice:data|password=hunter2|SSER|SSTA|while the order was"
    damage(crashed, tmp_path, seed, near=words, reach=600)
