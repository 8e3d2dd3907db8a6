"""Errors with equal texts, types and lines, caught, kept, compared and raised again at random, by Python, C
and Lua, in two states of each of two threads: every report has the stack of the error that it is of.

By hand, for some minutes: python test_equal_errors.py SECONDS [LUA [SEED]]."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "matrix")]

import extension  # noqa: E402
import stacksplice  # noqa: E402

BUDGET = 150
LUAS = ["build", "5.1", "5.2", "5.3", "5.4", "5.5", "luajit"]

source = "".join(
    f"def d{digit}(path, f):\n    return globals()['d' + path[0]](path[1:], f) if path else f()\n"
    for digit in range(10)
)
exec(source, globals())


def fail():
    raise ValueError("equal")


def leaf(equal):
    path = equal.new()
    globals()["d" + path[0]](path[1:], fail)


class Side:
    """Python's side of a program."""

    def __init__(self, equal):
        self.equal = equal
        self.kept = []

    def check(self, exc, where):
        info = stacksplice.error_info(exc)
        if info:
            names = [
                f"d{frame.line - 2}" if frame.file == "equal" and frame.line else frame.function or ""
                for frame in info.stack
            ]
            self.equal.check(names, info, where)

    def clean_up(self):
        now = self.equal.flying()
        try:
            self.step()
        except Exception as exc:
            self.check(exc, "Python's clean-up")
        self.equal.fly(now)

    def handle(self, exc):
        equal = self.equal
        self.check(exc, "Python")
        if equal.random(2) == 1:
            self.kept = [*self.kept[-7:], (exc, equal.flying())]
        if equal.random(3) == 1:
            self.clean_up()
        choice = equal.random(4)
        if choice == 1:
            raise exc
        if choice == 2 and self.kept:
            first, way = self.kept[0]
            equal.fly(way)
            self.check(first, "Python, kept")
            raise first

    def step(self):
        equal = self.equal
        if not equal.budget():
            return
        choice = equal.random(6)
        if choice == 1:
            leaf(equal)
        elif choice == 2:
            equal.raise_kept()
        else:
            try:
                equal.call(equal.random(2) - 1)
            except Exception as exc:
                if choice == 3:
                    raise
                self.handle(exc)


def one_program(equal, seed):
    """What `equal.end` says."""
    side = Side(equal)
    equal.start(seed, BUDGET, side.step)
    for _ in range(8):
        try:
            side.step()
        except Exception as exc:
            side.check(exc, "outside")
    side.kept.clear()
    return equal.end()


def programs(equal, seed, until):
    """Programs on two threads, until UNTIL says so of how many were."""
    total, faults = [0, 0, 0, 0], []

    def run(seed):
        while not faults and not until(total[0]):
            wrong, *counts = one_program(equal, seed)
            total[:] = map(sum, zip(total, [1, *counts]))
            faults.extend(f"seed {seed}: {text}" for text in wrong)
            seed += 2

    threads = [threading.Thread(target=run, args=(seed + i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total, faults


def build(folder, lua):
    import native

    luas = native.luas
    include, libraries = native.of_the_build() if lua == "build" else native.of_version(lua)
    return extension.compile_extension(
        folder,
        "equal",
        [HERE / "equal.c"],
        f'-DEQUAL_LUA="{HERE / "equal.lua"}"',
        *luas.binding_flags(lua, luas.build_named("gcc-O2"), include),
        *libraries,
        "-Wl,-z,nodelete",
        "-fno-optimize-sibling-calls",
        "-fvisibility=hidden",
    )


@pytest.mark.parametrize(
    ("lua", "count"), [("build", 60), *(pytest.param(lua, 500, marks=pytest.mark.long) for lua in LUAS)]
)
def test_each_report_has_its_own_stack(tmp_path, lua, count):
    """In a process of its own: it may crash."""
    arguments = ["--programs", str(count), lua, str(build(tmp_path, lua))]
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = int(done.stdout.split()[3].strip(","))
    assert found > 5 * count, done.stdout


def main(arguments):
    import tempfile

    seed, begin = 1, time.monotonic()
    if arguments[0] == "--programs":
        least, lua, module = int(arguments[1]), arguments[2], arguments[3]
        enough = lambda done: done >= least  # noqa: E731
    else:
        seconds, lua = float(arguments[0]), arguments[1] if arguments[1:] else "build"
        seed = int(arguments[2]) if arguments[2:] else time.time_ns() // 1_000_000
        module = build(tempfile.mkdtemp(), lua)
        enough = lambda done: time.monotonic() - begin > seconds  # noqa: E731
    equal = extension.load_extension(module)
    total, faults = programs(equal, seed, enough)
    count, found, unknown, forgotten = total
    print(f"programs {count} found {found}, {unknown} unknown, {forgotten} forgotten, seed {seed}, {lua}")
    for fault in faults[:3]:
        print(fault)
    # A state remembers eight errors that are on their way at once.  LuaJIT's coroutines that failed below a
    # function in C have lost the frames inside of it.
    forgiven = 10 if lua == "luajit" else 50
    return 1 if faults or forgotten * forgiven > found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
