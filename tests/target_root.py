#!/usr/bin/env python3
"""The libraries that the tests need of another machine or C library, unpacked beside the build.

    target_root.py arm64|arm64-programs|musl FOLDER

arm64: Debian's packages for that machine, unpacked.  arm64-programs: Python and Lua for it, with all
that they need, so that they run by user-mode emulation.  musl: cmocka and Lua, compiled from the
distribution's sources by musl-gcc.  Both come by the machine's own mirror and keys, and nothing is
installed.  Prints the folder to give as STACKSPLICE_TARGET_ROOT; where that cannot be had the
reason instead, with status 3.  What is there already is not fetched again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import Suite, Unavailable, codename, own_archive, run

PACKAGES = ["libcmocka0", "libcmocka-dev", "liblua5.4-0", "liblua5.4-dev"]


class ForeignSuite(Suite):
    """Packages for another machine, without what they depend on: the cross compiler brings that."""

    def apt(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        machine = ["-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
        return super().apt(tool, *machine, *arguments, cwd=cwd)


def unpack_arm64(folder: Path, root: Path) -> None:
    suite = ForeignSuite(codename(), own_archive(), folder)
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    suite.update()
    suite.apt("apt-get", "download", *PACKAGES, cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(root)], suite.log)


def unpack_arm64_programs(folder: Path, root: Path) -> None:
    suite = ForeignSuite(codename(), own_archive(), folder)
    names = (f"python3.{minor}" for minor in range(15, 10, -1))
    python = next((name for name in names if suite.version(f"{name}-minimal")), None)
    if not python:
        raise Unavailable("no Python for that machine")
    for package in suite.download(
        [f"{python}-minimal", f"lib{python}-stdlib", "lua5.4"], [], folder / "packages"
    ):
        run(["dpkg-deb", "-x", str(package), str(root)], suite.log)


def build_musl(folder: Path, root: Path) -> None:
    suite = Suite(codename(), own_archive(), folder)
    for package in ("cmocka", "lua5.4"):
        source = folder / package
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        version = suite.version(package, source=True)
        if not version:
            raise Unavailable(f"no source of {package}")
        suite.source(package, version, source)
    # The wrapper leaves out what every gcc for musl asks the linker for.
    header = "-Wl,--eh-frame-hdr"
    options = [
        "-DCMAKE_C_COMPILER=musl-gcc",
        f"-DCMAKE_SHARED_LINKER_FLAGS={header}",
        f"-DCMAKE_INSTALL_PREFIX={root / 'usr'}",
        "-DWITH_EXAMPLES=OFF",
        "-G",
        "Ninja",
    ]
    build = str(folder / "cmocka-build")
    run(["cmake", "-S", str(folder / "cmocka"), "-B", build, *options], suite.log)
    run(["cmake", "--build", build, "--target", "install"], suite.log)
    lua = folder / "lua5.4" / "src"
    run(
        ["make", "-C", str(lua), "CC=musl-gcc -fPIC", "SYSCFLAGS=-DLUA_USE_POSIX -DLUA_USE_DLOPEN", "a"],
        suite.log,
    )
    objects = [str(file) for file in lua.glob("*.o")]
    library, include = root / "usr" / "lib", root / "usr" / "include" / "lua5.4"
    include.mkdir(parents=True, exist_ok=True)
    shared = str(library / "liblua5.4.so")
    run(["musl-gcc", "-shared", header, "-o", shared, "-Wl,-soname,liblua5.4.so", *objects], suite.log)
    helper = Path(__file__).with_name("musl_find_object.c")
    run(
        [
            "musl-gcc",
            "-O2",
            "-fPIC",
            "-D_GNU_SOURCE",
            "-c",
            str(helper),
            "-o",
            str(library / "find_object.o"),
        ],
        suite.log,
    )
    shutil.copy(lua / "liblua.a", library / "liblua5.4.a")
    for header in ("lua.h", "luaconf.h", "lualib.h", "lauxlib.h", "lua.hpp"):
        shutil.copy(lua / header, include)


UNPACKERS = {"arm64": unpack_arm64, "arm64-programs": unpack_arm64_programs, "musl": build_musl}


def main(machine: str, where: str) -> int:
    folder = Path(where).resolve()
    root = folder / "root"
    done = folder / "done"
    folder.mkdir(parents=True, exist_ok=True)
    # What an older version of this file made may lack something.
    if not done.exists() or done.stat().st_mtime < Path(__file__).stat().st_mtime:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        try:
            UNPACKERS[machine](folder, root)
        except (Unavailable, OSError, subprocess.SubprocessError) as reason:
            print(reason)
            return 3
        done.touch()
    print(root / "usr")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
