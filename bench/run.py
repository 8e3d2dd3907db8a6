"""Run the benchmark programs, print the table, write the JSON and the plot.

usage: run.py BUILD_DIR [--quick | --tiny] [--part NAME]... [--rows TEXT] [--no-counts]
              [--json FILE] [--plot FILE]
       run.py BUILD_DIR --check [--part NAME]... [--rows TEXT]
       run.py BUILD_DIR --record [--because TEXT] [--rows TEXT]

./dev bench builds everything and calls this.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import ledger
from programs import PARTS, Runner
from results import Results
from rich.console import Console
from show import moved, plot, show


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help=argparse.SUPPRESS)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="fewer repetitions: noisier, sooner done")
    length.add_argument("--tiny", action="store_true", help="just see that every row can be run")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; repeatable")
    parser.add_argument("--rows", metavar="TEXT", help="only rows with this in their names")
    parser.add_argument("--no-counts", action="store_true", help="no instruction counts")
    counted = parser.add_mutually_exclusive_group()
    counted.add_argument("--check", action="store_true", help="compare instructions with the ledger's")
    counted.add_argument("--record", action="store_true", help="write them into the ledger")
    parser.add_argument("--because", metavar="TEXT", help="with --record: why rows became dearer")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="SVG or PNG, by its ending")
    return parser.parse_args()


def package_version(name: str) -> str:
    """What pkg-config says; empty when it does not know."""
    if not shutil.which("pkg-config"):
        return ""
    return subprocess.run(
        ["pkg-config", "--modversion", name], capture_output=True, text=True, check=False
    ).stdout.strip()


def about(options: argparse.Namespace) -> dict[str, object]:
    """Where and how it was measured."""
    cpu = ""
    if os.path.exists("/proc/cpuinfo"):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "length": "tiny" if options.tiny else "quick" if options.quick else "full",
        "machine": platform.machine(),
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "libc": " ".join(platform.libc_ver()),
        "libunwind": package_version("libunwind"),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def check(build: Path, parts: list[str] | None, rows: str | None, console: Console) -> int:
    """Compares with the file.  Status 1 where a row became dearer, came or went.

    Another environment than the ledger's allows no verdict, and no failure; another folder a rough one.
    """
    was_in, was = ledger.load()
    now_in = ledger.environment(build)
    now, failed = ledger.counted(build, parts, rows)
    was = ledger.selected(was, rows)
    if parts:  # the other parts were not asked
        was = {row: was[row] for row in was if row in now}
    changes = ledger.compare(was, now)
    if changes:
        console.print(moved(changes))
    number = sum(len(methods) for methods in now.values())
    console.print(f"{number} counts, {len(changes)} of them more than 3 % off the ledger")
    if failed:
        return 1
    differing = ledger.differences(was_in, now_in)
    if differing:
        console.print("The ledger was counted elsewhere, so this is no verdict:")
        for line in differing:
            console.print(f"  {line}", markup=False)
        return 0
    tolerance = ledger.TOLERANCE
    if was_in.get("place") != now_in["place"]:
        tolerance = ledger.ELSEWHERE
        console.print(
            "The ledger was counted in another folder: only what became half as dear again is a failure."
        )
    wrong = [change for change in changes if change.is_wrong(tolerance)]
    if wrong:
        console.print(
            f"{len(wrong)} counts became dearer, came or went. Make it cheaper, or record it with its reason "
            "in the same commit: ./dev bench --record --because TEXT"
        )
    return 1 if wrong else 0


def record(build: Path, rows: str | None, because: str | None, console: Console) -> int:
    """Writes the file anew.  A row that became dearer needs a reason, which stays with it."""
    was_in, was = ledger.load()
    facts = ledger.environment(build)
    now, failed = ledger.counted(build, None, rows)
    if failed:
        return 1
    same = not ledger.differences(was_in, facts) and was_in.get("place") == facts["place"]
    changes = ledger.compare(ledger.selected(was, rows), now)
    if changes:
        console.print(moved(changes))
    dearer = {(change.row, change.method) for change in changes if change.dearer and same}
    if dearer and not because:
        console.print(
            f"{len(dearer)} counts became dearer: say why with --because TEXT (--rows TEXT: only those)"
        )
        return 1
    for row, methods in now.items():
        for name, count in methods.items():
            before = was.get(row, {}).get(name)
            count.reason = because if (row, name) in dearer else before.reason if before else None
    kept = {} if rows is None else {row: methods for row, methods in was.items() if rows not in row}
    ledger.save(facts, {**kept, **now})
    console.print(f"The counts are in {os.path.relpath(ledger.PATH)}.")
    return 0


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 132, highlight=False)
    build = options.build.absolute()
    if options.check:
        return check(build, options.part, options.rows, console)
    if options.record:
        return record(build, options.rows, options.because, console)
    facts = about(options)
    length = "--tiny" if options.tiny else "--quick" if options.quick else None
    runner = Runner(build, length, options.rows, not options.no_counts)
    results = Results()
    for name in options.part or PARTS:
        PARTS[name](runner, results)
    if not results.rows:
        print("no row has been measured", file=sys.stderr)
        return 1
    show(results, facts, console)
    for path in (options.json, options.plot):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
    if options.json:
        options.json.write_text(json.dumps(results.as_json(facts), indent=1) + "\n", encoding="utf-8")
        console.print(f"The values are in {options.json}.")
    if options.plot and plot(results, options.plot):
        console.print(f"The plot is in {options.plot}.")
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
