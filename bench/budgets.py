"""What stacksplice wants to reach in each row of the benchmark.

A goal that is missed is shown as missed; it fails nothing.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """OURS may take at most FACTOR times what AGAINST takes, plus PLUS.

    Without AGAINST, PLUS alone is the limit, in the unit of the row.  MEASURE is "p50" or
    "instructions".
    """

    row: str
    """A pattern of rows, as of file names."""
    ours: str
    against: str | None = None
    factor: float = 0.0
    plus: float = 0.0
    measure: str = "p50"

    def matches(self, row: str) -> bool:
        return fnmatch.fnmatchcase(row, self.row)

    def limit(self, against: float) -> float:
        return self.factor * against + self.plus


MICROSECOND = 1000.0
MILLISECOND = 1_000_000.0
HANDLED = "Python, an exception handled"
KEEPING = "stacksplice, install{pcall = true}"

BUDGETS = [
    # Before its first frame a capture does what takes as long as thirty.
    Budget("native, depth 10", "stacksplice native", plus=80),
    Budget("native, depth 10,*", "stacksplice native", plus=80),
    Budget("native, depth 100*", "stacksplice native", "unw_backtrace", 0.25),
    Budget("native, depth [35]0*", "stacksplice native", "unw_backtrace", 0.25),
    Budget("native, depth *", "stacksplice native", "backtrace", 1 / 50),
    Budget("native, 6 * stacks", "stacksplice native", "unw_backtrace", 0.3),
    Budget("native, 10* interpreter stacks", "stacksplice native", "unw_backtrace", 0.35),
    Budget("native, 10* C stacks", "stacksplice native", "unw_backtrace", 0.8),
    Budget("native, [1-9]* stacks", "stacksplice native", "backtrace", 1 / 50),
    Budget("native, ever-new * stacks", "stacksplice native", "unw_backtrace", 0.8),
    Budget("combined, 10 bridges", "stacksplice combined", "unw_backtrace", 0.35),
    Budget("combined, after a collection", "stacksplice combined", "unw_backtrace", 0.5),
    Budget("combined, seldom", "stacksplice combined", "unw_backtrace", 0.8),
    Budget("combined, in new code", "stacksplice combined", "unw_backtrace", 5.0),
    Budget(
        "native, [1-9]* interpreter stacks", "stacksplice combined", "unw_backtrace", 2.0, 0, "instructions"
    ),
    Budget(
        "native, ever-new interpreter stacks", "stacksplice combined", "unw_backtrace", 2.3, 0, "instructions"
    ),
    Budget("two threads, against one", "stacksplice native", plus=1.1),
    Budget("two threads, against one", "stacksplice combined", plus=1.1),
    Budget("first capture in a thread, *", "stacksplice native", plus=100 * MICROSECOND),
    Budget("1000 threads that capture once, *", "stacksplice combined", "unw_backtrace", 1.0),
    Budget("first capture in a process with Lua on the stack", "stacksplice combined", plus=3 * MILLISECOND),
    Budget("first attach and capture in a process, a runtime*", "stacksplice", plus=3 * MILLISECOND),
    Budget("resolve, warm, an address", "stacksplice_resolve", plus=0.1 * MICROSECOND),
    Budget("resolve, first in a process", "stacksplice_resolve", plus=10 * MILLISECOND),
    Budget("Python, an exception of 5 frames", "stacksplice.originate", "TracebackException", 0.05),
    Budget("Python, an exception of *0 frames", "stacksplice.originate", "TracebackException", 0.012),
    Budget(
        "Python, the stack at 5 frames", "stacksplice.capture, names read", "traceback.extract_stack", 3.0
    ),
    Budget(
        "Python, the stack at 50 frames", "stacksplice.capture, names read", "traceback.extract_stack", 1.5
    ),
    Budget("C, the first report of a *", "stacksplice_format", "boost stacktrace", 1.2),
    Budget(
        "Python and Lua, a report of * frames",
        "stacksplice.format_exception",
        "traceback.format_exception",
        0.5,
        0,
        "instructions",
    ),
    Budget("Python, a report of * frames", "stacksplice.format_exception", "traceback.format_exception", 0.3),
    # That module writes part of it, and both load it.
    Budget(
        "Python, the first report of a *", "stacksplice.format_exception", "traceback.format_exception", 1.5
    ),
    Budget("Lua, error under 5* frames", "stacksplice.handler", "debug.traceback", 1 / 10),
    Budget("Lua, error under 200 frames", "stacksplice.handler", "debug.traceback", 0.13),
    Budget("Lua, the stack at 5 frames", "stacksplice.capture", plus=2 * MICROSECOND),
    # Where Lua is alone this is that function after one check.
    Budget("Lua, the stack at * frames", "stacksplice.traceback", "debug.traceback", 1.1),
    Budget(f"{HANDLED}*", "install(), no other code loaded", "bare", 1.01, 0, "instructions"),
    Budget(f"{HANDLED} where it is raised", "install()", "bare", 1.01, 0, "instructions"),
    Budget(f"{HANDLED} one call out*", "install()", "bare", 1.05, 0, "instructions"),
    Budget(f"{HANDLED} three calls out", "install()", "bare", 1.1, 0, "instructions"),
    # What CPython itself does for an event, and little more.
    Budget(f"{HANDLED} *call* out*", "install()", "an empty callback of the event", 1.01, 0, "instructions"),
    # C of Python's own called the loop.
    Budget(f"{HANDLED} [oi][un][t ]*()", "install()", "bare", 1.25, 0, "instructions"),
    Budget("Flask, *", "install()", "bare", 1.1, 0, "instructions"),
    # In a single raise lupa's garbage does not count.
    Budget("Python -> Lua -> Python, 20000 *", "stacksplice", "lupa", 1.0),
    Budget("border, no error, *", "stacksplice", "bare", 1.02, 40, "instructions"),
    # Besides our own part, lua_pcallk does 15 more with a handler.
    Budget(
        "border, no error, lua_pcall *", "stacksplice, handler in a slot", "bare", 1.0, 55, "instructions"
    ),
    Budget("Lua, a pcall that succeeds", KEEPING, "pcall", 1.0, 60, "instructions"),
    Budget("Lua, a pcall that fails *", KEEPING, "pcall", 1.5, 0, "instructions"),
    Budget("import in a process", "stacksplice", plus=2.5 * MILLISECOND),
    Budget(
        "import in a process",
        "stacksplice, and install()",
        "the standard modules of install()",
        1.0,
        5 * MILLISECOND,
    ),
    Budget("border, no error, a guard of C++", "stacksplice", "bare", 1.0, 0, "instructions"),
    Budget("require in a process", "stacksplice", plus=5 * MILLISECOND),
    Budget("memory, a frame of a stack that is kept", "native errors", "its address", 1.3),
    Budget("memory, a frame of a stack that is kept", "errors of a language", "its address", 1.3),
    # Flat: nothing for an error, some pages for what the C library or Python keeps in reserve.
    Budget("memory, growth over * errors of *", "native errors", plus=256),
    Budget("memory, growth over * Python exceptions", "stacksplice.originate", plus=512),
    Budget("live, nine *", "stacksplice dump", "py-spy dump", 1.0),
    Budget("live, processor time *", "stacksplice dump", "pystack remote", 1.0),
    Budget("live, processor time *", "stacksplice dump", "py-spy dump --native", 2.0),
]

# What the other methods of a row are compared with.
REFERENCES = [
    ("native, *", "unw_backtrace"),
    ("combined, *", "unw_backtrace"),
    ("first capture in a *", "unw_backtrace"),
    ("1000 threads *", "unw_backtrace"),
    ("one thread, *", "unw_backtrace"),
    ("two threads at once, *", "unw_backtrace"),
    ("resolve, warm*", "dladdr"),
    ("C, *report of *", "boost stacktrace"),
    ("Python*report of *", "traceback.format_exception"),
    ("Python, an exception handled*", "bare"),
    ("Flask, *", "bare"),
    ("Python, an exception*", "TracebackException"),
    ("Python, the stack*", "traceback.extract_stack"),
    ("Lua, error *", "debug.traceback"),
    ("Lua, the stack*", "debug.traceback"),
    ("Lua, a pcall *", "pcall"),
    ("Python -> Lua -> Python*", "lupa"),
    ("border, *", "bare"),
    ("import *", "an empty extension"),
    ("require *", "an empty module"),
    ("live, *", "py-spy dump"),
]


def reference(row: str) -> str | None:
    for pattern, method in REFERENCES:
        if fnmatch.fnmatchcase(row, pattern):
            return method
    return None
