"""How long a process stands still while its stacks are read, and what reading them takes: stacksplice
beside other tools.

usage: live_rows.py [--quick | --tiny]

The process that is read has no stacksplice.  It looks at the clock all the time and notes its longest
pause.  That includes what the scheduler takes from it, so a busy machine makes short pauses longer.
"""

import json
import mmap
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = ("live, nine threads are read", "live, processor time of the reader")
WATCHED = """
import mmap, sys, threading, time

def wait(depth):
    if depth:
        wait(depth - 1)
    threading.Event().wait()

def note_pauses(slot):
    worst, last = slot.cast("q"), time.perf_counter_ns()
    while True:
        now = time.perf_counter_ns()
        if now - last > worst[0]:
            worst[0] = now - last
        last = now

for _ in range(8):
    threading.Thread(target=wait, args=(10,), daemon=True).start()
with open(sys.argv[1], "r+b") as file:
    slot = memoryview(mmap.mmap(file.fileno(), 8))
print("ready", flush=True)
note_pauses(slot)
"""
OWN = "stacksplice dump"
SLOW = 5  # times seldomer are those read that hold the process for long


def beside(name):
    """A program of the environment that runs this, else of the machine."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else shutil.which(name)


def python_script():
    """CPython's own script for gdb."""
    program = str(Path(sys.executable).resolve()) + "-gdb.py"
    return next(
        (path for path in (program, f"/usr/share/gdb/auto-load{program}") if Path(path).exists()), None
    )


def commands(pid):
    """What each tool is called, its program, its arguments, and whether it is slow."""
    gdb = ["-batch", "-p", pid]
    script = python_script()
    python_gdb = [*gdb, "-ex", f"source {script}", "-ex", "thread apply all py-bt"]
    return {
        OWN: (sys.executable, ["-m", "stacksplice", "dump", pid], False),
        "py-spy dump": (beside("py-spy"), ["dump", "--pid", pid], False),
        "py-spy dump --native": (beside("py-spy"), ["dump", "--native", "--pid", pid], True),
        "pystack remote": (beside("pystack"), ["remote", pid], True),
        "pystack remote --native": (beside("pystack"), ["remote", "--native", pid], True),
        "gdb, thread apply all bt": (beside("gdb"), [*gdb, "-ex", "thread apply all bt"], True),
        "py-bt of gdb, all threads": (script and beside("gdb"), python_gdb, True),
    }


def used():
    """The nanoseconds of processor time of the programs that have ended."""
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((of_children.ru_utime + of_children.ru_stime) * 1e9)


def read(command, pause):
    """The longest pause and the processor time in nanoseconds, or what went wrong."""
    before, pause[0] = used(), 0
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        return done.stderr.strip()[-200:] or f"status {done.returncode}"
    return pause[0], used() - before


def measure(pid, pause, repeats):
    """The values of ROWS for each tool by its name; a text in place of them where there are none."""
    found = {}
    for i in range(repeats):
        for name, (program, arguments, slow) in commands(pid).items():
            if not program:
                found[name] = f"{name.split()[0].rstrip(',')} is not installed"
            elif not isinstance(found.get(name), str) and not (slow and i % SLOW):
                value = read([program, *arguments], pause)
                if isinstance(value, str):
                    found[name] = value
                else:
                    found.setdefault(name, []).append(value)
    return found


def show(row, name, values):
    line = {"row": row, "method": name}
    if isinstance(values, str):
        line["unavailable"] = values
    else:
        ranked = sorted(values)
        line |= {"p50": statistics.median(ranked), "p90": ranked[len(ranked) * 9 // 10]}
        line |= {"samples": len(ranked), "frames": 0}
    print(json.dumps(line), flush=True)


def main():
    repeats = 1 if "--tiny" in sys.argv else 10 if "--quick" in sys.argv else 25
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        pause = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
        watched = subprocess.Popen(
            [sys.executable, "-c", WATCHED, file.name], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        try:
            watched.stdout.readline()
            for name, values in measure(str(watched.pid), pause, repeats).items():
                for i, row in enumerate(ROWS):
                    show(row, name, values if isinstance(values, str) else [each[i] for each in values])
        finally:
            watched.kill()
            watched.communicate()


main()
