"""Bridges that know nothing of stacksplice: what they do stays as it is, what is known is said.

Those that are not installed (requirements.txt) are skipped by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bridging import HERE, PACKAGES, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run source in a child process, whose hooks and loaded libraries are its own."""

    def run_source(source: str, *arguments: str) -> str:
        paths = [str(PACKAGES), str(HERE), *filter(None, sys.path)]
        done = subprocess.run(
            [sys.executable, "-c", source, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"},
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run_source
