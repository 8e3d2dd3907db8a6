#!/usr/bin/env python3
"""A CPython for musl, compiled from the distribution's source, and a compiler for it, beside the build.

    musl_python.py [FOLDER]

As a small container has it, but below FOLDER (build/interpreters/musl) and never installed: musl's loader
and headers, zlib, libffi, Lua 5.4 and bin/python3.13, whose PT_INTERP is that loader, and bin/cc, which
compiles for them.  All come from the newest suite of the distribution that has them, by the machine's own
mirror and keys.  bin/cc is the machine's gcc with musl's specs and what Alpine's gcc does by itself.
FOLDER/lib is where programs find libraries (FOLDER/etc).  Prints the path of the Python; where it cannot be
had the reason instead, with status 3.  What is there already is not made again: it takes about six minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import ROOT, SUITES, Suite, Unavailable, own_archive, run, say

VERSION = "3.13"
PYTHON = f"python{VERSION}"
LUA = "lua5.4"
SOURCES = ("zlib", "libffi", LUA, PYTHON)
TRIPLET = "x86_64-linux-musl"
LOADER = "ld-musl-x86_64.so.1"
# What musl's own headers leave to the kernel's.
KERNEL = {"linux": "linux", "asm-generic": "asm-generic", "asm": "x86_64-linux-gnu/asm"}
# Of musl's own 128 kB a deep recursion of Python overflows in the interpreter, before its limit.
THREAD_STACK = 1 << 20

COMPILER = """#!/bin/sh
case $* in
-print-multiarch | --print-multiarch) exec echo {triplet} ;;
esac
exec gcc "$@" -specs {root}/lib/musl-gcc.specs -Wl,--eh-frame-hdr -isystem {root}/include/kernel
"""


def choose_suite(folder: Path) -> Suite:
    """The first that has it all, which is the one least likely to be in upheaval."""
    archive = own_archive()
    reason = Unavailable(f"no suite of {', '.join(SUITES)} has {PYTHON} and musl")
    for name in SUITES:
        suite = Suite(name, archive, folder)
        try:
            if suite.version("musl-dev") and all(suite.version(each, source=True) for each in SOURCES):
                return suite
        except Unavailable as failed:
            reason = failed
    raise reason


def unpack_musl(suite: Suite, folder: Path, root: Path) -> None:
    """musl itself, as it will be found below ROOT, and a compiler for it."""
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    suite.apt("apt-get", "download", "musl", "musl-dev", "musl-tools", cwd=packages)
    for file in packages.glob("*.deb"):
        run(["dpkg-deb", "-x", str(file), str(packages / "unpacked")], suite.log)
    usr = packages / "unpacked" / "usr"
    shutil.copytree(usr / "lib" / TRIPLET, root / "lib")
    shutil.copytree(usr / "include" / TRIPLET, root / "include" / "musl")
    for place in ("bin", "etc", "include/kernel"):
        (root / place).mkdir(parents=True)
    for name, target in KERNEL.items():
        (root / "include" / "kernel" / name).symlink_to(f"/usr/include/{target}")
    (root / "lib" / LOADER).symlink_to("libc.so")
    # The loader reads it by its own place.
    (root / "etc" / "ld-musl-x86_64.path").write_text(f"{root}/lib\n")
    compiler = root / "bin" / "cc"
    compiler.write_text(COMPILER.format(triplet=TRIPLET, root=root))
    compiler.chmod(0o755)
    specs = root / "lib" / "musl-gcc.specs"
    text = specs.read_text()
    moves = {
        f"/usr/lib/{TRIPLET}": f"{root}/lib",
        f"/usr/include/{TRIPLET}": f"{root}/include/musl",
        f" /lib/{LOADER}": f" {root}/lib/{LOADER}",
        # gcc's own library is one for glibc, of which it needs one function.
        "libgcc_eh.a%s)": f"libgcc_eh.a%s) {root}/lib/libfind_object.a",
    }
    for before, after in moves.items():
        if before not in text:
            raise Unavailable(f"{specs} of {suite.name} does not say {before}")
        text = text.replace(before, after)
    specs.write_text(text)
    helper = ROOT / "tests" / "musl_find_object.c"
    made = folder / "find_object.o"
    options = ["-O2", "-fPIC", "-D_GNU_SOURCE"]
    run([str(compiler), *options, "-c", str(helper), "-o", str(made)], suite.log)
    run(["ar", "rc", str(root / "lib" / "libfind_object.a"), str(made)], suite.log)


# What pkg-config says of it, by PKG_CONFIG_PATH.
LUA_PACKAGE = """Name: Lua
Description: for musl
Version: {version}
Cflags: -I{root}/include/{name}
Libs: -L{root}/lib -l{name}
"""


def build_lua(suite: Suite, version: str, root: Path, source: Path) -> None:
    """The interpreter, which modules find Lua's functions in, and an archive for programs."""
    settings = [f"CC={root}/bin/cc -fPIC", "MYCFLAGS=-DLUA_USE_POSIX -DLUA_USE_DLOPEN", "MYLIBS=-Wl,-E"]
    run(["nice", "make", "-C", str(source), *settings, "lua"], suite.log)
    shutil.copy(source / "lua", root / "bin" / LUA)
    shutil.copy(source / "liblua.a", root / "lib" / f"lib{LUA}.a")
    include, packages = root / "include" / LUA, root / "lib" / "pkgconfig"
    include.mkdir(parents=True)
    packages.mkdir(exist_ok=True)
    for header in ("lua.h", "luaconf.h", "lualib.h", "lauxlib.h"):
        shutil.copy(source / header, include)
    package = LUA_PACKAGE.format(version=version.partition("-")[0], root=root, name=LUA)
    (packages / f"{LUA}.pc").write_text(package)


def build(suite: Suite, package: str, root: Path, folder: Path) -> None:
    """Compile PACKAGE and install it into ROOT."""
    say(f"compiling {package} of {suite.name} for musl")
    source = folder / package
    source.mkdir(exist_ok=True)
    version = suite.version(package, source=True)
    assert version is not None  # choose_suite has asked
    suite.source(package, version, source)
    if package == LUA:
        build_lua(suite, version, root, source / "src")
        return
    compiler = str(root / "bin" / "cc")
    settings = [f"CC={compiler}", "CFLAGS=-O2 -fPIC"]
    options = [f"--prefix={root}"]
    if package == "libffi":
        run(["autoreconf", "-fi"], suite.log, source)
        options += [f"--host={TRIPLET}", "--disable-shared", "--disable-docs", "--disable-multi-os-directory"]
    if package == PYTHON:
        options += [f"--build={TRIPLET}", "--disable-test-modules"]
        settings = [f"CC={compiler}", "PKG_CONFIG=false", f"CFLAGS_NODIST=-DTHREAD_STACK_SIZE={THREAD_STACK}"]
        for name, library in (("LIBFFI", "ffi"), ("ZLIB", "z")):
            settings += [f"{name}_CFLAGS=-I{root}/include", f"{name}_LIBS=-L{root}/lib -l{library}"]
    jobs = os.cpu_count() or 1
    run(["env", *settings, "nice", "./configure", *options], suite.log, source)
    for target in ("all", "install"):
        run(["nice", "make", f"-j{jobs}", target], suite.log, source)


def make(folder: Path, root: Path) -> None:
    for tool in ("apt-get", "dpkg-deb", "gcc", "make", "autoreconf"):
        if shutil.which(tool) is None:
            raise Unavailable(f"this machine has no {tool}")
    if " " in str(root):
        raise Unavailable(f"gcc's specs cannot name a folder with a space: {root}")
    if os.uname().machine != "x86_64":
        raise Unavailable(f"it is compiled for x86_64, not for {os.uname().machine}")
    suite = choose_suite(folder)
    unpack_musl(suite, folder, root)
    for package in SOURCES:
        build(suite, package, root, folder)
        shutil.rmtree(folder / package)
    run([str(root / "bin" / PYTHON), "-c", "import ctypes, zlib"], suite.log)
    run([str(root / "bin" / LUA), "-v"], suite.log)


def main() -> int:
    where = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "interpreters" / "musl"
    folder = Path(where).resolve()
    root, work = folder / "root", folder / "work"
    done = folder / "done"
    # All of it has its own place inside: a copy would use the original.
    made = f"{root}: {' '.join(SOURCES)}, {THREAD_STACK}\n"
    if not done.exists() or done.read_text() != made:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            work.mkdir(parents=True)
            make(work, root)
        except (Unavailable, OSError, subprocess.SubprocessError) as reason:
            print(reason)
            return 3
        done.write_text(made)
    print(root / "bin" / PYTHON)
    return 0


if __name__ == "__main__":
    sys.exit(main())
