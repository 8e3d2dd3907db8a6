"""The scenarios, and the other C tests, on every Lua there is.

Each version of Lua that is found is built from its source by several compilers and options, as a
shared library, in the program, and in the program with nothing exported; the C tests of this folder
are compiled against it and run.  Sources are those that tests/interpreters.py unpacks and the
packages of this machine; what is not there is skipped by name.

By default a few builds run, --all-luas runs them all.  Everything is kept in build/luas.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BINDING = ROOT / "bindings" / "lua"
OUT = ROOT / "build" / "luas"
BUILD = Path(os.environ.get("STACKSPLICE_BUILD_DIR", ROOT / "build" / "dev"))
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
NO_TABLES = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]


@dataclass(frozen=True)
class Build:
    """One way to build Lua into a program."""

    name: str
    flags: tuple[str, ...] = ("-O2",)
    compiler: str = "gcc"
    kind: str = "shared"  # or "static", or "hidden": static, stripped, nothing exported
    program: tuple[str, ...] = ("-O2",)  # the flags of the program and the binding
    usual: tuple[str, ...] = ()  # versions with which it belongs to the default run


BUILDS = [
    Build("gcc-O0", ("-O0",)),
    Build("gcc-O1", ("-O1",)),
    Build("gcc-O2", usual=("5.5",)),
    Build("gcc-O3", ("-O3",)),
    Build("gcc-Os", ("-Os",)),
    Build("gcc-O2-lto", ("-O2", "-flto=auto")),
    Build("clang-O0", ("-O0",), "clang"),
    Build("clang-O2", compiler="clang"),
    Build("clang-O3-lto", ("-O3", "-flto"), "clang", "static", ("-O3", "-flto")),
    Build("gcc-O2-frame-pointer", ("-O2", "-fno-omit-frame-pointer")),
    Build("gcc-O2-stripped", ("-O2", "-s")),
    Build("gcc-O2-static", kind="static"),
    Build("gcc-O0-hidden", ("-O0",), kind="hidden", usual=("5.4",)),
    Build("gcc-O2-hidden", kind="hidden"),
    Build("gcc-O2-lto-hidden", ("-O2", "-flto=auto"), kind="hidden"),
    Build("gcc-O3-lto-all", ("-O3", "-flto=auto"), kind="static", program=("-O3", "-flto=auto"), usual=("5.5",)),
]
VERSIONS = ["5.4", "5.5"]
TESTS = ["host", "interrupts", "captures"]


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done


def newer(target: Path, sources: list[Path]) -> bool:
    return target.exists() and all(s.stat().st_mtime <= target.stat().st_mtime for s in sources)


def compile_all(build: Build, flags: list[str], sources: list[Path], headers: list[Path], folder: Path) -> list[Path]:
    """The objects of SOURCES; those that are up to date are left alone."""
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        if not newer(target, [source, *headers, Path(__file__)]):
            run(build.compiler, "-c", *flags, source, "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def lua_source(version: str) -> Path:
    """The folder of the source of that version, or the test is skipped."""
    index = ROOT / "build" / "interpreters" / "index.json"
    try:
        entry = json.loads(index.read_text(encoding="utf-8"))[f"lua{version}-source"]
    except (OSError, ValueError, KeyError):
        pytest.skip(f"there is no source of Lua {version}: tests/interpreters.py has none")
    return Path(entry["path"]) / "src"


def lua_library(version: str, build: Build) -> list[str | Path]:
    """What links a program with Lua, built so."""
    source = lua_source(version)
    folder = OUT / version / build.name
    files = sorted(f for f in source.glob("*.c") if f.name not in ("lua.c", "luac.c"))
    flags = ["-std=gnu99", "-DLUA_USE_LINUX", *(f for f in build.flags if f != "-s")]
    objects = compile_all(build, [*flags, "-fPIC"] if build.kind == "shared" else flags,
                          files, sorted(source.glob("*.h")), folder / "lua")
    if build.kind != "shared":
        return [*objects, *build.flags, "-lm", "-ldl"]
    library = folder / "liblua.so"
    if not newer(library, objects):
        run(build.compiler, "-shared", *build.flags, *objects, "-o", library, "-lm", "-ldl")
    return [library, f"-Wl,-rpath,{folder}"]


def compile_program(name: str, files: list[str], include: Path, build: Build, link: list[str | Path],
                    folder: Path) -> Path:
    """A test of this folder together with the binding, against the lua.h in INCLUDE."""
    headers = [BINDING / "include", ROOT / "core" / "include"]
    flags = [*build.program, "-g", "-std=gnu11", "-D_GNU_SOURCE", "-fasynchronous-unwind-tables", *WARNINGS,
             f'-DSCENARIOS="{HERE / "scenarios.lua"}"', f"-I{include}",
             *(f"-I{folder}" for folder in headers)]
    watched = [file for place in (*headers, BINDING / "src", HERE) for file in place.rglob("*.h")]
    tag = "-".join([build.compiler, *build.program])
    binding = compile_all(build, flags, sorted((BINDING / "src").glob("*.c")), watched, folder.parent / f"binding-{tag}")
    own = compile_all(build, flags, [HERE / file for file in files], watched, folder.parent / f"tests-{tag}")
    program = folder / name
    libraries = ["-L", BUILD / "lib", f"-Wl,-rpath,{BUILD / 'lib'}", "-lstacksplice", "-lcmocka", "-lpthread"]
    export = {"static": ["-rdynamic"], "hidden": ["-s"]}.get(build.kind, [])
    run(build.compiler, *build.program, *export, *own, *binding, *link, *libraries, "-o", program)
    return program


def choose(version: str, build: Build, request: pytest.FixtureRequest) -> None:
    if version not in build.usual and not request.config.getoption("--all-luas"):
        pytest.skip("not in the default run: --all-luas")
    if not shutil.which(build.compiler):
        pytest.skip(f"there is no {build.compiler}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_scenarios(version: str, build: Build, request: pytest.FixtureRequest) -> None:
    choose(version, build, request)
    link = lua_library(version, build)
    folder = OUT / version / build.name
    program = compile_program("scenarios", ["scenarios.c", "oracle.c"], lua_source(version), build, link, folder)
    output = run(program).stdout
    print("\n".join(line for line in output.splitlines() if " stacks, " in line))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("test", TESTS)
def test_others(test: str, version: str) -> None:
    build = next(build for build in BUILDS if build.name == "gcc-O2")
    link = lua_library(version, build)
    run(compile_program(test, [f"{test}.c"], lua_source(version), build, link, OUT / version / build.name))
