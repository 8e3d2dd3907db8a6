"""What the tests share: native modules built against the public headers, and child processes."""

from __future__ import annotations

import copy
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import stacksplice

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent
# Where programs that only tests need are installed or unpacked.
PROGRAMS_ROOT = Path(os.environ.get("STACKSPLICE_PROGRAMS_ROOT", "/"))
SHARED = ROOT / "bindings" / "shared"
# The extension's own, its parts for lupa and what it shares with others; and where they find each other.
EXTENSION_ROOT = ROOT / "bindings" / "python" / "src"
EXTENSION = [
    *sorted(EXTENSION_ROOT.rglob("*.c")),
    *sorted((ROOT / "bindings" / "lupa").glob("*.c")),
    *sorted(SHARED.glob("*.c")),
]
EXTENSION_INCLUDES = [f"-I{EXTENSION_ROOT}", f"-I{SHARED.parent}"]
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


def environment(**changed: str) -> dict[str, str]:
    """This one, without what colours output or loads more code, and with the package."""
    names = ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS", "LUA_INIT")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "PYTHONPATH": str(PACKAGE.parent), **changed}


def ran(*command: str | Path, status: int | None = 0, **options) -> subprocess.CompletedProcess[str]:
    """A program with the package, at its end with that status, or any; OPTIONS in capitals are variables."""
    defaults = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120}
    variables = {name: str(options.pop(name)) for name in list(options) if name.isupper()}
    defaults["env"] = environment(**variables)
    done = subprocess.run([str(part) for part in command], **{**defaults, **options})
    assert status in (None, done.returncode), f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


MODULE = [sys.executable, "-m", "stacksplice"]


def command(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """A command of the package, at its end."""
    return ran(*MODULE, *arguments, **options)


def built(name: str) -> Path:
    """A file of the build; the tests of a package alone have none."""
    path = Path(os.environ.get("STACKSPLICE_BUILD_DIR", "/nowhere"), name)
    return path if path.exists() else pytest.skip(f"needs {name} in STACKSPLICE_BUILD_DIR")


def lua_with_stacksplice() -> tuple[str, dict[str, str]]:
    """A Lua, and the variables by which it finds the module that was built."""
    lua, module = shutil.which("lua5.4"), built("lua/5.4/stacksplice.so")
    if lua is None:
        pytest.skip("lua5.4 is not installed")
    path = f"{module.parent}/?.so"
    return lua, {"LUA_CPATH": path, "LUA_CPATH_5_4": path}


class Resting(subprocess.Popen[str]):
    """A process that rests after its first line; it has no stacksplice of ours, and ends with the block."""

    def __init__(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> None:
        kept = {k: v for k, v in environment().items() if k != "PYTHONPATH" and not k.startswith("LUA_CPATH")}
        pipe = subprocess.PIPE
        super().__init__(
            [str(part) for part in command],
            stdin=pipe,
            stdout=pipe,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            # One arena: gcore copies what the others only reserve, 64 MB for each thread.
            env=kept | {"MALLOC_ARENA_MAX": "1"} | variables,
        )
        self.line = self.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.communicate()


def start(*arguments: str | Path, cwd: Path | None = None) -> Resting:
    """This Python with the package."""
    return Resting(sys.executable, *arguments, cwd=cwd, PYTHONPATH=str(PACKAGE.parent))


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
