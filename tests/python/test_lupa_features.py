"""What lupa does stays the same with install(): types, texts, arguments, causes, values, memory."""

from __future__ import annotations

import os
import subprocess
import sys

import lupa_runtimes
import pytest
from building import HERE, PACKAGE


def told(*arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "lupa_features.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", lupa_runtimes.each_lua())
def test_everything_stays(name: str) -> None:
    without = told(name)
    assert len(without) > 700 and "afterwards -> 5" in without
    assert told(name, "install") == without
