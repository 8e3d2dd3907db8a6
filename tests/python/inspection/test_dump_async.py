"""``dump`` and ``core`` show asyncio's tasks on each CPython of this machine: their frames, and who awaits
whom, as the program itself knows them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from building import HERE, Resting, command
from debugging import lua_library
from test_core import copy_of, damage
from test_dump import PROGRAM, dumped, interpreters

if lua_library() is None:
    pytest.skip("no shared Lua 5.4", allow_module_level=True)
# By its path, since the fetched interpreters have libraries of their own.
MAPPED = Path("/proc/self/maps").read_text().splitlines()
LIBRARY = next(line.split()[-1] for line in MAPPED if "/liblua5.4" in line)

TASKS = HERE / "dump_tasks_program.py"
AWAITED_BY = {
    **{f"gathered {number}": ["gather"] for number in range(3)},
    **{"waited": ["wait"], "shielded": ["shield"], "grouped": ["group"], "completed": ["complete"]},
    **{"timed": ["wait_for"], "shared": ["both 1", "both 2"], "caller": ["Task-1"], "lua": ["caller"]},
    **{"circle 1": ["circle 2"], "circle 2": ["circle 1"]},
}
FOREIGN = "tasks unknown: 1 of classes that do not derive from asyncio.Task"


class Told(NamedTuple):
    """What a process says of its tasks, and what is read of it or of its core file."""

    seen: dict[str, list]
    document: dict[str, Any]
    text: str


@pytest.fixture(scope="module", params=list(interpreters()))
def resting(request) -> Iterator[Resting]:
    with Resting(request.param, "-W", "ignore", TASKS, "lua", LIBRARY) as child:
        yield child


@pytest.fixture(scope="module", params=["dump", "core"])
def told(request, resting: Resting, tmp_path_factory) -> Told:
    seen = json.loads(resting.line)
    seen.pop("foreign", None)  # from 3.14 on all_tasks() does not know it either
    if request.param == "dump":
        return Told(seen, dumped(resting.pid), command("dump", str(resting.pid)).stdout)
    core = copy_of(resting.pid, tmp_path_factory.mktemp("core"))
    document = json.loads(command("core", "--json", core).stdout)
    return Told(seen, document, command("core", core).stdout)


def members(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All tasks by name, each with its stack."""
    groups = document["tasks"]
    return {task["name"]: {**task, "stack": group["stack"]} for group in groups for task in group["members"]}


def rows(stack: list[dict[str, Any]]) -> list[list]:
    frames = [frame for frame in stack if frame["kind"] == "script"]
    return [[frame["file"], frame["function"], frame["line"]] for frame in frames]


def test_tasks_are_those_that_the_program_has(told: Told):
    found = members(told.document)
    assert found.keys() == {*told.seen, "lua"} - {"password=hunter2"} | {"password=[redacted: password]"}
    for name, frames in told.seen.items():
        assert rows(found.get(name, found["password=[redacted: password]"])["stack"]) == frames, name
    assert [frame["reason"] for frame in found["hide"]["stack"] if frame["kind"] == "gap"] == [
        "task is waiting inside an object that does not expose its frames"
    ]
    assert told.document["notes"] == [FOREIGN]


def test_who_awaits_whom(told: Told):
    found = members(told.document)
    names = {task["address"]: name for name, task in found.items()}
    awaited = {name: [names[address] for address in task["awaited_by"]] for name, task in found.items()}
    assert {name: outer for name, outer in awaited.items() if outer} == AWAITED_BY
    assert [name for name, task in found.items() if "ready" in task] == ["ready"]
    kinds = [found[name].get("awaits") for name in ("gather", "circle 1", "waited", "new", "hide")]
    assert kinds == ["_GatheringFuture", "Task", "Future", None, None]


def test_python_says_the_same(resting: Resting):
    document = dumped(resting.pid)
    if document["process"]["pythons"][0]["version"] < "3.14":
        pytest.skip("python -m asyncio ps is new in 3.14")
    asked = subprocess.run(
        [resting.args[0], "-m", "asyncio", "ps", str(resting.pid)], capture_output=True, text=True
    )
    pairs = re.findall(r"^\d+ +(0x[0-9a-f]+) .* (0x[0-9a-f]+) *$", asked.stdout, re.M)
    version = document["process"]["pythons"][0]["version"]
    # What as_completed() waits for, such a Python does not know itself.
    silent = {"completed"} if tuple(map(int, re.findall(r"\d+", version)[:3])) < (3, 14, 8) else set()
    own = [
        (task["address"], outer)
        for name, task in members(document).items()
        for outer in (name not in silent and task["awaited_by"]) or ["0x0"]
    ]
    assert sorted(pairs) == sorted(own), asked.stderr


def test_tasks_that_await_hang_outside_of_the_running_one(told: Told):
    thread = told.document["threads"][0]
    assert [role["task"] for role in thread["python"]] == ["lua"]
    assert members(told.document)["lua"]["thread_id"] == thread["thread_id"]
    seams = [at for at, frame in enumerate(thread["stack"]) if frame.get("asynchronous")]
    assert [thread["stack"][at]["reason"] for at in seams] == [
        "awaited by another task: caller",
        "awaited by another task: Task-1",
    ]
    outside = thread["stack"][seams[0] :]
    assert rows(outside) == told.seen["caller"] + told.seen["Task-1"]
    own = [(frame["language"], frame.get("function")) for frame in thread["stack"][: seams[0]]]
    inner = [own.index(each) for each in (("python", "rest"), ("lua", "inner"), ("python", "call_lua"))]
    assert inner == sorted(inner) and own.index(("python", "<module>")) > inner[-1]


def test_text_has_equal_stacks_once(told: Told):
    assert ', runs task "lua")\n' in told.text
    assert "hunter2" not in told.text
    headings = re.findall(r"^(?:task|\d+ tasks) .*$", told.text, re.M)
    groups = [group for group in told.document["tasks"] if "thread_id" not in group["members"][0]]
    assert len(headings) == len(groups) < len(told.seen)
    assert 'task "ready" (ready to run)' in headings
    assert 'task "Größe" (waiting for a Future)' in headings
    assert 'task "gather" (waiting for "gathered 0", "gathered 1", "gathered 2")' in headings
    assert '2 tasks "both 1", "both 2" (waiting for "shared")' in headings
    assert '2 tasks "circle 1", "circle 2" (waiting for "circle 2", "circle 1", awaited by ' in told.text
    assert '10 tasks "timed", "shared", "waited" and 7 more (waiting for a Future, awaited by ' in told.text
    start = told.text.index("\n    (Python)", told.text.index('task "wait_for"'))
    assert "line" in told.text[start:].splitlines()[1] and "await asyncio.wait_for(" in told.text[start:]


@pytest.mark.parametrize("interpreter", list(interpreters()))
def test_a_loop_without_a_running_task(interpreter):
    with Resting(interpreter, "-W", "ignore", TASKS, "idle") as child:
        seen = json.loads(child.line)
        document = dumped(child.pid)
    found = members(document)
    assert found.keys() - {"password=[redacted: password]"} == seen.keys() - {"password=hunter2", "foreign"}
    assert rows(found["Task-1"]["stack"]) == seen["Task-1"]
    (thread,) = document["threads"]
    assert "task" not in thread["python"][0]
    assert not [frame for frame in thread["stack"] if frame.get("asynchronous")]


MANY = """
import asyncio, sys
async def sleep():
    await asyncio.sleep(1000)
async def main():
    tasks = [asyncio.create_task(sleep()) for _ in range(int(sys.argv[1]))]
    asyncio.get_running_loop().call_soon(lambda: print(flush=True))  # after the first step of each
    await asyncio.gather(*tasks)
asyncio.run(main())
"""


@pytest.mark.parametrize("interpreter", list(interpreters()))
def test_many_tasks_are_one_group(interpreter):
    with Resting(interpreter, "-c", MANY, "10000") as child:
        document = dumped(child.pid)
        text = command("dump", str(child.pid)).stdout
    assert document["notes"] == ["only 8192 tasks are shown: there are more"]
    assert sum(len(group["members"]) for group in document["tasks"]) == 8192
    assert len(document["tasks"]) <= 2 and len(text) < 10000


POOL = """
import concurrent.futures, sys, threading, time
def work(number):
    both.wait()
    if number == 3:
        print(flush=True)
        sys.stdin.read()
both, pool = threading.Barrier(3), concurrent.futures.ThreadPoolExecutor(3)
for number in range(1, 4):
    pool.submit(work, number)
threading.Event().wait()  # the end would end the idle ones
"""


@pytest.mark.parametrize("interpreter", list(interpreters()))
def test_idle_threads_of_a_pool_are_a_line_each(interpreter):
    shown = ""
    with Resting(interpreter, "-c", POOL) as child:
        while shown.count("[idle: ") < 2:  # they have come to their queue
            shown = command("dump", str(child.pid)).stdout
        full = command("dump", "--all-frames", str(child.pid)).stdout
    assert re.search(r"\nthread .*_[0-2].*\n    \[idle: waits for work of its pool\]\n(?:\n|$)", shown)
    assert ", in _worker\n" not in shown  # the one that works has it hidden
    assert re.search(r"\n    \.\.\. \d+ frames of threading hidden\n", shown)
    assert "[idle: " not in full and full.count(", in _worker\n") == 3


def test_flame_graphs_and_debuggers_have_no_tasks(resting: Resting):
    done = subprocess.run([PROGRAM, "--pid", str(resting.pid)], capture_output=True, text=True)
    assert '"tasks":' not in done.stdout and '"asynchronous":' not in done.stdout


@pytest.mark.parametrize("seed", range(3))
def test_damaged_tasks_do_no_harm(tmp_path, seed):
    with Resting(sys.executable, "-W", "ignore", TASKS, "lua", LIBRARY) as child:
        copied = copy_of(child.pid, tmp_path)
    damage(copied, tmp_path, seed, "--tasks", near=rb"gathered|circle|awaited|task_wakeup", reach=20000)
