"""A host that starts and ends Python fifty times: errors that outlive it hold nothing of it."""

from __future__ import annotations

import os
import sys

import pytest
from building import HERE, PACKAGE, compile_c, core_library, ran
from test_embedding import embedding_flags

BEGIN = """
import host, stacksplice
def fails():
    raise ValueError("of the last round")
def caught(function):
    try:
        function()
    except Exception as exc:
        return exc
def group():
    raise ExceptionGroup("all", [caught(fails), KeyError("never raised")]) from caught(fails)
"""

# The slot, C, and what goes last of all; a thread of the host has a slot in the main interpreter only.
LEAVE = """
import sys
host.hold(caught(group))
stacksplice.originate(caught(group))
class Late:
    def __del__(self):
        stacksplice.originate(caught(fails))
sys.keep = Late()
"""
LEAVE_IN_A_THREAD = """
host.call_in_thread(lambda: stacksplice.originate(caught(group)))
"""
# As much as the texts of some errors; the modules that an exception holds are 250 KiB and more.
SOME_TEXTS = 8 * 1024


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    """By how many bytes malloc's blocks grow with each start and end of Python that runs a script."""
    program = tmp_path_factory.mktemp("restart") / "restart"
    source = HERE / "restart_program.c"
    compile_c(program, [source], "-pthread", "-rdynamic", *core_library(), *embedding_flags())

    def measure(script: str, *where: str) -> int:
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONMALLOC": "malloc"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(PACKAGE.parent)}
        done = ran(program, "50", BEGIN + script, *where, env=environment, timeout=300)
        assert done.stderr == ""
        return int(done.stdout)

    return measure


@pytest.mark.long
@pytest.mark.parametrize(
    ("leave", "where"),
    [(LEAVE + LEAVE_IN_A_THREAD, ()), (LEAVE, ("sub",))],
    ids=["interpreter", "sub-interpreter"],
)
def test_errors_that_are_left_hold_no_interpreter(growth, leave, where):
    """Beside what CPython itself does not give back, when no error is left."""
    assert growth(leave, *where) - growth("caught(group)", *where) < SOME_TEXTS
