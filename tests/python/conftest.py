"""What the tests share: a native module built against the public headers, and child processes."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
import stacksplice
from frame_oracle import Checker

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = Path(stacksplice.__file__).resolve().parent
INCLUDES = [
    f"-I{ROOT / 'core' / 'include'}",
    f"-I{ROOT / 'bindings' / 'python' / 'include'}",
    f"-I{sysconfig.get_path('include')}",
]


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def core_library() -> list[str]:
    return [f"-L{PACKAGE}", "-l:libstacksplice.so.0", f"-Wl,-rpath,{PACKAGE}"]


def compile_c(output: Path, sources: list[Path], *flags: str) -> Path:
    command = [*compiler(), "-g", "-O2", "-Wall", "-Wextra", "-Werror", *INCLUDES]
    command += [str(source) for source in sources] + ["-o", str(output), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="session")
def border_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    output = tmp_path_factory.mktemp("border") / f"border{suffix}"
    sources = [HERE / "border.c", HERE / "border_second.c"]
    return compile_c(output, sources, "-shared", "-fPIC", "-pthread", *core_library())


@pytest.fixture(scope="session")
def border(border_path: Path) -> ModuleType:
    """The module of border.c."""
    spec = importlib.util.spec_from_file_location("border", border_path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(border: ModuleType):
    """Called anywhere it compares the stack there with the truth."""
    checker = Checker(border)
    yield checker
    checker.assert_good()


@pytest.fixture(autouse=True)
def clean_slot():
    """Every test begins and ends without an error in its thread's slot."""
    stacksplice.winrt.RoClearError()
    yield
    stacksplice.winrt.RoClearError()


class Child:
    """Runs programs in a child process of this interpreter."""

    def __init__(self, border_path: Path) -> None:
        paths = [str(border_path.parent), str(PACKAGE.parent), str(HERE)]
        self.environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(paths)}

    def __call__(
        self, source: str, *arguments: str, status: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", source, *arguments],
            capture_output=True,
            text=True,
            env={**self.environment, **environment},
            timeout=120,
        )
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="session")
def child(border_path: Path) -> Child:
    return Child(border_path)
