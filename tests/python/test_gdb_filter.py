"""What gdb's own `bt` costs: it reads what scripts run, and unwinds nothing that it does not show."""

from __future__ import annotations

import re
import sys

import pytest
from building import HERE, Resting, start
from debugging import gdb, part

pytestmark = pytest.mark.any_python

# Each reading is told, and a question for a name in a process without scripts would be an error.
COUNTED = """python
import stacksplice_gdb_target as target
def counted(*arguments, inspect=target.served.inspect):
    print("READING")
    return inspect(*arguments)
target.served.inspect = counted
"""


@pytest.fixture
def counted(tmp_path):
    """A gdb whose readings can be counted."""
    script = tmp_path / "counted.gdb"
    script.write_text(COUNTED + "end\n")

    def run(process: int, *commands: str) -> str:
        return part(gdb(f"source {script}", "echo BEGIN\\n", *commands, arguments=("-p", str(process))))

    return run


def test_all_threads_are_read_together(counted):
    with start(HERE / "dump_program.py") as child:
        seen = counted(child.pid, "thread apply all bt", "bt 3", "echo AGAIN\\n", "p $pc = $pc", "bt 3")
    before, _, after = seen.partition("AGAIN\n")
    assert len(re.findall(r"^Thread ", before, re.MULTILINE)) > 10
    # The first thread alone, then all of them, until something may have changed.
    assert (before.count("READING"), after.count("READING")) == (2, 1)


def test_a_process_without_scripts_is_not_unwound(counted):
    with Resting("sh", "-c", "echo; exec sleep 100") as child:
        seen = counted(child.pid, "python target._by_symbols = target._stacks = None", "bt 3")
    assert seen.count("READING") == 1 and "#0 " in seen and "rror" not in seen


def test_a_long_stack(counted):
    """Of Python frames that each have native ones between them, as many as 3.12 allows in C."""
    program = (
        "import sys\nsys.setrecursionlimit(10000)\n"
        "def f(n):\n return max([n], key=lambda _: f(n - 1)) if n else (print(flush=True), input())\nf(300)"
    )
    with Resting(sys.executable, "-c", program) as child:
        seen = counted(child.pid, "python target._stacks = None", "bt 5", "bt -3")
    assert "(Python) f () at <string>:4" in seen and "(Python) <module> () at <string>:5" in seen
    assert seen.count("READING") == 1 and "rror" not in seen
