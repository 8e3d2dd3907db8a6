"""Where the tests of bridges find what they need, and the type of their fixture."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
import stacksplice

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = Path(stacksplice.__file__).resolve().parent.parent
LUA_MODULES = Path(os.environ.get("STACKSPLICE_BUILD_DIR", ROOT / "build" / "dev")) / "lua" / "5.4"

Run = Callable[..., str]

# The compiler for each kind of source: the variable that names it, its usual name, its options.
_COMPILERS = {".c": ("CC", "cc", []), ".cpp": ("CXX", "c++", ["-std=c++17"])}


def compile_extension(output: Path, source: Path, *options: str) -> None:
    """SOURCE as an extension module of this Python, with debug information and hidden symbols."""
    variable, usual, standard = _COMPILERS[source.suffix]
    compiler = shlex.split(os.environ.get(variable, usual))
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no {compiler[0]}")
    command = [*compiler, *standard, "-g", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    command += [f"-I{ROOT / 'tests' / 'support'}", f"-I{sysconfig.get_path('include')}"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    command += [str(source), "-o", f"{output}{suffix}", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
