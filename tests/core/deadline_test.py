"""What a missed deadline leaves behind, seen from outside: deadline_test.py [EMULATOR...] PROGRAM."""

import functools
import signal
import sys
import unittest

from program_runs import COMMAND, Run


@functools.cache
def has_frames():
    return "frames: none" not in Run("build").out


def functions(stack):
    return [frame.get("function") for frame in stack]


class DeadlineTest(unittest.TestCase):
    def assert_went_on(self, run):
        self.assertEqual((run.status, run.out.endswith("went on\n")), (0, True), run.err)

    def assert_late(self, report, name, milliseconds):
        header, error = report["header"], report["error"]
        self.assertEqual(header["event"], "deadline")
        self.assertEqual((header["deadline_name"], header["deadline_milliseconds"]), (name, milliseconds))
        self.assertEqual((error["type"], error["hresult"]), ("DeadlineExceeded", "0x800705b4"))
        self.assertNotIn(error["thread_id"], [thread["thread_id"] for thread in report["threads"]])
        self.assertNotEqual(header["thread_id"], error["thread_id"])

    def needs_answers(self):
        if len(COMMAND) > 1:
            self.skipTest("other threads do not answer under an emulator")

    def assert_hangs(self, stack):
        if has_frames():
            self.assertIn("miss", functions(stack))

    def test_report(self):
        self.needs_answers()
        run = Run("one")
        self.assert_went_on(run)
        (report,) = run.reports
        self.assert_late(report, "loading", 20)
        self.assert_hangs(report["error"]["stack"])
        self.assertIn(
            "stacksplice: deadline missed; the process continues\n"
            "DeadlineExceeded: loading did not finish within 0.02 s\n"
            f"Stack of thread {report['error']['thread_id']} (most recent call first):\n",
            run.err,
        )
        self.assertIn("\nstacksplice: report file ", run.err)

    def test_report_on_signal(self):
        self.needs_answers()
        run = Run("signal")
        self.assert_went_on(run)
        first, second = sorted(run.reports, key=lambda report: "ask" in functions(report["error"]["stack"]))
        for report in (first, second):
            header, error = report["header"], report["error"]
            self.assertEqual(header["event"], "report_on_signal")
            self.assertEqual((error["type"], error["hresult"]), ("ReportRequested", "0x00000000"))
            self.assertEqual(error["thread_id"], header["pid"])  # it got the signal
            self.assertEqual(
                error["message"], f"signal {signal.SIGUSR1.value} asked for the stacks of all threads"
            )
            self.assertNotIn("signal", header)  # that of a crash
        if has_frames():
            self.assertNotIn("ask", functions(first["error"]["stack"]))
            self.assertIn("ask", functions(second["error"]["stack"]))
        self.assertEqual(run.err.count("stacksplice: a report was requested; the process continues\n"), 2)

    def test_a_storm_of_signals(self):
        self.needs_answers()
        run = Run("signals")
        self.assert_went_on(run)
        self.assertGreater(len(run.reports), 0)
        self.assertLessEqual(len(run.reports), 61)  # the bound of deadlines

    def test_a_child_says_that_it_has_no_watcher(self):
        self.needs_answers()
        run = Run("signal-child")
        if run.status == 77:
            self.skipTest("no thread can start in a child here")
        self.assert_went_on(run)
        self.assertEqual(run.err.count("stacksplice: no report: a fork has left the thread"), 1)
        (report,) = run.reports
        self.assertEqual(report["error"]["type"], "ReportRequested")

    def test_signals_that_are_refused(self):
        run = Run("signal-arguments")
        self.assert_went_on(run)
        self.assertEqual((run.err, run.reports), ("", []))

    def test_met(self):
        run = Run("met")
        self.assert_went_on(run)
        self.assertEqual((run.err, run.reports, run.out), ("", [], "went on\n"))

    def test_nested(self):
        for case in ("inner", "outer"):
            with self.subTest(case):
                run = Run(case)
                self.assert_went_on(run)
                (report,) = run.reports
                self.assert_late(report, case, 20)

    def test_two_threads_at_once(self):
        self.needs_answers()
        run = Run("threads")
        self.assert_went_on(run)
        self.assertEqual(len(run.reports), 2)
        late = [report["error"]["thread_id"] for report in run.reports]
        self.assertEqual(len(set(late)), 2)
        for report in run.reports:
            self.assert_late(report, "thread", 20)
            self.assert_hangs(report["error"]["stack"])
        others = [thread for thread in run.reports[0]["threads"] if thread["thread_id"] in late]
        self.assertEqual([thread["answered"] for thread in others], [True])
        self.assertEqual(run.err.count("deadline missed"), 2)

    def test_many_reports(self):
        self.needs_answers()
        run = Run("again")
        self.assert_went_on(run)
        self.assertEqual(run.err.count("again did not finish within 0.02 s"), 40)
        self.assertNotIn("has not answered", run.err)

    def test_more_than_are_reported(self):
        """After a minute there is room for one report, which counts the others."""
        self.needs_answers()
        run = Run("flood")
        self.assert_went_on(run)
        self.assertEqual(run.err.count("flood did not finish"), 60)
        self.assertEqual(
            run.err.count("more deadlines are missed than are reported: one in 60 s after the first 60\n"), 2
        )
        (report,) = run.reports
        self.assert_late(report, "later", 0)
        self.assertEqual(report["header"]["deadlines_left_out"], 10)
        self.assertIn(
            "continues\nstacksplice: missed since the last report, without one: 10\nDeadlineExceeded: later",
            run.err,
        )

    def test_many_deadlines(self):
        run = Run("many")
        self.assert_went_on(run)
        (report,) = run.reports
        self.assert_late(report, "early", 20)

    def test_child(self):
        self.needs_answers()
        run = Run("child")
        self.assert_went_on(run)
        (report,) = run.reports
        self.assert_late(report, "loading", 20)
        self.assertEqual(report["header"]["pid"], report["error"]["thread_id"])

    def test_thread_that_blocks_signals(self):
        run = Run("blocked")
        self.assert_went_on(run)
        (report,) = run.reports
        (gap,) = report["error"]["stack"]
        self.assertEqual(
            (gap["kind"], gap["reason"]),
            ("gap", "stack unknown: the thread has not answered in time"),
        )

    def test_what_is_written(self):
        run = Run("silent")
        self.assert_went_on(run)
        self.assertEqual((run.err, run.reports, run.out), ("", [], "went on\n"))
        run = Run("no-text")
        self.assert_went_on(run)
        self.assertEqual((run.err, len(run.reports)), ("", 1))
        self.assert_late(run.reports[0], None, 20)

    def test_long_name(self):
        run = Run("long-name")
        self.assert_went_on(run)
        self.assert_late(run.reports[0], "x" * 62, 20)

    def test_the_late_thread_is_interrupted(self):
        self.needs_answers()
        self.assert_went_on(Run("interrupts"))

    def test_crash_does_not_wait_for_the_watcher(self):
        self.needs_answers()
        run = Run("crash")
        self.assertEqual(run.status, -signal.SIGSEGV)
        (crash,) = [report for report in run.reports if report["header"]["event"] == "SIGSEGV"]
        self.assertNotIn(False, [thread["answered"] for thread in crash["threads"]])

    def test_arguments(self):
        run = Run("arguments")
        self.assert_went_on(run)
        self.assertEqual(run.reports, [])


if __name__ == "__main__":
    COMMAND[:] = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
