"""Names, paths and lines of others do not control the terminal: no command and no debugger writes such."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from building import HERE, command, start
from debugging import gdb, lldb
from symbol_reports import report
from test_core import copy_of

pytestmark = pytest.mark.any_python

HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb\u2066\u2028c\rd\x7f"
# What a terminal obeys; line feeds and tabs are those of the layout.
COMMANDS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

PROGRAM = """import os, sys, threading
hostile, folder = sys.argv[1], sys.argv[2]
path = os.path.join(folder, "f" + hostile + ".py")
with open(path, "w") as file:
    file.write("one\\nrest(1) # " + hostile.replace("\\r", "") + "\\n")
os.utime(path, (1, 1))
made = type("K" + hostile, (ValueError,), {})
text = "def f(v):\\n    g(v)\\n"
def rest(*_):
    print(flush=True)
    sys.stdin.read()
scope = {"g": rest}
exec(compile(text, path, "exec"), scope)
code = scope["f"].__code__
names = code.co_varnames[0] + hostile + "\\nthread 1 (forged)",
scope["f"].__code__ = code.replace(co_varnames=names, co_name="n" + hostile, co_qualname="q\\n" + hostile)
threading.current_thread().name = "T\\n" + hostile
try:
    raise made("m" + hostile)
except ValueError as exc:
    exc.add_note(hostile)
    scope["f"](made(hostile))
"""


def assert_plain(name: str, text: str) -> None:
    assert not COMMANDS.search(text), (
        name,
        [repr(line) for line in text.split("\n") if COMMANDS.search(line)],
    )


def without_own_lines(text: str) -> str:
    """TEXT without what lldb itself says of a thread: it has its name as the kernel has it, which is
    the one that Python gave it since 3.14."""
    return "\n".join(line for line in text.split("\n") if "stop reason =" not in line)


def test_processes(tmp_path):
    program = tmp_path / "run.py"
    program.write_text(PROGRAM)
    with start(str(program), HOSTILE, str(tmp_path)) as child:
        process = str(child.pid)
        bt = [f"stacksplice bt all -locals{words}" for words in ("", " -all-frames")]
        shown = {
            "dump": command("dump", "--locals", "--all-frames", process).stdout,
            "page": command("dump", "--locals", "--html", "-", process).stdout,
            "picture": command("dump", "--repeat", "0.1", process).stdout,
            "core": command("core", "--locals", str(copy_of(child.pid, tmp_path))).stdout,
            "gdb": gdb(*bt, "stacksplice errors", "bt -full", arguments=("-p", process)),
            "lldb": without_own_lines(lldb(f"process attach -p {process}", *bt)),
        }
    for name, text in shown.items():
        assert_plain(name, text)
        assert "\nthread 1 (forged)" not in text, name
    assert all("forged" in shown[name] for name in ("dump", "core", "gdb", "lldb"))
    assert "rest(1)" in shown["dump"] and "rest(1)" in shown["gdb"]


def hostile_report() -> dict:
    frame = {
        "kind": "native",
        "trust": "exact",
        "language": "native",
        "function": HOSTILE,
        "file": HOSTILE,
        "source": HOSTILE,
        "module": f"/tmp/{HOSTILE}\nstacksplice: forged",
        "module_offset": 16,
        "build_id": "ab" * 20,
        "address": "0x10",
        "inlined": False,
    }
    bare = {
        name: value for name, value in frame.items() if name not in ("function", "file", "source", "build_id")
    }
    script = {**frame, "kind": "script", "language": HOSTILE}
    return {**report([bare, frame, script]), "message": HOSTILE, "type": HOSTILE, "notes": [HOSTILE]}


def output(*arguments: str) -> str:
    done = command(*arguments, status=None, text=False)
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--all-frames"],
        ["show", "--html", "-"],
        ["show", "--json"],
        ["symbolize", "--text"],
        ["symbolize"],
        ["top"],
        ["top", "--html", "-"],
        ["top", "--json"],
    ],
    ids=" ".join,
)
def test_saved_reports(tmp_path, words):
    files = [tmp_path / f"{HOSTILE}.json", tmp_path / f"broken{HOSTILE}.json", tmp_path / f"none{HOSTILE}"]
    wrapped = {"error": hostile_report(), HOSTILE: HOSTILE, "n\n": "v\n"}
    files[0].write_text("\n".join([json.dumps(wrapped), json.dumps(hostile_report())]))
    files[1].write_text('{"x\x1b[31m')
    text = output(*words, *map(str, files))
    assert_plain(" ".join(words), text)
    assert "--html" in words or "\nstacksplice: forged" not in text


def test_messages_of_commands(tmp_path):
    strange = str(tmp_path / HOSTILE)
    for words in (
        ["core", strange],
        ["run", strange],
        ["symbolize", "--symbols", strange, "-"],
        ["dump", "1", "--html", strange],
    ):
        assert_plain(words[0], output(*words))
    script = Path(tmp_path, HOSTILE)
    script.write_text("x")
    script.chmod(0)
    assert_plain("core", output("core", strange))
    assert_plain("core", output("core", str(HERE), "--exe", strange + os.sep))
