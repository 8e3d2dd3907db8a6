"""Errors whose interpreter has gone: what they say by value stays."""

from __future__ import annotations

import pytest

CREATE = """
import sys, threading
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters

def create(isolated):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if isolated else "legacy")
    return interpreters.create(isolated=isolated)
"""

FAIL = """
import stacksplice
def fails():
    raise ValueError("of the other interpreter")
try:
    fails()
except ValueError as exc:
    stacksplice.originate(exc)
"""


@pytest.mark.parametrize("isolated", [False, True], ids=["legacy", "own lock from 3.12"])
def test_an_error_in_the_slot_outlives_its_interpreter(child, isolated):
    child(
        CREATE
        + f"""
import stacksplice
made = create({isolated})
interpreters.run_string(made, {FAIL!r})
alive = stacksplice.peek_error()
assert alive.language_exception is None  # not of this interpreter
interpreters.destroy(made)
info = stacksplice.take_error()
assert info == alive and stacksplice.peek_error() is None
assert (info.language, info.type, info.message) == ("python", "ValueError", "of the other interpreter")
assert info.language_exception is None
assert [f.function for f in info.stack if f.kind == "script"][0] == "fails"
assert "of the other interpreter" in info.to_json()
"""
    )


def test_interpreters_fail_beside_each_other(child):
    child(
        CREATE
        + f"""
wrong = []
def work():
    try:
        made = create(True)
        for _ in range(20):
            interpreters.run_string(made, {FAIL + "stacksplice.take_error()"!r})
        interpreters.run_string(made, {FAIL!r})  # left in the slot of this thread
        interpreters.destroy(made)
    except BaseException as exc:
        wrong.append(exc)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""
    )
