"""Runs inside a program that embeds Python: its stack as we see it, beside what others see.

The Python lines are compared with the interpreter's own traceback, the addresses of the native
frames with those that gdb finds when it attaches to the process meanwhile.  The answer is written
as JSON to the file that STACKSPLICE_PROBE names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import traceback

import stacksplice

GDB = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off",
       "-ex", "set backtrace past-main on", "-ex", "set print frame-info location",
       "-ex", "bt", "-p"]  # fmt: skip
# One native frame: where functions are inlined, only the first line has its address.
FRAME = re.compile(r"^#\d+ +0x([0-9a-f]+) in (.*\n(?:#\d+ +[^0 ].*\n)*)", re.MULTILINE)
LOOP = "_PyEval_EvalFrameDefault"


def native_by_gdb() -> list[int]:
    """The return addresses of this thread, innermost first, without Python's evaluation loop."""
    output = subprocess.run([*GDB, str(os.getpid())], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False).stdout  # fmt: skip
    found = FRAME.findall(output)
    return [int(ip, 16) for ip, names in found if LOOP not in names]


class Item:
    """Its order is asked for by C code."""

    answer: dict[str, object] = {}

    def __lt__(self, other: object) -> bool:
        ours, theirs = stacksplice.capture(), traceback.extract_stack()
        Item.answer = {
            "python": [[f.file, f.line] for f in ours if f.language == "python" and f.file],
            "traceback": [[f.filename, f.lineno] for f in reversed(theirs)],
            "native": [f.address for f in ours
                       if f.language == "native" and f.kind == "native" and not f.inlined],
            "gaps": [f.reason for f in ours if f.kind == "gap"],
            "gdb": native_by_gdb(),
        }  # fmt: skip
        return False


def run() -> None:
    sorted([Item(), Item()])
    with open(os.environ["STACKSPLICE_PROBE"], "w", encoding="utf-8") as file:
        json.dump(Item.answer, file)
