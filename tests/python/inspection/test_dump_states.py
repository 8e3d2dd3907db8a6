"""``stacksplice dump`` and ``core``: who has the GIL, who waits for it, and who collects."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from building import HERE, Resting, command, start
from test_core import copy_of, core_of, damage, read
from test_dump import dumped, interpreters, state_of

PATIENCE = 30  # seconds, until a thread does what it will do for ever
everywhere = pytest.mark.parametrize("interpreter", list(interpreters()))


def version_of(interpreter: str) -> list[int]:
    question = "import sys; print(*sys.version_info[:3])"
    return [*map(int, subprocess.check_output([interpreter, "-c", question], text=True).split())]


def roles_of(document: dict) -> dict[str, list]:
    """What the threads are to Python by the first of their names: (interpreter, name, gil, collecting)."""
    found = {}
    for thread in document["threads"]:
        roles = [
            (role["interpreter"], role.get("name"), role.get("gil"), role.get("collecting", False))
            for role in sorted(thread["python"], key=lambda role: role["interpreter"])
        ]
        found[roles[0][1]] = roles
    return found


def run(interpreter: str, how: str, check: Callable[[int], None]) -> None:
    """Have CHECK look at the program until it finds what it wants."""
    last = time.monotonic() + PATIENCE
    with Resting(interpreter, HERE / "dump_states_program.py", how) as child:
        while True:
            try:
                return check(child.pid)
            except (AssertionError, KeyError):
                if time.monotonic() > last:
                    raise


def collecting(document: dict) -> list[bool]:
    return [each.get("collecting", False) for each in document["process"]["pythons"]]


@everywhere
def test_one_has_the_gil_and_one_waits_for_it(interpreter):
    def check(process: int) -> None:
        document = dumped(process)
        assert roles_of(document) == {
            "MainThread": [(0, "MainThread", "waiting", False)],
            "asleep \u2713": [(0, "asleep \u2713", None, False)],
            "one": [(0, "one", "held", False)],
        }
        assert collecting(document) == [False]
        if platform.machine() == "x86_64":
            states = {thread["python"][0]["name"]: thread["state"] for thread in document["threads"]}
            assert states == {"MainThread": "sleeping", "asleep \u2713": "sleeping", "one": "running"}
        (python,) = document["process"]["pythons"]
        assert python["version"].startswith(".".join(map(str, version_of(interpreter))))

    run(interpreter, "loop", check)


@everywhere
@pytest.mark.parametrize("how", ["collection", "lent"])
def test_a_collection(interpreter, how):
    """Only from 3.15 on Python says which of several threads collects."""

    def check(process: int) -> None:
        document = dumped(process)
        roles = roles_of(document)
        assert collecting(document) == [True]
        held = "held" if how == "collection" else None
        assert roles["one"] == [(0, "one", held, version_of(interpreter) >= [3, 15])]
        assert roles["MainThread"] == [(0, "MainThread", "waiting" if held else None, False)]
        assert "collects garbage" in command("dump", str(process)).stdout.split("\n\n")[0]

    run(interpreter, how, check)


def test_the_only_thread_collects():
    program = "import gc\ngc.callbacks.append(lambda *_: print(flush=True) or input())\ngc.collect()"
    with start("-c", program) as child:
        text = command("dump", str(child.pid)).stdout
    assert text.split("\n\n")[1].splitlines()[0].endswith(", collects garbage)")


@everywhere
def test_a_second_interpreter(interpreter):
    def check(process: int) -> None:
        document = dumped(process)
        roles = roles_of(document)
        numbers = sorted(each["interpreter"] for each in document["process"]["pythons"])
        assert numbers == [0, 1]
        assert roles["one"] == [(0, "one", None, False), (1, "inner", "held", False)]
        lines = command("dump", str(process)).stdout.splitlines()
        heading = next(line for line in lines if line.startswith("thread ") and '"one"' in line)
        assert heading.endswith(", running, holds the GIL of interpreter 1)")

    run(interpreter, "inside", check)


def test_core_files_and_debuggers_know_it_too(tmp_path):
    def check(process: int) -> None:
        live = dumped(process)
        assert [role[0][2] for role in roles_of(live).values()].count("waiting") == 1
        core = copy_of(process, tmp_path)
        document = read(core)
        assert roles_of(document) == roles_of(live)
        assert document["process"]["pythons"] == live["process"]["pythons"]
        assert not any("state" in thread for thread in document["threads"])

    run(sys.executable, "loop", check)


def test_a_stopped_process():
    with start("-c", "print(flush=True)\nwhile True:\n    pass") as child:
        child.send_signal(signal.SIGSTOP)
        while state_of(child.pid) != "T":
            pass
        (thread,) = dumped(child.pid)["threads"]
    assert thread["state"] == "stopped"


# ---- Names ---------------------------------------------------------------------------------------

NAMES = """
import os, sys, threading, time
class Named(threading.Thread):
    def __init__(self, name, **more):
        super().__init__(target=time.sleep, args=(1000,), name=name, daemon=True)
        self.more = more
threading.Thread(target=time.sleep, args=(1000,), name="plain", daemon=True).start()
Named("of a subclass").start()
Named("\\u00fcber 15 bytes of the kernel's").start()
dictionary = Named("by a dict")
dictionary.__dict__["x"] = 1
dictionary.start()
many = Named("many")
for number in range(100):
    setattr(many, f"attribute_{number}", number)
many.start()
Named('quoted " \\x1b[31m').start()
Named("x" * 300).start()
inner, outer = os.pipe()
if os.fork():
    os.wait()
else:
    os.close(outer)
print(os.getpid(), flush=True)
os.read(inner, 1)  # the child ends with its parent
"""


@everywhere
def test_names(interpreter):
    """Attributes are in their object, or in a dict; in a forked child only the main thread is left."""
    with Resting(interpreter, "-c", NAMES) as child:
        forked = int(child.line)
        inner, document = dumped(forked), dumped(child.pid)
        text = command("dump", str(child.pid)).stdout
        os.kill(forked, signal.SIGKILL)
    assert [thread["python"][0]["name"] for thread in inner["threads"]] == ["MainThread"]
    names = [thread["python"][0].get("name") for thread in document["threads"]]
    assert names == [
        "MainThread",
        "plain",
        "of a subclass",
        "\u00fcber 15 bytes of the kernel's",
        "by a dict",
        "many",
        'quoted " \x1b[31m',
        None,  # longer than is read
    ]
    assert "\\u001b[31m" in text and "\x1b" not in text


def test_threads_that_threading_does_not_know():
    program = (
        "import _thread, time\n_thread.start_new_thread(time.sleep, (1000,))\nprint(flush=True)\ninput()"
    )
    with start("-c", program) as child:
        document = dumped(child.pid)
    assert [len(thread["python"]) for thread in document["threads"]] == [1, 1]
    assert "name" not in document["threads"][1]["python"][0]


# ---- The command line ----------------------------------------------------------------------------


def test_secrets_of_the_command_line_are_not_shown(tmp_path):
    arguments = ["--password", "hunter2", "--token=hunter3", "https://joe:hunter4@shop.example/"]
    with start("-c", "print(flush=True)\ninput()", *arguments) as child:
        shown = [command("dump", *form, str(child.pid)).stdout for form in ([], ["--json"])]
        line = json.loads(shown[1])["process"]["command_line"]
    assert " -c ... --password [redacted: password] --token=[redacted: token] " in line
    assert not any("hunter" in text for text in shown)


def test_a_command_line_is_one_line_without_programs(tmp_path):
    """Code makes secrets of parts, which no rule can know."""
    with start("-c", "print(flush=True)\ninput('hunter' + '2')", "one two", "\x1b[31m", "") as child:
        lines = command("dump", str(child.pid)).stdout.splitlines()
        core = copy_of(child.pid, tmp_path)
    assert lines[1].startswith("command line: /") and lines[1].endswith(" -c ... one two \\u001b[31m")
    assert "hunter" not in json.dumps(read(core)["process"])


def test_a_command_line_that_a_core_cut_loses_its_last_word(tmp_path):
    """It might be half a secret.  The kernel keeps 79 bytes."""
    line = read(core_of(sys.executable, "s" * 200, tmp_path))["process"]["command_line"]
    assert line.endswith("...") and "sss" not in line and len(line) < 80


@pytest.mark.long
def test_damaged_names_do_no_harm(tmp_path):
    with Resting(sys.executable, "-c", NAMES) as child:
        core = copy_of(child.pid, tmp_path)
        os.kill(int(child.line), signal.SIGKILL)
    damage(core, tmp_path, 0, near=rb"of a subclass|by a dict|_active|threading", reach=3000)
