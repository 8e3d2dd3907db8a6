"""The scenarios, and the other C tests, on every Lua there is.

Each version of Lua that is found is built from its source by several compilers and options, as a
shared library, in the program, and in the program with nothing exported; the C tests of this folder
are compiled against it and run.  Sources are those that tests/interpreters.py unpacks and the
packages of this machine; what is not there is skipped by name.

By default a few builds run, --all-luas runs them all.  Everything is kept in build/luas.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import versions

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BINDING = ROOT / "bindings" / "lua"
OUT = ROOT / "build" / "luas"
BUILD = Path(os.environ.get("STACKSPLICE_BUILD_DIR", ROOT / "build" / "dev"))
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wshadow", "-Werror"]


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
    Build("gcc-O2", usual=("5.1", "5.2", "5.5")),
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
    Build(
        "gcc-O3-lto-all", ("-O3", "-flto=auto"), kind="static", program=("-O3", "-flto=auto"), usual=("5.5",)
    ),
]
INSTALLED = ["5.3", "luajit"]  # those of the distribution are tested, as they are
VERSIONS = [version for version in versions.LUAS if version not in INSTALLED]
LUAJIT_ROOT = Path(os.environ.get("STACKSPLICE_LUAJIT_ROOT", "/usr"))
TESTS = [
    "host",
    "host_coroutines",
    "host_handler",
    "host_lifetimes",
    "interrupts",
    "lost",
    "captures",
    "tokens",
    "starved",
    "stacks",
]
LUAJIT_MODES = ["off", "hot", "as it is"]
SPECS = [
    "capture",
    "caught",
    "causes",
    "churn",
    "collector",
    "coroutine",
    "deadline",
    "handler",
    "locals",
    "standalone",
    "traceback",
    "tutorial",
]


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        **options,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done


def newer(target: Path, sources: list[Path]) -> bool:
    return target.exists() and all(s.stat().st_mtime <= target.stat().st_mtime for s in sources)


def compile_all(
    build: Build, flags: list[str], sources: list[Path], headers: list[Path], folder: Path
) -> list[Path]:
    """The objects of SOURCES; those that are up to date are left alone."""
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        if not newer(target, [source, *headers, Path(__file__)]):
            # As in bindings/lua/CMakeLists.txt.
            own = ["-fno-lto"] if source.name == "probes.c" else []
            run(build.compiler, "-c", *flags, *own, source, "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def installed_headers(version: str) -> Path:
    """Where the distribution puts the headers of that version, or the test is skipped."""
    folder = Path(f"/usr/include/lua{version}")
    if version == "luajit":
        folder = LUAJIT_ROOT / "include" / "luajit-2.1"
    if not (folder / "lua.h").exists():
        pytest.skip(f"the headers of Lua {version} are not installed")
    return folder


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
    if version == "luajit":
        folder = LUAJIT_ROOT / "lib" / sysconfig.get_config_var("MULTIARCH")
        return [folder / "libluajit-5.1.so", f"-Wl,-rpath,{folder}"]
    if version in INSTALLED:
        return [f"-llua{version}"]
    source = lua_source(version)
    folder = OUT / version / build.name
    files = sorted(f for f in source.glob("*.c") if f.name not in ("lua.c", "luac.c"))
    flags = ["-std=gnu99", "-DLUA_USE_LINUX", *(f for f in build.flags if f != "-s")]
    objects = compile_all(
        build,
        [*flags, "-fPIC"] if build.kind == "shared" else flags,
        files,
        sorted(source.glob("*.h")),
        folder / "lua",
    )
    if build.kind != "shared":
        return [*objects, *build.flags, "-lm", "-ldl"]
    library = folder / "liblua.so"
    if not newer(library, objects):
        run(build.compiler, "-shared", *build.flags, *objects, "-o", library, "-lm", "-ldl")
    return [library, f"-Wl,-rpath,{folder}"]


SUPPORT = HERE.parent / "support"
HEADERS = [BINDING / "include", ROOT / "core" / "include", BINDING / "src", ROOT / "bindings", SUPPORT]
SHARED = ROOT / "bindings" / "shared"
ALL_SOURCES = [
    *sorted((BINDING / "src").rglob("*.c")),
    SHARED / "lua_chunks.c",
    SHARED / "value_text.c",
]
# How the insides of a copy of Lua are learnt, as in bindings/lua/sources.cmake.
CALIBRATION = {"luajit": ["jit.c"], "others": ["filler.c", "probes.c", "snippets.c"]}
RUNNER = [SUPPORT / "support.c", SUPPORT / "main.c"]


def sources(version: str) -> list[Path]:
    left_out = CALIBRATION["others" if version == "luajit" else "luajit"]
    return [file for file in ALL_SOURCES if file.name not in left_out]


def binding_flags(version: str, build: Build, include: Path) -> list[str]:
    return [
        *(
            ["-DSS_LUA_JIT=1", f"-I{LUAJIT_ROOT}/include/{sysconfig.get_config_var('MULTIARCH')}"]
            if version == "luajit"
            else []
        ),
        *build.program,
        "-g",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-fPIC",
        "-fvisibility=hidden",
        "-fasynchronous-unwind-tables",
        *WARNINGS,
        f'-DSCENARIOS="{HERE / "scenarios.lua"}"',
        f'-DRANDOM_CALLS="{HERE / "random_calls.lua"}"',
        f"-I{include}",
        *(f"-I{folder}" for folder in HEADERS),
        "-include",
        "version/compat.h",
    ]


def compile_with_binding(
    files: list[Path], version: str, build: Build, more: list[str], tag: str = "", module: bool = False
) -> list[Path]:
    """The objects of FILES and of the binding, against the lua.h of that version."""
    include = installed_headers(version) if version in INSTALLED else lua_source(version)
    watched = [file for place in (*HEADERS, include, HERE) for file in place.rglob("*.h")]
    tool = "-".join([build.compiler, *build.program])
    flags = [*binding_flags(version, build, include), f"-DSS_LUA_MODULE={int(module)}"]
    place = OUT / version
    return [
        *compile_all(build, flags + more, files, watched, place / f"tests-{tool}{tag}"),
        *compile_all(
            build, flags, sources(version), watched, place / f"{'module' if module else 'binding'}-{tool}"
        ),
    ]


def link(target: Path, build: Build, objects: list[str | Path], *flags: str) -> Path:
    libraries = ["-L", BUILD / "lib", f"-Wl,-rpath,{BUILD / 'lib'}", "-lstacksplice", "-lcmocka", "-lpthread"]
    flags = ("-Wl,-z,now", *flags)  # as cmake/flags.cmake: the loader takes no stack at a first call
    run(build.compiler, *build.program, *flags, *objects, *libraries, "-o", target)
    return target


def compile_program(name: str, files: list[str], version: str, build: Build) -> Path:
    """A test of this folder in a program with that Lua."""
    lua = lua_library(version, build)
    wrap = ["-Wl,--wrap=realloc"] if name == "starved" else []
    inlined = ["-DINLINED_LUA"] if any("-flto" in flag for flag in build.program) else []
    objects = compile_with_binding([*RUNNER, *(HERE / file for file in files)], version, build, inlined)
    export = {"static": ["-rdynamic"], "hidden": ["-s"]}.get(build.kind, [])
    folder = OUT / version / build.name
    folder.mkdir(parents=True, exist_ok=True)
    return link(folder / name, build, [*objects, *lua], *export, *wrap)


def build_named(name: str) -> Build:
    return next(build for build in BUILDS if build.name == name)


def choose(version: str, build: Build, request: pytest.FixtureRequest) -> None:
    if version not in build.usual and not request.config.getoption("--all-luas"):
        pytest.skip("not in the default run: --all-luas")
    if not shutil.which(build.compiler):
        pytest.skip(f"there is no {build.compiler}")


def run_scenarios(version: str, build: Build, request: pytest.FixtureRequest) -> None:
    """Random calls, too: --all-luas captures 20,000 times in one build of each version."""
    program = compile_program("scenarios", ["scenarios.c", "oracle.c"], version, build)
    many = build.name == "gcc-O2" and request.config.getoption("--all-luas")
    output = run(program, env={**os.environ, "STACKSPLICE_CAPTURES": "20000" if many else "2000"}).stdout
    print("\n".join(line for line in output.splitlines() if " stacks, " in line))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_scenarios(version: str, build: Build, request: pytest.FixtureRequest) -> None:
    choose(version, build, request)
    run_scenarios(version, build, request)


@pytest.mark.parametrize("version", [*VERSIONS, *INSTALLED])
@pytest.mark.parametrize("test", TESTS)
def test_others(test: str, version: str) -> None:
    double = "../support/error_double.c"
    more = {"tokens": ["oracle.c"], "interrupts": [double], "lost": [double]}.get(test, [])
    run(compile_program(test, [f"{test}.c", *more], version, build_named("gcc-O2")))


@pytest.mark.parametrize("version", INSTALLED)
def test_scenarios_of_the_installed_ones(version: str, request: pytest.FixtureRequest) -> None:
    run_scenarios(version, build_named("gcc-O2"), request)


def plugin(name: str, version: str, lua: list[str | Path], *flags: str) -> Path:
    """A library with the binding and that Lua, of which it exports nothing."""
    build = build_named("gcc-O2")
    entry = ["-DENTRY=enter_plugin", f'-DCHUNK="{name}.lua"']
    objects = compile_with_binding([HERE / "copies_entry.c"], version, build, entry, f"-{name}")
    return link(OUT / version / f"{name}.so", build, [*objects, *lua], "-shared", "-Wl,-z,nodelete", *flags)


@pytest.mark.parametrize("program_build", ["gcc-O2-hidden", "gcc-O2-static"])
def test_several_copies(program_build: str) -> None:
    """Lua 5.4 in the program, 5.5 inside of one plug-in, the shared 5.4 behind the other."""
    shared = build_named("gcc-O2")
    lua_library("5.5", shared)
    within = sorted((OUT / "5.5" / shared.name / "lua").glob("*.o"))
    one = plugin("one", "5.5", [*within, "-lm", "-ldl"], "-Wl,-Bsymbolic")
    two = plugin("two", "5.4", lua_library("5.4", shared))
    build = build_named(program_build)
    own = ["-DENTRY=enter_program", '-DCHUNK="program.lua"', f'-DPLUGIN_A="{one}"', f'-DPLUGIN_B="{two}"']
    objects = compile_with_binding(
        [*RUNNER, HERE / "copies.c", HERE / "copies_entry.c"], "5.4", build, own, "-program"
    )
    export = ["-rdynamic"] if build.kind == "static" else ["-s"]
    run(link(OUT / f"copies-{build.kind}", build, [*objects, *lua_library("5.4", build)], *export))


def lua_module(version: str) -> Path:
    """The folder of the Lua module for that version, and of one of somebody else."""
    build = build_named("gcc-O2")
    folder = OUT / version / "module"
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in ("stacksplice", []), ("stacksplice_test_border", [HERE / "border_module.c"]):
        objects = compile_with_binding(sources, version, build, [], module=not sources)
        link(folder / f"{name}.so", build, [*objects], "-shared", "-Wl,-z,nodelete", "-Wl,-u,luaL_error")
    return folder


def lua_program(version: str) -> str:
    """The stand-alone interpreter of that version."""
    if version in INSTALLED:
        found = shutil.which(version if version == "luajit" else f"lua{version}")
        if version == "luajit" and (LUAJIT_ROOT / "bin" / version).exists():
            found = str(LUAJIT_ROOT / "bin" / version)
        if not found:
            pytest.skip(f"there is no lua{version}")
        return found
    build = build_named("gcc-O2")
    library = lua_library(version, build)
    program = OUT / version / build.name / "program"
    run(
        build.compiler,
        "-O2",
        "-DLUA_USE_POSIX",  # not LUA_USE_LINUX, which in old versions asks for readline
        "-DLUA_USE_DLOPEN",
        lua_source(version) / "lua.c",
        *library,
        "-lm",
        "-o",
        program,
    )
    return str(program)


def test_luajit_calls_c_by_the_ffi() -> None:
    run(compile_program("jit", ["jit.c"], "luajit", build_named("gcc-O2")))


@pytest.mark.parametrize("mode", LUAJIT_MODES)
def test_signals_that_interrupt_luajit(mode: str, tmp_path: Path) -> None:
    path = f"{lua_module('luajit')}/?.so;;"
    environment = {**os.environ, "LUA_CPATH": path, "STACKSPLICE_REPORT_DIR": str(tmp_path)}
    output = run(lua_program("luajit"), HERE / "interrupted.lua", mode, env=environment).stdout
    assert output.count("work did not finish within") > 20
    assert "[gap: LuaJIT does not tell" in output or mode != "off"


def run_specs(spec: str, version: str, lua_path: str = ";;", places: str = ";;") -> None:
    path = f"{lua_module(version)}/?.so;{places}"
    own = {f"LUA_CPATH_{version.replace('.', '_')}": path} if version > "5.1" else {}
    environment = {**os.environ, "LUA_PATH": lua_path, "LUA_CPATH": path, **own}
    runner, specs = "tests/lua/spec_runner.lua", f"tests/lua/spec/{spec}_spec.lua"
    print(run(lua_program(version), runner, specs, env=environment, cwd=ROOT).stdout)


@pytest.mark.parametrize("version", [*versions.LUAS, "luajit"])
@pytest.mark.parametrize("spec", SPECS)
def test_specs(spec: str, version: str) -> None:
    """Specs in the Luas that have no busted, and in the newest 5.4; exceptions.lua names what these lack."""
    run_specs(spec, version)


@pytest.mark.parametrize("version", ["5.1", "5.2", "luajit"])
def test_the_helper_of_busted(version: str) -> None:
    folder = Path("/usr/share/lua/5.2" if version == "5.2" else "/usr/share/lua/5.1")
    if not (folder / "busted").exists():
        pytest.skip(f"busted is not installed in {folder}")
    modules = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/lua/{folder.name}/?.so;;"
    run_specs("busted", version, f"{folder}/?.lua;{folder}/?/init.lua;;", modules)


def require_module(program: str | Path, built_for: str) -> str:
    path = f"{lua_module(built_for)}/?.so"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LUA_CPATH")} | {"LUA_CPATH": path}
    script = "print((select(2, pcall(require, 'stacksplice'))))"
    return run(program, "-e", script, env=environment).stdout.strip()


BUILT_FOR = ["5.1", "5.2", "5.4", "luajit"]
RUNNING = [*(version for version in versions.LUAS if version != "5.4"), "luajit"]


@pytest.mark.parametrize(
    ("version", "built_for"), [pair for pair in itertools.product(RUNNING, BUILT_FOR) if len({*pair}) == 2]
)
def test_a_module_for_another_version(version: str, built_for: str) -> None:
    running, other = ("LuaJIT" if name == "luajit" else f"Lua {name}" for name in (version, built_for))
    said = require_module(lua_program(version), built_for)
    built = f"stacksplice is built with the lua.h of {other}"
    assert said == f"{built}, and this is {running}: build it with that of {running}"


@pytest.mark.parametrize(
    ("line", "other", "flag", "said"),
    [
        ("#define LUA_IDSIZE\t60", "#define LUA_IDSIZE\t600", "-Wl,-E", "luaconf.h of another Lua"),
        ("#define LUA_NUMBER\tdouble", "#define LUA_NUMBER\tfloat", "-Wl,-E", "luaconf.h of another Lua"),
        ("#define LUAI_MAXCSTACK\t8000", "#define LUAI_MAXCSTACK\t100000", "-Wl,-E", "table: "),
        ("LUA_IDSIZE", "LUA_IDSIZE", "-s", "undefined symbol: luaL_error"),  # it hides its functions
    ],
)
def test_another_build_of_lua(line: str, other: str, flag: str, said: str, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(lua_source("5.1"), source)
    settings = (source / "luaconf.h").read_text()
    assert line in settings
    (source / "luaconf.h").write_text(settings.replace(line, other))
    files = [file for file in source.glob("*.c") if file.name not in ("luac.c", "print.c")]
    flags = ["-O1", "-w", "-DLUA_USE_POSIX", "-DLUA_USE_DLOPEN", flag]
    run("gcc", *flags, *files, "-o", tmp_path / "lua", "-lm", "-ldl")
    assert said in require_module(tmp_path / "lua", "5.1")
