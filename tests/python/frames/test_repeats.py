"""Captures that the core repeats by a plan: what must not be repeated, and that verifying finds it.

Each program runs in a process that compares every repeated capture with a full one.  Blind plans ignore
the conditions that the binding reports; then each program must end in such a comparison.
"""

from __future__ import annotations

import platform
import re
import signal
import sys

import pytest
from building import ran
from subinterpreters import CREATE

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="plans need a function in assembly, which x86_64 alone has"
)

# Each new code object lies where one lay that has died.
DEAD_CODE = """
import stacksplice

def place():
    return stacksplice.capture()

first = place.__code__
for i in range(100):
    name = f"place{i:03}"
    place.__code__ = first.replace(co_name=name, co_qualname=name)
    for _ in range(8):
        top = place()[0]
    assert top.function == name
"""

# A program that only captures, with the lock (PyDLL) or without (CDLL).
CAPTURES = """
import ctypes

with open("/proc/self/maps") as maps:
    core = next(line.split()[-1] for line in maps if "/libstacksplice.so" in line)
captures = {library: getattr(ctypes, library)(core).stacksplice_capture for library in ("PyDLL", "CDLL")}
frames, count = (ctypes.c_size_t * 256)(), ctypes.c_uint32()
"""

# The same in such a program: nobody watches its code, so that words tell.
DEAD_UNWATCHED_CODE = f"""
import stacksplice
{CAPTURES}

def place():
    return captures["%s"](0, 256, frames, ctypes.byref(count), None)

first = place.__code__
for i in range(100):
    name = f"place{{i:03}}"
    place.__code__ = first.replace(co_name=name, co_qualname=name)
    for _ in range(8):
        place()
"""

# One place, to which exceptions came from two lines.
OTHER_TRACEBACK = """
import stacksplice

def fail():
    raise ValueError

def catch(first):
    try:
        if first:
            fail()
        else:
            fail()
    except ValueError as exc:
        stacksplice.originate(exc)
        return stacksplice.error_info(exc).stack

for i in range(200):
    for _ in range(4):
        line = next(frame.line for frame in catch(i % 2) if frame.function == "catch")
        assert line == (10 if i % 2 else 12)
"""

# One stack with frames of two interpreters.  Without the lock, captures see those of one alone.
ANOTHER_STATE = f"""
import stacksplice
{CREATE}
made = create(False)
run(made, {{!r}})
interpreters.destroy(made)
""".format(f"""
import os
{CAPTURES}
def place(capture):
    capture(0, 256, frames, ctypes.byref(count), None)
    return tuple(frames[: count.value])

for again in range(50):
    seen = [place(captures[way]) for way in ("PyDLL", "CDLL") for _ in range(4)]
    if not again:
        continue  # 3.15 makes a call through a function of its own until it has specialized it
    assert len(set(seen[:4])) == len(set(seen[4:])) == 1, seen
    scripts = [[frame for frame in stack if frame >> 48 == 0x5353] for stack in (seen[0], seen[4])]
    assert scripts[1] and set(scripts[1]) < set(scripts[0]), seen

alike = next(i for i, frame in enumerate(seen[0]) if frame >> 48 == 0x5353)  # up to the first token
os.write(1, b"one call" if seen[0][:alike] == seen[4][:alike] else b"two calls")
""")

WITH_CONDITIONS = {
    "dead code": DEAD_CODE,
    "another traceback": OTHER_TRACEBACK,
    "another thread state": ANOTHER_STATE,
}
PROGRAMS = {
    **WITH_CONDITIONS,
    "dead unwatched code": DEAD_UNWATCHED_CODE % "PyDLL",
    "dead unwatched code, without the lock": DEAD_UNWATCHED_CODE % "CDLL",
}


def run(program, mode):
    return ran(sys.executable, "-c", program, status=None, STACKSPLICE_VERIFY_PLANS=mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_repeated_captures_are_right(name):
    done = run(PROGRAMS[name], "count")
    assert done.returncode == 0, done.stderr
    verified = re.fullmatch(r"stacksplice: (\d+) repeated captures verified\n", done.stderr)
    assert verified and int(verified[1]) > 100


@pytest.mark.parametrize("name", WITH_CONDITIONS)
def test_verifying_finds_what_the_conditions_prevent(name):
    done = run(PROGRAMS[name], "blind")
    if done.stdout == "two calls":
        pytest.skip("the compiler of this ctypes made two calls of one, so that the stacks differ anyway")
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.endswith("stacksplice: a repeated capture differs from a full one\n")
