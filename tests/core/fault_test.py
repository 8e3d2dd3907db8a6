"""What a crash leaves behind, seen from outside: fault_test.py [EMULATOR...] PROGRAM."""

import contextlib
import ctypes
import functools
import os
import re
import signal
import sys
import unittest

from program_runs import COMMAND, Run

SIGNALS = {
    "segv": signal.SIGSEGV,
    "bus": signal.SIGBUS,
    "fpe": signal.SIGFPE,
    "ill": signal.SIGILL,
    "abort": signal.SIGABRT,
    "sys": signal.SIGSYS,
}
MESSAGES = {
    "segv": "no memory at address 0x8",
    "bus": r"nothing behind the mapped address 0x[0-9a-f]+",
    "fpe": "integer division by zero|the process sent it to itself",
    "ill": "illegal (instruction|operand of an instruction)",
    "abort": "the process aborted itself",
    "sys": r"system call \d+ is not allowed",
}
HANDLED = "handler 11 at 0x8"
# The program's arguments, lines that it prints, and whether its report has the stack that it printed.
FAULTS = [
    ("vfork case", ["child 11"], False),
    ("memory main", [], True),
    ("memory thread", [], True),
    ("cancelled main", [], True),
    ("cancelled thread", [], True),
    ("blocked case", [], False),
    ("two case", [], False),
    ("later case", [HANDLED], True),
    ("runtime case", ["repaired", HANDLED], True),
    ("raised case", [HANDLED], True),  # as faulthandler does: its signal must not come before the report
]
# The program's arguments, its status, a text that it prints, and what it writes to standard error.
WITHOUT_FILE = [
    ("ignored case", 0, "went on\n", ""),  # stays ignored
    ("arguments case", 0, "checked\n", ""),
    ("removed case", -signal.SIGSEGV, "", "(?!.*stacksplice).*"),
    ("removed-below case", -signal.SIGSEGV, f"{HANDLED}\n", ".*"),
    ("no-file case", -signal.SIGSEGV, "", ".*SIGSEGV: no memory at address 0x8\n.*"),
    (
        "file-size main",
        -signal.SIGSEGV,
        "",
        ".*\nstacksplice: no report file in [^\n]*: nothing can be written to it\n.*",
    ),
]
NOT_EMULATED = ("memory main", "memory thread", "raised case")


@functools.cache
def build():
    """How the library was built."""
    return Run("build", "case").out


def addresses(frames):
    """Of a stack: one for each element."""
    found = []
    for frame in frames:
        if not found or found[-1] != frame["address"]:
            found.append(frame["address"])
    return found


class FaultTest(unittest.TestCase):
    def assert_died(self, run, how):
        self.assertEqual(run.status, -SIGNALS[how], run.err)
        self.assert_reported(run, how)

    def assert_reported(self, run, how):
        self.assertNotIn("went on", run.out)
        header, error = run.report["header"], run.report["error"]
        self.assertEqual(header["event"], SIGNALS[how].name)
        self.assertEqual(header["signal"], SIGNALS[how])
        self.assertEqual(error["type"], SIGNALS[how].name)
        self.assertIn(f"{SIGNALS[how].name}: {error['message']}\nStack of thread ", run.err)
        self.assertIn("\nstacksplice: report file ", run.err)

    def assert_as_logged(self, run):
        """The stack through the signal frame: only the innermost frames are further on."""
        if "frames: none" in build():
            place, gap = run.report["error"]["stack"]
            self.assertEqual((place["kind"], gap["kind"]), ("native", "gap"))
            return
        logged, found = run.logged, addresses(run.report["error"]["stack"])
        self.assertIn(logged[1:], [found[i:] for i in range(len(found))], run.err)

    def test_each_signal(self):
        for how in SIGNALS:
            for where in ("main", "thread"):
                with self.subTest(how=how, where=where):
                    run = Run(how, where)
                    self.assert_died(run, how)
                    self.assertRegex(run.report["error"]["message"], f"^({MESSAGES[how]})$")
                    self.assert_as_logged(run)
                    if (
                        run.report["header"]["signal_code"] > 0
                        and how != "sys"
                        and "frames: none" not in build()
                    ):
                        self.assertEqual(addresses(run.report["error"]["stack"])[1:], run.logged[1:], run.err)
                    current = run.report["current_error"]["hresult"]
                    self.assertEqual(current, "0x80070057" if where == "main" else "0x8000000b")

    def test_a_fault_ends_the_process_with_one_report(self):
        for arguments, printed, has_its_stack in FAULTS:
            with self.subTest(arguments):
                if len(COMMAND) > 1 and arguments in NOT_EMULATED:
                    self.skipTest("the emulator needs memory, too, and does not tell which signals wait")
                run = Run(*arguments.split())
                for line in printed:
                    self.assertIn(f"{line}\n", run.out)
                self.assert_died(run, "segv")
                self.assertEqual(len(run.reports), 1)
                if has_its_stack:
                    self.assert_as_logged(run)

    def test_call_of_no_function(self):
        if "frames: none" in build():
            self.skipTest("no callers are known")
        run = Run("call", with_core=True)
        self.assert_died(run, "segv")
        self.assertEqual(run.report["error"]["message"], "there is no function at address 0x0")
        self.assertEqual(addresses(run.report["error"]["stack"])[1:], run.logged[1:], run.err)
        if "#0" in run.core:
            self.assertRegex(run.core, r"#0 +0x0+ in \?\?")

    def test_exported_functions_have_names(self):
        if "frames: none" in build():
            self.skipTest("the function that calls is not known")
        run = Run("abort")
        self.assertRegex(run.err, r"\n    \(C\) abort\+0x[0-9a-f]+ \([^ ]*\)\n")
        functions = [frame.get("function") for frame in run.report["error"]["stack"]]
        self.assertIn("abort", functions)

    def test_each_signal_in_a_child(self):
        for how in SIGNALS:
            with self.subTest(how=how):
                run = Run(how, "child")
                self.assertIn(f"child {int(SIGNALS[how])}\n", run.out)
                self.assert_reported(run, how)
                self.assert_as_logged(run)

    def test_the_core_shows_the_crash(self):
        for how, function in (("segv", "cause_fault"), ("abort", "call_abort"), ("error", "cause_fault")):
            with self.subTest(how=how):
                run = Run(how, with_core=True)
                if "#0" not in run.core:
                    self.skipTest("no core files here, or no gdb")
                self.assertIn(f" {function} (", run.core)
                self.assertNotIn("on_signal", run.core)

    def test_stack_used_up(self):
        for where in ("main", "thread"):
            with self.subTest(where=where):
                run = Run("overflow", where)
                self.assert_died(run, "segv")
                self.assertEqual(run.report["error"]["message"], "the stack is used up")
                if "frames: none" not in build():
                    self.assertGreater(run.report["error"]["frames_left_out"], 1000)
                self.assert_as_logged(run)
        self.assertIn("child 11\n", Run("overflow", "child").out)

    def test_stack_that_nobody_added(self):
        if "frames: none" in build():
            self.skipTest("no callers are known")
        for how, where in (("segv", "fiber"), ("segv", "bare fiber"), ("overflow", "fiber")):
            with self.subTest(how=how, where=where):
                run = Run(how, where)
                self.assert_died(run, "segv")
                outer = run.stacks[0][1:]
                self.assertGreater(len(outer), 1)
                self.assertEqual(addresses(run.report["error"]["stack"])[-len(outer) :], outer, run.err)
                self.assertNotIn("[gap: ", run.err)

    def test_damaged_heap(self):
        for where in ("main", "thread"):
            with self.subTest(where=where):
                run = Run("heap", where)
                self.assertIn(run.status, (-signal.SIGABRT, -signal.SIGSEGV), run.err)
                self.assert_as_logged(run)

    def test_fault_in_the_report(self):
        run = Run("error")
        self.assert_died(run, "segv")
        self.assertIn("stacksplice: a fault interrupted the report", run.err)
        self.assertIsNone(run.report["current_error"])
        self.assert_as_logged(run)

    def test_crash_in_a_capture(self):
        """The report's own capture faults as well."""
        run = Run("capture")
        self.assert_died(run, "segv")
        self.assertIn("stacksplice: a fault interrupted the report", run.err)
        self.assertGreater(len(run.report["error"]["stack"]), 0 if "frames: none" in build() else 5)

    def test_lock_that_nobody_gives_back(self):
        if not hasattr(ctypes.CDLL(None), "_dl_find_object"):
            self.skipTest("here each name of a binary needs that lock")
        run = Run("lock")
        self.assert_died(run, "segv")
        self.assertIn("stacksplice: a part of the report took too long", run.err)
        self.assertEqual(run.report["modules"], [])
        self.assert_as_logged(run)

    def test_stderr_that_nobody_reads(self):
        if len(COMMAND) > 1:
            self.skipTest("the emulator itself writes there when the program dies, and waits for ever")
        reader, writer = os.pipe()
        try:
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while os.write(writer, bytes(1 << 12)):
                    pass
            os.set_blocking(writer, True)
            for where in ("main", "thread"):
                with self.subTest(where=where):
                    run = Run("segv", where, stderr=writer)
                    self.assertEqual(run.status, -signal.SIGSEGV)
                    self.assertEqual(run.report["header"]["event"], "SIGSEGV")
                    self.assert_as_logged(run)
        finally:
            os.close(reader)
            os.close(writer)

    def test_stderr_whose_reader_is_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            run = Run("segv", stderr=writer)
        finally:
            os.close(writer)
        self.assertEqual(run.status, -signal.SIGSEGV)
        self.assertEqual(run.report["header"]["event"], "SIGSEGV")

    def test_all_descriptors_in_use(self):
        run = Run("descriptors", "thread")
        self.assert_died(run, "segv")
        if len(COMMAND) == 1:
            self.assertTrue(run.report["threads"])

    def test_lock_that_nobody_gives_back_and_no_timer(self):
        if not hasattr(ctypes.CDLL(None), "_dl_find_object"):
            self.skipTest("here each name of a binary needs that lock")
        run = Run("no-timer")
        self.assert_died(run, "segv")
        self.assertEqual(run.report["modules"], [])
        self.assert_as_logged(run)

    def test_filters_of_system_calls(self):
        """The process ends as by its crash where a filter refuses, pretends or traps what the end needs."""
        if len(COMMAND) > 1:
            self.skipTest("an emulator has no filters")
        segv, abort = int(signal.SIGSEGV), int(signal.SIGABRT)
        for how, status in (
            ("no-actions", 128 + segv),
            ("pretended-actions", 128 + segv),
            ("abort-no-actions", 128 + abort),
            ("trapped-actions", 128 + segv),
            ("trapped-files", -segv),
            ("trapped-timer", -segv),
        ):
            with self.subTest(how=how):
                run = Run(how)
                self.assertEqual(run.status, status, run.err)
                self.assertIn("\nStack of thread ", run.err)
                self.assertEqual(len(run.reports), int(how != "trapped-files"), run.err)

    def test_sanitizer_reports_too(self):
        run = Run("segv", sanitizer=True)
        if "Sanitizer" not in run.err:
            self.skipTest("no sanitizer here")
        self.assert_reported(run, "segv")
        self.assert_as_logged(run)
        self.assertLess(run.err.index("stacksplice: report file"), run.err.index("Sanitizer"))

    def test_fail_fast_reports_once(self):
        run = Run("failfast")
        self.assertEqual(run.status, -signal.SIGABRT, run.err)
        self.assertEqual(run.report["header"]["event"], "RoFailFastWithErrorContext")
        self.assertNotIn("signal", run.report["header"])

    def test_signal_from_a_process(self):
        run = Run("kill")
        self.assert_died(run, "segv")
        self.assertEqual(run.report["error"]["message"], "the process sent it to itself")

    def needs_own_threads(self):
        if len(COMMAND) > 1:
            self.skipTest("the emulator has threads of its own, and does not pass on all signals")

    def test_other_threads(self):
        self.needs_own_threads()
        run = Run("threads", "case")
        self.assert_died(run, "segv")
        threads = run.report["threads"]
        self.assertEqual([t["answered"] for t in threads], [True, True, False], run.err)
        for thread in threads:
            self.assertEqual(thread["name"], "fault_program"[:15])
            self.assertEqual(bool(thread["stack"]), thread["answered"])
        self.assertEqual(len(re.findall(r"^Stack of thread \d+ \(fault_program, most", run.err, re.M)), 2)
        self.assertRegex(run.err, r"\nThread \d+ \(fault_program\) has not answered in time\n")

    def test_threads_that_wait_for_signals_get_only_their_own(self):
        self.needs_own_threads()
        run = Run("waiters", "case")
        self.assert_died(run, "segv")
        self.assertNotIn("taken from its own", run.out)
        answers = [t["answered"] for t in run.report["threads"]]
        self.assertEqual((len(answers), answers[:2]), (4, [True, True]), run.err)

    def test_many_threads(self):
        self.needs_own_threads()
        run = Run("many", "case")
        self.assert_died(run, "segv")
        self.assertEqual(len(run.report["threads"]), 256)
        self.assertEqual({t["answered"] for t in run.report["threads"]}, {True})
        self.assertEqual(run.report["threads_left_out"], 44)
        self.assertIn("\n... 44 more threads\n", run.err)

    def test_handlers_that_end_or_repair(self):
        run = Run("earlier", "case")
        self.assertEqual(run.status, 5, run.err)
        self.assertIn(f"{HANDLED}\n", run.out)
        self.assert_reported(run, "segv")
        run = Run("repaired", "case")
        self.assertEqual((run.status, "went on\n" in run.out), (0, True), run.err)

    def test_what_leaves_no_report_file(self):
        for arguments, status, printed, told in WITHOUT_FILE:
            with self.subTest(arguments):
                run = Run(*arguments.split())
                self.assertEqual((run.status, run.left), (status, []), run.err)
                self.assertIn(printed, run.out)
                self.assertTrue(re.fullmatch(told, run.err, re.DOTALL), run.err)


if __name__ == "__main__":
    COMMAND[:] = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
