"""Generated code by the hundred thousand: ordinary functions are told all the same, in bounded memory.

Each test runs in a process of its own, since what a flood leaves behind stays in its process.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.long

COMMON = """
import resource, stacksplice, sys, types
import border

DROPPED = "name of this frame evicted: too many newer code locations"
MADE = compile("def made(): return capture()", "<made>", "exec").co_consts[0]

def frames(stack):
    return [(f.function, f.file, f.line) for f in stack if f.kind == "script"]

def steady():
    return stacksplice.capture()

def flood(places, **changes):
    for number in range(places):
        said = {name: change % number for name, change in changes.items()}
        types.FunctionType(MADE.replace(**said), {"capture": border.capture_both})()

def raised():
    try:
        raise ValueError("before the flood")
    except ValueError as exc:
        return exc

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
"""

BY_NUMBER = "flood(int(sys.argv[1]), co_filename='<made %d>')"
BY_BYTES = "flood(int(sys.argv[1]), co_filename='%d' + 'x' * 100_000)"
BY_NAMES = "flood(int(sys.argv[1]), co_name='%d' + 'ï' * 100_000)"

AFTERWARDS = """
before, first, old = peak(), frames(steady()), border.capture_both()[1]
error = raised()
info = stacksplice.originate(error)
kept = frames(info.stack)
oldest = types.FunctionType(MADE, {"capture": border.capture_both})()[1]
%s
now = frames(steady())
assert now[0] == first[0], now
def ordinary():
    return stacksplice.capture()
assert frames(ordinary())[0][0] == "ordinary"
assert frames(info.stack) == kept, info.stack  # a living error keeps its names
stacks = [stacksplice.Stack(stack) for stack in (oldest, old)]
gaps = [frame.reason for frame in stacks[0] if frame.kind == "gap"]
assert gaps.count(DROPPED) >= 1, gaps
assert not any(frame.kind == "script" and frame.function != "made" and frame.function != "<module>"
               for stack in stacks for frame in stack)
assert peak() - before < 64, (before, peak())
"""


@pytest.mark.parametrize(
    "flood, places",
    [(BY_NUMBER, 300_000), (BY_BYTES, 12_000), (BY_NAMES, 30_000)],
    ids=["number", "files", "names"],
)
def test_a_flood_blinds_nobody(child, flood, places):
    child(COMMON + AFTERWARDS % flood, str(places))


def test_a_flood_in_a_forked_child(child):
    source = (
        COMMON + "import os\n" + "first = frames(steady())\npid = os.fork()\nif pid == 0:\n    " + BY_NUMBER
    )
    source += """
now = frames(steady())
assert now[0] == first[0], now
def ordinary():
    return stacksplice.capture()
assert frames(ordinary())[0][0] == "ordinary"
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""
    child(source, "300000")


def test_threads_flood(child):
    source = (
        COMMON
        + """
import threading
wrong = []

def watch(stop):
    while not stop.is_set():
        seen = frames(steady())[0]
        if seen[0] != "steady":
            wrong.append(seen)

stop = threading.Event()
watcher = threading.Thread(target=watch, args=(stop,))
names = [{"co_filename": f"<{i} %d>"} for i in range(3)]
floods = [threading.Thread(target=flood, args=(100_000,), kwargs=name) for name in names]
for thread in [watcher, *floods]:
    thread.start()
for thread in floods:
    thread.join()
stop.set()
watcher.join()
assert not wrong, wrong[:3]
assert frames(steady())[0][0] == "steady"
"""
    )
    child(source)
