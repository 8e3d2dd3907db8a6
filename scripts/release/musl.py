"""Wheels for musl: compiled for it here, and that of one version tried by a CPython of musl."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import wheels
from common import MUSL, Failed, Release, outside

# It keeps what it makes between releases.
MAKER = Path(__file__).resolve().parents[2] / "tests" / "musl_python.py"
TRIED = "cp313"
MACHINE = "x86_64"
# Where programs for musl name their loader; without it the program that `dump` runs does not start.
LOADER = Path(f"/lib/ld-musl-{MACHINE}.so.1")
# Those that need nothing but the installed package and a compiler, in every part of it, and no libdw.
TESTS = ("errors", "frames_captures", "async", "awaiting", "catching", "raise", "ownership", "positions")
TESTS += ("threads", "hresult", "layout", "tokens", "lupa", "lupa_errors", "lupa_caught", "lupa_lifetimes")
# Python calls Lua, which calls Python, which fails as it is asked to.
PROGRAM = """import ctypes, sys, time
import lupa.lua54
import stacksplice

stacksplice.install()

def last():
    print("ready", flush=True)
    time.sleep(600) if sys.argv[1] == "waits" else ctypes.string_at(8)

lua = lupa.lua54.LuaRuntime()
lua.globals().last = last
lua.execute("function work() local result = last() return result end", name="@work.lua")
lua.globals().work()
"""

DESCRIBE = """import sysconfig
print(sysconfig.get_path("include"), sysconfig._get_sysconfigdata_name(), sep="\\n")"""
# As a CPython of musl names it.
ANSWERS = """
import importlib
build_time_vars = dict(importlib.import_module({original!r}).build_time_vars)
build_time_vars.update(
    EXT_SUFFIX=".cpython-{digits}-{machine}-linux-musl.so", SOABI="cpython-{digits}-{machine}-linux-musl",
    MULTIARCH="{machine}-linux-musl", installed_base={base!r}, installed_platbase={base!r},
)
"""


def crossing(release: Release, python: str, version: str) -> dict[str, str]:
    """What makes PYTHON answer as one of musl: the names of files, and where headers are.  They are its own:
    of a CPython's headers only pyconfig.h knows the C library, and nothing that extensions use depends on
    what it says of that."""
    described = release.run(f"describe-{version}", python, "-c", DESCRIBE, env=outside())
    include, original = described.splitlines()
    base = release.folder(f"musl/{version}")
    headers = base / "include" / f"python{version}"
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(include, headers)
    # Debian's only chooses by machine.
    chooser = (headers / "pyconfig.h").read_text(encoding="utf-8")
    if chosen := re.search(rf"<({MACHINE}-linux-gnu/python{version}/pyconfig\.h)>", chooser):
        shutil.copyfile(Path(include).parent / chosen[1], headers / "pyconfig.h")
    data = base / f"_sysconfigdata__linux_{MACHINE}-linux-musl.py"
    values = {"original": original, "digits": version.replace(".", ""), "machine": MACHINE, "base": str(base)}
    data.write_text(ANSWERS.format(**values), encoding="utf-8")
    return {
        "_PYTHON_HOST_PLATFORM": f"linux-{MACHINE}",
        "_PYTHON_SYSCONFIGDATA_NAME": data.stem,
        "PYTHONPATH": str(base),
    }


def shows(name: str, text: str, *lines: str) -> None:
    for line in lines:
        if line not in text:
            raise Failed(f"{name} does not show {line!r}:\n{text}")


def try_crash(release: Release, there: Path, program: Path) -> None:
    crash = [there, "-m", "stacksplice", "run", "--crash", program, "fails"]
    environment = {**outside(), "STACKSPLICE_REPORT_DIR": str(program.parent)}
    text = release.run("musl-crash", *crash, status=-signal.SIGSEGV, env=environment, cwd=program.parent)
    shows("the report of a crash", text, "SIGSEGV: no memory", "in last", '(Lua) File "work.lua", line 1')


def try_dump(release: Release, there: Path, program: Path) -> None:
    command = [str(there), str(program), "waits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=outside(), text=True) as waiting:
        try:
            assert waiting.stdout is not None  # for mypy
            waiting.stdout.readline()
            dump = [there, "-m", "stacksplice", "dump", str(waiting.pid)]
            text = release.run("musl-dump", *dump, env=outside())
        finally:
            waiting.kill()
    shows("dump", text, "in last", "in <module>", "libdw.so.1 not found (Alpine package: elfutils)")


def try_core(release: Release, there: Path, program: Path) -> str:
    if "/" in (pattern := Path("/proc/sys/kernel/core_pattern").read_text()) or pattern.startswith("|"):
        return ""
    command = ["sh", "-c", 'ulimit -c unlimited; exec "$0" "$@"', there, program, "fails"]
    release.run("musl-core-made", *command, status=-signal.SIGSEGV, env=outside(), cwd=program.parent)
    (core,) = program.parent.glob(pattern.strip() + "*")
    text = release.run("musl-core", there, "-m", "stacksplice", "core", core, env=outside())
    shows("core", text, "SIGSEGV", "in last", "in <module>")
    return ", core"


def try_wheel(release: Release, wheel: Path, python: Path, version: str) -> None:
    """As its user, whose pip chooses among the files of the release; that one has no TLS, so what else is
    installed is fetched before."""
    fetched = release.folder("musl/fetched")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--platform", MUSL]
    release.run("musl-fetched", *pip, "--python-version", version, "-d", fetched, "lupa", "pytest>=7")
    there = wheels.fresh(release, "try-musl", str(python))
    places = ["--no-index", "--only-binary", ":all:", "--find-links", release.out, "--find-links", fetched]
    wheels.install(release, there, *places, "stacksplice", "lupa", "pytest")
    wheels.check_pages(release, wheel, there.parent.parent / "share")
    shown = wheels.run_example(release, wheel, there, "musl")
    release.note(wheel, f"installed by pip of a CPython of musl, {shown}")
    program = release.folder("musl/program") / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    try_crash(release, there, program)
    try_dump(release, there, program)
    core = try_core(release, there, program)
    release.note(wheel, f"there, without libdw: the report of a crash, dump{core}")
    # lupa brings it: what frames are compared with.
    (unwinder,) = there.parent.parent.rglob("libgcc_s-*.so.1")
    library = python.parent.parent / "lib" / "libgcc_s.so.1"
    library.unlink(missing_ok=True)  # the part musl-python links to its own
    shutil.copyfile(unwinder, library)
    files = [file for name in TESTS for file in release.tree.glob(f"tests/python/*/test_{name}.py")]
    options = ["-m", "not long and not any_python", "-p", "no:cacheprovider"]
    options += ["-o", "faulthandler_timeout=300", f"--basetemp={release.folder('pytest')}/musl"]
    environment = {**outside(), "CC": str(python.with_name("cc"))}
    tests = release.run(
        "tests-musl", there, "-m", "pytest", *options, *files, cwd=release.tree, env=environment
    )
    release.note(wheel, f"tests: {tests.splitlines()[-1].strip('= ')}")


def musl_python(release: Release) -> Path | None:
    """The CPython of musl, if it can be had and programs for musl start here."""
    if not LOADER.exists():
        release.leave_out(f"trying the wheel for musl: {LOADER} is not here (Debian package: musl)")
        return None
    try:
        return Path(release.run("musl-python", sys.executable, MAKER).splitlines()[-1])
    except Failed as reason:
        release.leave_out(f"trying the wheel for musl: {str(reason).splitlines()[0]}")
        return None


def make_all(release: Release, pythons: dict[str, str], untried: bool) -> list[Path]:
    """For each version; of those that were not tried it is said."""
    made: list[Path] = []
    python = None if untried or TRIED not in pythons else musl_python(release)
    for tag, interpreter in pythons.items():
        version = f"{tag[2]}.{tag[3:]}"
        if tag.endswith("t"):
            release.leave_out(f"the wheel of {version} for musl: no Python without a lock was tried there")
            continue
        wheel = wheels.make_wheel(release, interpreter, tag, MUSL, crossing(release, interpreter, version))
        made.append(wheel)
        if python and tag == TRIED:
            try_wheel(release, wheel, python, version)
        else:
            release.note(wheel, "not run")
    return made
