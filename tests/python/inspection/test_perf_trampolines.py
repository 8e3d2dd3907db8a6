"""Stacks of a process that shows its functions to perf: each call goes through made code."""

from __future__ import annotations

import json
import sys

import pytest
from building import HERE, PACKAGE, Resting
from test_dump import dumped

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12) or not sys.platform.startswith("linux"), reason="CPython 3.12 on Linux has it"
)

PROGRAM = """
import json, sys
import stacksplice

def down(n, last):
    if n:
        return down(n - 1, last)
    return last()

def fails():
    raise ValueError("no stock")

def told(stack):
    return [(frame.kind, frame.function or frame.reason, frame.module) for frame in stack]

found = {"active": sys.is_stack_trampoline_active(), "capture": told(down(12, stacksplice.capture))}
try:
    down(12, fails)
except ValueError as error:
    stacksplice.originate(error)
found["error"] = told(stacksplice.take_error().stack)
print(json.dumps(found), flush=True)
down(12, sys.stdin.readline)
"""


def run(*options: str) -> tuple[dict[str, list[list[str | None]]], list[list[str | None]]]:
    """What PROGRAM says of its stacks, and the main thread's stack by `dump`."""
    with Resting(sys.executable, *options, "-c", PROGRAM, PYTHONPATH=f"{PACKAGE.parent}:{HERE}") as child:
        found = json.loads(child.line)
        (thread,) = dumped(child.pid)["threads"]
    shown = [
        [frame["kind"], frame.get("function") or frame.get("reason"), frame.get("module")]
        for frame in thread["stack"]
    ]
    return found, shown


def test_trampolines_are_no_frames_and_no_gaps() -> None:
    found, dump = run("-X", "perf")
    plain, plain_dump = run()
    assert found["active"]
    for stack, other in [
        (found["capture"], plain["capture"]),
        (found["error"], plain["error"]),
        (dump, plain_dump),
    ]:
        assert not [frame for frame in stack if frame[0] == "native" and not frame[2]]
        assert [frame[:2] for frame in stack if frame[0] != "native"] == [
            frame[:2] for frame in other if frame[0] != "native"
        ]
