"""What the tests share: native modules built against the public headers, and child processes."""

from __future__ import annotations

import copy
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import stacksplice

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHARED = ROOT / "bindings" / "shared"
PACKAGE = Path(stacksplice.__file__).resolve().parent
INCLUDES = [
    f"-I{ROOT / 'core' / 'include'}",
    f"-I{ROOT / 'tests' / 'support'}",
    f"-I{ROOT / 'bindings' / 'python' / 'include'}",
    f"-I{sysconfig.get_path('include')}",
]


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def core_library() -> list[str]:
    return [f"-L{PACKAGE}", "-l:libstacksplice.so.0", f"-Wl,-rpath,{PACKAGE}"]


def compile_c(output: Path, sources: list[Path], *flags: str) -> Path:
    command = [*compiler(), "-g", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", *INCLUDES]
    command += [str(source) for source in sources] + ["-o", str(output), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


class Child:
    """Runs programs in a child process of this interpreter."""

    def __init__(self, border_path: Path) -> None:
        self.begin = ""
        paths = [str(border_path.parent), str(PACKAGE.parent), str(HERE)]
        self.environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(paths)}

    def __call__(
        self, source: str, *arguments: str, status: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", self.begin + source, *arguments],
            capture_output=True,
            text=True,
            env={**self.environment, **environment},
            timeout=120,
        )
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def behind(self, begin: str) -> Child:
        """The same for programs that begin with BEGIN."""
        other = copy.copy(self)
        other.begin = begin
        return other

    def fails(self, source: str) -> subprocess.CompletedProcess[str]:
        return self(source, status=1)
