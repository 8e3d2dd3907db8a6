"""Which programs there are, how they are run for times and how for instruction counts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from results import Results, read_dump

HERE = Path(__file__).absolute().parent


class Runner:
    """Runs programs of one build and says what goes on on standard error."""

    def __init__(self, build: Path, length: str | None, rows: str | None, counts: bool) -> None:
        self.build = build
        self.tiny = length == "--tiny"
        self.repeats = {"--tiny": 2, "--quick": 11}.get(length or "", 41)
        self.options = [length] if length else []
        if rows:
            self.options.append(f"--rows={rows}")
        self.rows = rows
        self.counts = counts
        self.failed: list[str] = []
        paths = [str(build / "python"), str(build / "bench")]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LUA_CPATH_5_4": f"{build}/lua/5.4/?.so;{build}/bench/lua/?.so;;",
        }

    def program(self, name: str) -> str:
        return str(self.build / "bench" / name)

    def wants(self, row: str) -> bool:
        return self.rows is None or self.rows in row

    def say(self, text: str) -> None:
        print(f"--> {text}", file=sys.stderr, flush=True)

    def fail(self, what: str, error: str) -> None:
        self.failed.append(what)
        self.say(f"{what} failed: {error.strip()}")

    def measure(self, results: Results, what: str, command: Sequence[str]) -> None:
        """The rows of one program: their times, then their instructions."""
        begin = time.monotonic()
        self.say(f"{what}: times")
        self._times(results, what, [*command, *self.options])
        if self.counts:
            self.say(f"{what}: instructions")
            self._counts(results, what, [*command, *self.options])
        self.say(f"{what}: {time.monotonic() - begin:.0f} s")

    def _times(self, results: Results, what: str, command: list[str]) -> None:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=self.environment, stdin=subprocess.DEVNULL
        ) as process:
            assert process.stdout
            row = ""
            for line in process.stdout:
                values = json.loads(line)
                results.add(values)
                if values["row"] != row:
                    row = values["row"]
                    self.say(f"  {row}")
        if process.returncode:
            self.fail(what, f"status {process.returncode}: {' '.join(command)}")

    def _counts(
        self, results: Results, what: str, command: list[str], of: tuple[str, str] | None = None
    ) -> None:
        """What the program dumps; OF is the row and the method of one that does not know them."""
        with tempfile.TemporaryDirectory() as folder:
            valgrind = [
                "valgrind",
                "--quiet",
                "--trace-children=yes",  # a Python may be a script that starts the program
                "--tool=callgrind",
                "--instr-atstart=no" if of else "--collect-atstart=no",
                f"--callgrind-out-file={folder}/out",
                *command,
            ]
            try:
                run = subprocess.run(
                    valgrind,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            except FileNotFoundError:
                self.fail(f"{what}, instructions", "valgrind is not installed")
                return
            if run.returncode:
                self.fail(f"{what}, instructions", f"status {run.returncode}: {run.stderr[-2000:]}")
            for path in Path(folder).iterdir():
                dump = read_dump(path)
                if dump:
                    name = json.loads(dump[0])
                    row, method = of or (name["row"], name["method"])
                    results.add_count(row, method, dump[1] / name["runs"], name["frames"])

    def first(
        self,
        results: Results,
        row: str,
        methods: dict[str, list[str]],
        unit: str = "ns",
        repeats: int | None = None,
        counted: bool = False,
    ) -> None:
        """A row of values that only fresh processes give: each command prints one number, and counts the
        same work under callgrind if COUNTED."""
        if not self.wants(row):
            return
        self.say(f"  {row}")
        values: dict[str, list[float]] = {name: [] for name in methods}
        for _ in range(repeats or self.repeats):
            for name, command in methods.items():
                run = subprocess.run(
                    command,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if run.returncode:
                    results.add(
                        {
                            "row": row,
                            "method": name,
                            "unavailable": run.stderr.strip()[-200:] or f"status {run.returncode}",
                        }
                    )
                else:
                    values[name].append(float(run.stdout))
        for name, found in values.items():
            results.add_values(row, name, unit, found)
            if found and counted and self.counts:
                self._counts(results, f"{row}, {name}", methods[name], (row, name))


CAPTURES = [
    "stacksplice native",
    "stacksplice combined",
    "unw_backtrace",
    "backtrace",
    "_Unwind_Backtrace",
    "boost safe_dump_to",
    "boost stacktrace",
]


REPORTS = ["stacksplice_format", "boost stacktrace", "cpptrace"]

FORMATS = ["stacksplice.format_exception", "traceback.format_exception"]


def native(runner: Runner, results: Results) -> None:
    program = runner.program("bench-native")
    runner.measure(results, "captures of C stacks", [program])
    runner.measure(results, "the guard of C++", [runner.program("bench-guard")])
    runner.first(
        results,
        "first capture in a process, depth 30",
        {name: [program, "--first", name] for name in CAPTURES},
    )
    threads = runner.program("bench-many-threads")
    for what, unit in (("time", "ns"), ("memory", "bytes")):
        row = f"1000 threads that capture once, {what} a thread"
        runner.first(results, row, {name: [threads, what, name] for name in CAPTURES}, unit, 5)
    runner.first(
        results, "resolve, first in a process", {"stacksplice_resolve": [program, "--first", "resolve"]}
    )
    program = runner.program("bench-report")
    runner.measure(results, "reports of C stacks", [program])
    runner.first(
        results,
        "C, the first report of a process, 50 frames",
        {name: [program, "--first", name] for name in REPORTS},
        counted=True,
    )


def mixed(runner: Runner, results: Results) -> None:
    runner.measure(
        results,
        "captures of Python, C and Lua stacks",
        [runner.program("bench-host"), str(HERE / "mixed.py")],
    )


def timed(statement: str, before: str = "import time") -> list[str]:
    """A Python that tells how many nanoseconds of processor time STATEMENT takes, after BEFORE."""
    return [
        sys.executable,
        "-c",
        f"import time; {before}; begin = time.process_time_ns(); {statement}; "
        "print(time.process_time_ns() - begin)",
    ]


def weighed(statement: str) -> list[str]:
    """A Python that tells how many bytes of memory it alone has after STATEMENT."""
    return [
        sys.executable,
        "-c",
        f"{statement}; import re; rows = open('/proc/self/smaps_rollup').read(); "
        "print(1024 * sum(map(int, re.findall(r'^Private_(?:Clean|Dirty): *(\\d+) kB', rows, re.M))))",
    ]


# With what they import, more than a hundred.
HUNDRED = (
    "import argparse, asyncio, csv, decimal, email.message, http.server, json, logging.config, "
    "multiprocessing, unittest, urllib.request, zipfile"
)
# Most programs need them, too.
STANDARD = "import importlib.machinery, threading, types, warnings"


def compile_package(runner: Runner) -> None:
    """What an installer does: the imports that are timed find their byte code."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(runner.build / "python")], check=True)


def python(runner: Runner, results: Results) -> None:
    runner.measure(results, "errors and stacks in Python", [sys.executable, str(HERE / "python_rows.py")])
    runner.measure(results, "raises in Python", [sys.executable, str(HERE / "raise_rows.py")])
    compile_package(runner)
    runner.first(
        results,
        "import in a process",
        {
            "stacksplice": timed("import stacksplice"),
            "stacksplice, and install()": timed(f"{STANDARD}; import stacksplice; stacksplice.install()"),
            "the standard modules of install()": timed(STANDARD),
            "an empty extension": timed("import bench_empty"),
            "traceback": timed("import traceback"),
            "json": timed("import json"),
        },
    )
    runner.first(
        results,
        "install() in a process with a hundred modules",
        {"stacksplice": timed("stacksplice.install()", f"{HUNDRED}, stacksplice")},
    )
    first_in_flask(runner, results)
    attaching(runner, results)
    reports(runner, results)


def first_in_flask(runner: Runner, results: Results) -> None:
    row = "Flask, the first request of a process that fails"
    command = [sys.executable, str(HERE / "first_flask.py")]
    if not runner.wants(row):
        return
    for name in ("flask", "lupa"):
        if importlib.util.find_spec(name) is None:
            results.add({"row": row, "method": "stacksplice", "unavailable": f"{name} is not installed"})
            return
    methods = {"stacksplice, and install()": [*command, "install"], "without": command}
    runner.first(results, row, methods, counted=True)


def attaching(runner: Runner, results: Results) -> None:
    """lupa brings a copy of each Lua: one runtime, and one of each Lua that we know."""
    for what, modules in (("a runtime", ["lua54"]), ("three Luas", ["lua53", "lua54", "lua55"])):
        row = f"first attach and capture in a process, {what} of lupa"
        if not runner.wants(row):
            continue
        if importlib.util.find_spec("lupa") is None:
            results.add({"row": row, "method": "stacksplice", "unavailable": "lupa is not installed"})
            continue
        command = [sys.executable, str(HERE / "first_lupa.py"), *modules]
        runner.first(results, row, {"stacksplice": command})


def reports(runner: Runner, results: Results) -> None:
    program = [sys.executable, str(HERE / "report_rows.py")]
    runner.measure(results, "reports in Python", program)
    for languages, mixed in ("Python", []), ("Python and Lua", ["mixed"]):
        runner.first(
            results,
            f"{languages}, the first report of a process, 50 frames",
            {name: [*program, "--first", name, *mixed] for name in FORMATS},
            counted=True,
        )


def lua(runner: Runner, results: Results) -> None:
    program = runner.program("bench-lua")
    runner.measure(results, "errors and stacks in Lua", [program, str(HERE / "lua_rows.lua")])
    runner.measure(results, "traces of LuaJIT", [sys.executable, str(HERE / "jit_rows.py")])
    runner.first(
        results,
        "Lua, the first error of a process, 5 frames",
        {name: [program, "--first-error", name] for name in ("stacksplice.handler", "debug.traceback")},
        counted=True,
    )
    runner.first(
        results,
        "require in a process",
        {
            "stacksplice": [program, "--require", "stacksplice"],
            "an empty module": [program, "--require", "bench_empty"],
        },
    )
    runner.first(
        results,
        "first capture in a process with Lua on the stack",
        {name: [program, "--first", name] for name in ("stacksplice combined", "unw_backtrace")},
    )


def memory(runner: Runner, results: Results) -> None:
    counts, runner.counts = runner.counts, False
    runner.measure(results, "memory", [runner.program("bench-memory")])
    runner.measure(results, "memory of Python's errors", [sys.executable, str(HERE / "python_memory.py")])
    runner.first(
        results,
        "memory of a process with a hundred modules",
        {
            "stacksplice, and install()": weighed(f"{HUNDRED}, stacksplice; stacksplice.install()"),
            "stacksplice": weighed(f"{HUNDRED}, stacksplice"),
            "without": weighed(HUNDRED),
        },
        "bytes",
        5,
    )
    runner.counts = counts


def live(runner: Runner, results: Results) -> None:
    counts, runner.counts = runner.counts, False
    compile_package(runner)
    runner.measure(results, "reading a process", [sys.executable, str(HERE / "live_rows.py")])
    runner.counts = counts


PARTS: dict[str, Callable[[Runner, Results], None]] = {
    "native": native,
    "mixed": mixed,
    "python": python,
    "lua": lua,
    "memory": memory,
    "live": live,
}
