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

def flood(numbers, **changes):
    for number in numbers:
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

FLOODS = {
    "number": (300_000, "co_filename='<made %d>'"),
    "files": (12_000, "co_filename='%d' + 'x' * 100_000"),
    "names": (30_000, "co_name='%d' + 'ï' * 100_000"),
}
AFTERWARDS = """
import os, threading
before, first, old = peak(), frames(steady()), border.capture_both()[1]
error = raised()
info = stacksplice.originate(error)
kept = frames(info.stack)
oldest = types.FunctionType(MADE, {"capture": border.capture_both})()[1]
pid = os.fork()  # both are flooded, each by two threads
wrong, stop = [], threading.Event()

def watch():
    while not stop.is_set():
        seen = frames(steady())[0]
        if seen[0] != "steady":
            wrong.append(seen)

watcher = threading.Thread(target=watch)
parts = range(0, PLACES, 2), range(1, PLACES, 2)
floods = [threading.Thread(target=flood, args=(part,), kwargs=dict(CHANGES)) for part in parts]
for thread in [watcher, *floods]:
    thread.start()
for thread in floods:
    thread.join()
stop.set()
watcher.join()
assert not wrong, wrong[:3]
now = frames(steady())
assert now[0] == first[0], now
def ordinary():
    return stacksplice.capture()
assert frames(ordinary())[0][0] == "ordinary"
assert frames(info.stack) == kept, info.stack  # a living error keeps its names
stacks = [stacksplice.Stack(stack) for stack in (oldest, old)]
gaps = [frame.reason for frame in stacks[0] if frame.kind == "gap"]
assert gaps.count(DROPPED) >= 1, gaps
assert not any(frame.kind == "script" and frame.function not in ("made", "<module>")
               for stack in stacks for frame in stack)
assert peak() - before < 64, (before, peak())
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_blinds_nobody(child, kind):
    """By two threads, beside one that watches, in a process and its forked child."""
    places, changes = FLOODS[kind]
    child(COMMON + AFTERWARDS.replace("PLACES", str(places)).replace("CHANGES", changes))
