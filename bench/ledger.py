"""The ledger: how many instructions each counted row takes, and what may not become dearer unseen.

counts.json has a row's instructions, and those of its dearest tenth where each visit is counted by
itself.  A count depends on more than our code: the C library chooses functions by the processor, another
build of Python calls us otherwise, and with the length of a path the sizes of what is allocated differ,
where a collector frees what a stack goes through.  So every program runs in one environment, by paths of
one length (`./dev bench` builds and calls us by such), and what remains is noted.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import machine, python_version

from programs import HERE, PARTS, Runner
from results import Results

PATH = HERE / "counts.json"
TOLERANCE = 0.03
# In another folder: real paths have other lengths, which moved a row by a third.
ELSEWHERE = 0.5
# What the C library would choose by the processor.
TUNABLES = (
    "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-BMI1,-BMI2,-LZCNT,-MOVBE,-RTM,-ERMS,-FSRM"
)


@dataclass
class Count:
    instructions: int
    p90: int | None = None
    reason: str | None = None
    """Why it became dearer, when it last did."""


Counts = dict[str, dict[str, Count]]


@dataclass(frozen=True)
class Change:
    row: str
    method: str
    measure: str
    was: int | None
    now: int | None

    @property
    def dearer(self) -> bool:
        return self.is_wrong(TOLERANCE) and self.was is not None and self.now is not None

    def is_wrong(self, tolerance: float) -> bool:
        """Whether it became dearer by more than that, came or went."""
        return self.was is None or self.now is None or self.now > (1 + tolerance) * self.was


class Counter(Runner):
    """Collects what the parts measure, and counts it two programs at a time."""

    def __init__(self, build: Path, rows: str | None) -> None:
        super().__init__(build, None, rows, True)
        self.options.append("--ledger")
        self.queue: list[tuple[str, list[str], tuple[str, str] | None]] = []
        self.environment = {
            "PATH": os.defpath,
            **{name: self.environment[name] for name in ("PYTHONPATH", "LUA_CPATH_5_4")},
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "GLIBC_TUNABLES": TUNABLES,
        }

    def measure(self, results: Results, what: str, command: list[str]) -> None:
        if self.counts:
            self.queue.append((what, [*command, *self.options], None))

    def first(
        self,
        results: Results,
        row: str,
        methods: dict[str, list[str]],
        *_args: object,
        counted: bool = False,
        **_options: object,
    ) -> None:
        for name, command in methods.items():
            if counted and self.wants(row) and name.startswith("stacksplice"):
                self.queue.append((f"{row}, {name}", command, (row, name)))

    def count(self, results: Results) -> None:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for done in [pool.submit(self.one, results, *program) for program in self.queue]:
                done.result()

    def one(self, results: Results, what: str, command: list[str], of: tuple[str, str] | None) -> None:
        self.say(f"{what}: counting")
        self._counts(results, what, command, of)
        self.say(f"{what}: counted")


def counted(build: Path, parts: list[str] | None, rows: str | None) -> tuple[Counts, list[str]]:
    """What the build takes, and which programs failed."""
    runner, results = Counter(build, rows), Results()
    for name in parts or PARTS:
        PARTS[name](runner, results)
    runner.count(results)
    found: Counts = {}
    for row, methods in results.rows.items():
        for name, method in methods.items():
            if method.instructions is not None:
                p90 = method.instructions_p90
                count = Count(round(method.instructions), None if p90 is None else round(p90))
                found.setdefault(row, {})[name] = count
    return found, runner.failed


# ---- What counts depend on -----------------------------------------------------------------------


def output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def build_id(path: str) -> str:
    found = re.search(r"Build ID: ([0-9a-f]+)", output("readelf", "-n", path))
    return found[1] if found else "none"


def mapped(program: str) -> dict[str, str]:
    """The build-ids of what counts most among the libraries of a program, by name."""
    found = {}
    for path in re.findall(r"=> (/\S+)", output("ldd", program)):
        name = Path(path).name
        if name.startswith(("libc.so", "libpython", "liblua")):
            found[name] = build_id(path)
    return found


def package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def environment(build: Path) -> dict[str, str]:
    compiler = sysconfig.get_config_var("CC") or "cc"
    cache = build / "CMakeCache.txt"
    found = re.search(r"^CMAKE_C_COMPILER:\w+=(.+)$", cache.read_text(encoding="utf-8"), re.M)
    compiler = found[1] if found else compiler.split()[0]
    python = os.path.realpath(sys.executable)
    return {
        "machine": machine(),
        "place": sha256(os.path.realpath(build).encode()).hexdigest()[:12],
        "compiler": output(compiler, "--version").partition("\n")[0],
        "valgrind": output("valgrind", "--version").strip(),
        "python": f"{python_version()} {build_id(python)}",
        **mapped(str(build / "bench" / "bench-host")),
        **{name: package(name) for name in ("lupa", "flask", "greenlet", "lxml", "uvloop")},
    }


# ---- The file ------------------------------------------------------------------------------------


def load() -> tuple[dict[str, str], Counts]:
    if not PATH.exists():
        return {}, {}
    saved = json.loads(PATH.read_text(encoding="utf-8"))
    rows = {
        row: {name: Count(**count) for name, count in methods.items()}
        for row, methods in saved["rows"].items()
    }
    return saved["environment"], rows


def save(facts: dict[str, str], counts: Counts) -> None:
    rows = {
        row: {
            name: {key: value for key, value in asdict(count).items() if value is not None}
            for name, count in sorted(methods.items())
        }
        for row, methods in sorted(counts.items())
    }
    PATH.write_text(json.dumps({"environment": facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")


# ---- Comparing -----------------------------------------------------------------------------------


def compare(was: Counts, now: Counts) -> list[Change]:
    """Each count that moved by more than the tolerance, that is new, or that is gone."""
    changes = []
    for row, name in sorted({(row, name) for counts in (was, now) for row in counts for name in counts[row]}):
        before, after = was.get(row, {}).get(name), now.get(row, {}).get(name)
        for measure in ("instructions", "p90"):
            old = getattr(before, measure, None)
            new = getattr(after, measure, None)
            if old is None and new is None:
                continue
            if old is None or new is None or abs(new - old) > TOLERANCE * old:
                changes.append(Change(row, name, measure, old, new))
    return changes


def differences(was: dict[str, str], now: dict[str, str]) -> list[str]:
    """What but the folder differs."""
    return [
        f"{name}: {was.get(name, 'none')} in the ledger, {now.get(name, 'none')} here"
        for name in sorted({*was, *now} - {"place"})
        if was.get(name) != now.get(name)
    ]


def selected(counts: Counts, rows: str | None) -> Counts:
    return {row: methods for row, methods in counts.items() if rows is None or rows in row}
