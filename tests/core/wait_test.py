"""Waits of a program whose threads are asked for their stacks: wait_test.py [EMULATOR...] PROGRAM."""

import contextlib
import errno
import os
import signal
import sys
import unittest
from pathlib import Path

from program_runs import COMMAND, Run

# What the manual names: calls that go on, and those that end with EINTR.
GO_ON = {
    "poll": 1,
    "ppoll": 1,
    "select": 1,
    "select-limit": 1,
    "pselect": 1,
    "epoll": 1,
    "read": 1,
    "sleep": 0,
    "nanosleep": 0,
    "clock": 0,
    "clock-until": 0,
    "pause": 0,
    "sigsuspend": 0,
    "sem": 0,
    "sem-limit": 0,
    "cond": 0,
}
LASTING = {"msgrcv": 1, "semop": 0}  # not in a process that dies: they would stay
END = ("poll-limit", "epoll-limit", "receive", "usleep")
if b"/ld-musl-" in Path(sys.argv[-1]).read_bytes():  # its sem_timedwait ends with EINTR, its usleep goes on
    END = (*END[:-1], "sem-limit")
    GO_ON = {name: result for name, result in GO_ON.items() if name != "sem-limit"} | {"usleep": 0}


@unittest.skipIf(len(sys.argv) > 2, "the emulator has threads of its own, and does not pass on all signals")
class WaitTest(unittest.TestCase):
    def assert_all_answered(self, run):
        (report,) = run.reports
        self.assertEqual([thread["answered"] for thread in report["threads"]], [True], run.err)

    def test_a_crash_ends_the_process_however_the_others_wait(self):
        for name in (*GO_ON, *END):
            with self.subTest(name):
                run = Run("crash", name)
                self.assertEqual((run.status, run.out), (-signal.SIGSEGV, ""), run.err)
                self.assert_all_answered(run)

    def test_threads_without_room_for_their_stacks_are_held_too(self):
        run = Run("many")
        self.assertEqual(run.status, -signal.SIGSEGV, run.err)
        (report,) = run.reports
        self.assertEqual((len(report["threads"]), report["threads_left_out"]), (256, 44))

    def test_waits_go_on_after_a_missed_deadline(self):
        for name, result in {**GO_ON, **LASTING}.items():
            with self.subTest(name):
                run = Run("deadline", name)
                self.assertEqual(run.out, f"{name} {result} -\nwent on\n", run.err)
                self.assert_all_answered(run)

    def test_waits_that_a_missed_deadline_ends(self):
        for name in (*END, "semtimedop"):
            with self.subTest(name):
                run = Run("deadline", name)
                self.assertEqual(run.out, f"{name} -1 {os.strerror(errno.EINTR)}\nwent on\n", run.err)

    def test_waits_go_on_after_a_crash_that_the_host_recovers_from(self):
        for name in ("select", "pause"):
            with self.subTest(name):
                run = Run("recover", name)
                self.assertEqual((run.status, run.out), (0, f"{name} {GO_ON[name]} -\nwent on\n"), run.err)
                self.assert_all_answered(run)

    def test_a_handler_of_the_host_that_needs_what_a_held_thread_has(self):
        self.assertEqual(Run("lock").status, signal.SIGSEGV)

    def test_exit_while_another_thread_reports_its_crash(self):
        run = Run("exit")
        self.assertEqual((run.status, run.out), (-signal.SIGSEGV, "went on\n"), run.err)
        self.assertEqual(len(run.reports), 1)

    def test_exit_while_another_thread_reports_its_failure(self):
        reader, writer = os.pipe()
        try:
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while os.write(writer, bytes(1 << 12)):
                    pass
            os.set_blocking(writer, True)
            run = Run("exit-failure", stderr=writer)
        finally:
            os.close(reader)
            os.close(writer)
        self.assertEqual((run.status, run.out), (-signal.SIGABRT, "went on\n"))
        self.assertEqual(len(run.reports), 1)


if __name__ == "__main__":
    COMMAND[:] = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
