"""What lupa does stays the same with install(): types, texts, arguments, causes, values, memory.

One thing is added: Python's exception that ended a coroutine, which lupa loses, is the cause of its LuaError.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import lupa_runtimes
import pytest
from building import HERE, PACKAGE, ran


def told(*arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUTF8": "1"}
    program = HERE / "lupa_features.py"
    options = {"stderr": subprocess.STDOUT, "env": environment, "timeout": 300}
    return ran(sys.executable, program, *arguments, **options).stdout.splitlines()


ENDED_BY = {"key": "KeyError", "interrupt": "KeyboardInterrupt"}


def with_cause(line: str) -> str:
    found = re.match(r"(?:next|send), then (key|interrupt)\(\) -> \('lupa.lua\d+', 'LuaError', '', ", line)
    if not found:
        return line
    return line.replace("('NoneType', 'NoneType', False)", f"({ENDED_BY[found[1]]!r}, 'NoneType', True)")


@pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)
def test_everything_stays(name: str) -> None:
    without = told(name)
    assert len(without) > 700 and "afterwards -> 5" in without
    assert told(name, "install") == [with_cause(line) for line in without]
