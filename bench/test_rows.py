"""Every program of the benchmark runs, and every row is there with values.  No time is judged.

usage: test_rows.py BUILD_DIR PART,PART...
"""

import sys
import unittest
from fnmatch import fnmatchcase
from pathlib import Path

import ledger
from budgets import BUDGETS, REFERENCES
from ledger import Change, Count
from programs import PARTS, Runner
from results import Results

BUILD, NAMES = Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1).split(",")

STACKS = ["6", "100", "1000"]
ROWS = {
    "native": [
        f"native, depth {depth}{kind}"
        for depth in (10, 30, 100, 500)
        for kind in ("", ", frame pointers kept")
    ]
    + [f"native, {count} C stacks" for count in STACKS]
    + [
        "native, ever-new C stacks",
        "first capture in a thread, depth 30",
        "first capture in a process, depth 30",
        "one thread, depth 40",
        "two threads at once, depth 40",
        "two threads, against one",
        "1000 threads that capture once, time a thread",
        "1000 threads that capture once, memory a thread",
        "resolve, warm, an address",
        "resolve, first in a process",
        "border, no error, a guard of C++",
        "C, a report of 50 frames",
        "C, the first report of a process, 50 frames",
    ],
    "mixed": [f"native, {count} interpreter stacks" for count in STACKS]
    + ["native, ever-new interpreter stacks", "combined, 10 bridges"]
    + ["combined, after a collection", "combined, seldom", "combined, in new code"],
    "python": [
        f"Python, {what} {frames} frames"
        for what in ("an exception of", "the stack at")
        for frames in (5, 50, 200)
    ]
    + [
        "Python, an exception of 5 frames that ten tasks await",
        "Python -> Lua -> Python, a raise",
        "Python -> Lua -> Python, 20000 raises, processor time of one",
        "Python -> Lua -> Python, a call",
        "border, no error, a call of Python",
        "import in a process",
        "install() in a process with a hundred modules",
        "first attach and capture in a process, a runtime of lupa",
        "first attach and capture in a process, three Luas of lupa",
    ]
    + [
        f"{languages}, {what} 50 frames"
        for languages in ("Python", "Python and Lua")
        for what in ("a report of", "the first report of a process,")
    ]
    + ["Flask, a request that handles an error below Lua", "Flask, the first request of a process that fails"]
    + [
        f"Python, an exception handled {how}"
        for how in ("where it is raised", "one call out", "three calls out")
        + ("out of sorted()", "out of next()", "in hasattr()", "out of a greenlet")
        + tuple(
            f"one call out, {where}"
            for where in (
                "40 frames deep",
                "below sorted()",
                "below qsort() of C",
                "below lupa",
                "below lxml",
            )
            + ("in asyncio", "in uvloop")
        )
    ],
    "lua": [
        f"Lua, {what} {frames} frames" for what in ("error under", "the stack at") for frames in (5, 50, 200)
    ]
    + ["Lua, a pcall that succeeds"]
    + [f"Lua, a pcall that fails under {frames} frames" for frames in (1, 5)]
    + [
        "border, no error, lua_pcall of an empty function",
        "border, no error, lua_pcall of a small loop",
        "require in a process",
        "first capture in a process with Lua on the stack",
        "Lua, the first error of a process, 5 frames",
        "LuaJIT, 1000 calls of C from a trace",
        "LuaJIT, 1000 captures from a trace",
    ],
    "memory": [
        "memory, an error that is kept, each of another stack",
        "memory, a frame of a stack that is kept",
        "memory, growth over 100000 errors of one stack",
        "memory, growth over 100000 errors of 1000 stacks",
        "memory, growth over 10000 Python exceptions",
        "memory of a process with a hundred modules",
    ],
    "live": ["live, nine threads are read", "live, processor time of the reader"],
}
# Peers that a machine may lack; a peer that is there and finds other frames is a failure.
MAY_LACK = (
    "libunwind.so.8 cannot be loaded",
    "built without boost.stacktrace",
    "built without cpptrace",
    "lupa is not installed",
    "flask is not installed",
    "greenlet is not installed",
    "lxml is not installed",
    "uvloop is not installed",
    "py-spy is not installed",
    "pystack is not installed",
    "gdb is not installed",
    "py-bt is not installed",
    "CPython 3.12 and newer have an event for it",
)


class RowsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runner = Runner(BUILD, "--tiny", None, False)
        cls.results = Results()
        for name in NAMES:
            PARTS[name](cls.runner, cls.results)

    def test_every_program_ends_well(self):
        self.assertEqual(self.runner.failed, [])

    def test_every_row_is_there_and_no_other(self):
        expected = [row for name in NAMES for row in ROWS[name]]
        self.assertEqual(sorted(self.results.rows), sorted(expected))

    def test_every_method_has_values_or_says_why_not(self):
        for row, methods in self.results.rows.items():
            for name, method in methods.items():
                with self.subTest(row=row, method=name):
                    if method.unavailable:
                        self.assertIn(method.unavailable, MAY_LACK)
                    else:
                        self.assertIsNotNone(method.p50)

    def test_each_goal_is_about_rows_and_methods_that_exist(self):
        rows = [row for name in ROWS for row in ROWS[name]]
        for budget in BUDGETS:
            with self.subTest(row=budget.row):
                self.assertTrue(any(budget.matches(row) for row in rows))
        for verdict in self.results.verdicts():
            with self.subTest(row=verdict.row):
                self.assertIn(verdict.budget.ours, self.results.rows[verdict.row])
                if verdict.budget.against:
                    self.assertIn(verdict.budget.against, self.results.rows[verdict.row])

    def test_each_reference_is_used(self):
        for pattern, name in REFERENCES:
            found = [methods for row, methods in self.results.rows.items() if fnmatchcase(row, pattern)]
            if found:
                self.assertTrue(any(name in methods for methods in found), pattern)


class CountTest(unittest.TestCase):
    def test_instructions_are_counted(self):
        runner, results = Runner(BUILD, "--tiny", "native, depth 10", True), Results()
        PARTS["native"](runner, results)
        self.assertEqual(runner.failed, [])
        for row, methods in results.rows.items():
            for name, method in methods.items():
                with self.subTest(row=row, method=name):
                    self.assertTrue(method.instructions or method.unavailable)

    def test_a_guard_of_cpp_that_succeeds_adds_few_instructions(self):
        row = "border, no error, a guard of C++"
        runner, results = Runner(BUILD, "--tiny", row, True), Results()
        PARTS["native"](runner, results)
        self.assertEqual(runner.failed, [])
        methods = results.rows[row]
        self.assertLessEqual(methods["stacksplice"].instructions - methods["bare"].instructions, 25)


class LedgerTest(unittest.TestCase):
    def test_the_same_program_takes_the_same_instructions(self):
        row = "native, depth 30"
        first, second = (ledger.counted(BUILD, ["native"], row) for _ in range(2))
        self.assertEqual(first, second)
        counts, failed = first
        self.assertEqual(failed, [])
        self.assertEqual(set(counts[row]), {"stacksplice native", "stacksplice combined"})

    def test_what_moved_came_or_went_is_told(self):
        was = {"a": {"x": Count(100, 200), "y": Count(100)}, "gone": {"x": Count(5)}}
        now = {"a": {"x": Count(103, 207), "y": Count(96)}, "new": {"x": Count(7)}}
        found = [(c.row, c.method, c.measure, c.dearer) for c in ledger.compare(was, now)]
        self.assertEqual(
            found,
            [
                ("a", "x", "p90", True),
                ("a", "y", "instructions", False),
                ("gone", "x", "instructions", False),
                ("new", "x", "instructions", False),
            ],
        )

    def test_in_another_folder_only_half_as_dear_again_is_a_failure(self):
        wrong = [
            Change("a", "x", "instructions", was, now).is_wrong(ledger.ELSEWHERE)
            for was, now in ((100, 149), (100, 151), (None, 1), (1, None))
        ]
        self.assertEqual(wrong, [False, True, True, True])

    def test_another_environment_is_named(self):
        self.assertEqual(
            ledger.differences(
                {"lua": "1", "libc": "2", "place": "a"}, {"lua": "1", "libc": "3", "place": "b"}
            ),
            ["libc: 2 in the ledger, 3 here"],
        )


if __name__ == "__main__":
    unittest.main()
