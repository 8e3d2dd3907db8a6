#!/usr/bin/env python3
"""Free-threaded CPythons, compiled from the distribution's source, beside the build.

    free_threaded_python.py [--cache FOLDER] [VERSION...]

No distribution of this age packages them.  Each VERSION (3.13 and 3.14) comes from the newest suite whose
source can be fetched, by the machine's own mirror and keys, is configured with --disable-gil and
--enable-shared, and is installed below FOLDER (build/interpreters/free-threaded) and nowhere else.  Prints a
line for each: its path, or "VERSION: " and the reason why it cannot be had; status 3 if none can.  What is
there already is not made again: one takes about five minutes of two processors.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import ROOT, SUITES, Suite, Unavailable, own_archive, run, say

VERSIONS = ["3.13", "3.14"]
TOOLS = ("apt-get", "gcc", "make", "pkg-config")


def fetch(version: str, cache: Path, source: Path) -> Suite:
    """Unpack CPython VERSION into SOURCE.  An index can name a file that its mirror has no more."""
    reason = Unavailable(f"no suite of {', '.join(SUITES)} has the source of python{version}")
    for name in SUITES:
        suite = Suite(name, own_archive(), cache)
        try:
            found = suite.version(f"python{version}", source=True)
            if found:
                shutil.rmtree(source, ignore_errors=True)
                source.mkdir(parents=True)
                suite.source(f"python{version}", found, source)
                return suite
        except Unavailable as failed:
            reason = failed
    raise reason


def build(version: str, cache: Path) -> Path:
    root = cache / version
    program = root / "bin" / f"python{version}t"
    if (root / "done").exists():
        return program
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise Unavailable(f"this machine has no {tool}")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    source = root / "source"
    suite = fetch(version, cache, source)
    say(f"compiling a free-threaded python{version} of {suite.name}: about five minutes")
    options = ["--disable-gil", "--enable-shared", f"--prefix={root}", "--disable-test-modules"]
    # Found by the program itself: nothing has to be told where it lies.
    settings = [f"LDFLAGS=-Wl,-rpath,{root}/lib", "CFLAGS=-O2 -g1"]
    run(["env", *settings, "nice", "./configure", *options], suite.log, source)
    for target in ("all", "install"):
        run(["nice", "make", f"-j{os.cpu_count() or 1}", target], suite.log, source)
    run([str(program), "-c", "import ctypes, ssl, sys; assert not sys._is_gil_enabled()"], suite.log)
    shutil.rmtree(source)
    (root / "done").touch()
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile free-threaded CPythons for the tests.")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "interpreters" / "free-threaded")
    parser.add_argument("versions", nargs="*", metavar="VERSION", default=VERSIONS)
    given = parser.parse_args()
    status = 3
    for version in given.versions:
        try:
            print(build(version, given.cache.resolve()), flush=True)
            status = 0
        except (Unavailable, OSError, subprocess.SubprocessError) as reason:
            print(f"{version}: {reason}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
