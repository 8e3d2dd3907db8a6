"""How a process ends, seen from outside: crash_test.py [EMULATOR...] PROGRAM."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND = []  # an emulator, if one is needed, and the program
PROGRAM = ""
NAME = r"^stacksplice-\d+-\d{8}T\d{6}Z-([0-9a-f]{16})\.json$"
FULL_CODES = ["80070057", "80070057", "80070057", "80004005"]


def strict(text):
    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def machine_of(program):
    """The name of the machine that an ELF program is for, which is not this one under emulation."""
    with open(program, "rb") as file:
        number = int.from_bytes(file.read(20)[18:], sys.byteorder)
    return {62: "x86_64", 183: "aarch64"}.get(number, os.uname().machine)


class Ended:
    """One run of the program: its status, what it wrote, its report files."""

    def __init__(
        self,
        how,
        environment_of=lambda directory: {"STACKSPLICE_REPORT_DIR": directory},
        before=lambda directory: None,
        stderr=subprocess.PIPE,
        **environment,
    ):
        with tempfile.TemporaryDirectory() as directory:
            kept = {name: value for name, value in os.environ.items() if name != "STACKSPLICE_REPORT_DIR"}
            run = subprocess.run(
                [*COMMAND, how],
                stdout=subprocess.PIPE,
                stderr=stderr,
                timeout=120,
                check=False,
                env={**kept, **environment_of(directory), **environment},
                preexec_fn=lambda: before(directory),
            )
            self.status = run.returncode
            self.out = run.stdout.decode("utf-8")
            self.err = (run.stderr or b"").decode("utf-8")
            self.names = sorted(os.listdir(directory))
            self.raw = []
            for name in self.names:
                with open(os.path.join(directory, name), "rb") as file:
                    self.raw.append(file.read().decode("utf-8"))
                self.mode = os.stat(os.path.join(directory, name)).st_mode & 0o777
            self.directory = directory
        self.stowed = [line.split() for line in self.out.splitlines() if re.match(r"\d+ [0-9a-f]{8} ", line)]

    @property
    def report(self):
        return strict(self.raw[0])


def native_frames_are_known():
    (frame, *_) = Ended("none").report["error"]["stack"]
    return frame.get("reason") != "native frames not supported on this platform"


class CrashTest(unittest.TestCase):
    def assert_ended(self, run):
        self.assertEqual(run.status, -signal.SIGABRT, run.err)
        self.assertEqual(len(run.names), 1, run.err)
        self.assertIn(f"stacksplice: report file {run.directory}/{run.names[0]}\n", run.err)
        self.assertEqual(run.report["schema"], "stacksplice-report/1")

    def assert_full(self, run):
        """Everything that the program's full error has is in all three places."""
        self.assert_ended(run)
        self.assertIn('ValueError: bad "amount"\n| \\x00\\x01\ufffd\n', run.err)
        self.assertIn('    (Python) File "x.py", line 17, in f\n', run.err)
        self.assertRegex(run.err, r"    \(C\) \?\?\? \([^/()]+\+0x[0-9a-f]+\)\n")
        self.assertIn("  1. received by lua", run.err)
        self.assertIn("  2. received by python", run.err)
        self.assertIn("\nCaused by:\ntable: first\n", run.err)
        error = run.report["error"]
        self.assertEqual(error["hresult"], "0x80070057")
        self.assertEqual(error["message"], 'bad "amount"\n\0\x01\ufffd')
        self.assertEqual([f["kind"] for f in error["stack"]], ["script", "native"])
        self.assertEqual([n["language"] for n in error["propagation"]], ["lua", "python"])
        self.assertEqual([t["message"] for t in error["transformed"]], ["first"])
        self.assertEqual([s[3] for s in run.stowed], FULL_CODES)
        for size, signature, form, _, word_size, _, first, address, _ in run.stowed:
            self.assertEqual((size, signature, form, word_size), ("56", "53453032", "1", "8"))
            self.assertEqual(first, address)
        self.assertEqual([s[5] for s in run.stowed], ["2", "1", "1", "1"])
        self.assertEqual(run.stowed[0][8], "LEO1")

    def assert_first_words(self, run, event):
        words = rf"stacksplice: fatal error: {event} 0x80070057\nstacksplice: native frames: (.*)\n"
        self.assertRegex(run.err, "^" + words)
        frames = re.match(words, run.err)[1]
        if not native_frames_are_known():
            self.skipTest("native frames not supported on this platform")
        self.assertRegex(frames, r"^0x[0-9a-f]+( 0x[0-9a-f]+)*$")
        return frames.split()

    def test_full_error(self):
        run = Ended("full")
        self.assert_full(run)
        self.assert_first_words(run, "RoFailFastWithErrorContext")
        self.assertEqual(run.mode, 0o600)

    def test_header_and_modules(self):
        report = Ended("full", SECRET="hidden-value").report
        header = report["header"]
        self.assertEqual(header["event"], "RoFailFastWithErrorContext")
        self.assertRegex(header["time"], r"^20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ$")
        self.assertEqual(header["process"], os.path.realpath(PROGRAM))
        self.assertEqual(header["cwd"], os.getcwd())
        self.assertEqual(header["arch"], machine_of(PROGRAM))
        self.assertNotIn("hidden-value", json.dumps(report))
        modules = {os.path.basename(m["path"]): m for m in report["modules"]}
        native = report["error"]["stack"][1]
        module = modules[os.path.basename(PROGRAM)]
        self.assertEqual(module["build_id"], native["build_id"])
        self.assertEqual(int(native["address"], 16) - int(module["start"], 16), native["module_offset"])
        self.assertLess(int(native["address"], 16), int(module["end"], 16))
        self.assertTrue(any(name.startswith("libstacksplice.so") for name in modules))

    def test_from_a_thread(self):
        self.assert_full(Ended("thread"))

    def test_two_threads_give_one_report(self):
        run = Ended("two")
        self.assert_full(run)
        self.assertEqual(run.err.count("fatal error"), 1)

    def test_captured_context_is_one_more_node(self):
        run = Ended("context")
        self.assert_ended(run)
        self.assertEqual(len(run.report["error"]["propagation"]), 3)
        self.assertEqual(len(run.stowed), 5)

    def assert_made(self, run, code, stowed=True):
        self.assert_ended(run)
        self.assertEqual([s[3] for s in run.stowed], [code] if stowed else [])
        error = run.report["error"]
        self.assertEqual(error["hresult"], "0x" + code)
        self.assertEqual((error["propagation"], error["transformed"]), ([], []))
        self.assertIn("0x" + code, run.err)
        return error

    def test_without_an_error(self):
        error = self.assert_made(Ended("none"), "8000000b")
        self.assertIn("outside the valid range", error["message"])
        if error["stack"][0].get("reason") == "native frames not supported on this platform":
            self.skipTest(error["stack"][0]["reason"])
        modules = {os.path.basename(f.get("module", "")) for f in error["stack"]}
        self.assertIn(os.path.basename(PROGRAM), modules)
        self.assertNotIn("libstacksplice.so.0", modules)

    def test_with_another_hresult(self):
        error = self.assert_made(Ended("other"), "80004001")
        self.assertNotIn("amount", json.dumps(error))

    def test_with_a_success_code(self):
        self.assert_made(Ended("success"), "00000000")

    def test_with_a_failing_allocator(self):
        self.assert_full(Ended("allocator"))

    def needs_limits(self):
        if COMMAND[0] != PROGRAM:
            self.skipTest("the emulator does not hold the program to resource limits")

    def ended(self, how, **options):
        run = Ended(how, **options)
        if run.status == 77:
            self.skipTest("built with a sanitizer")
        return run

    def ended_without_memory(self, how):
        self.needs_limits()
        return self.ended(how)

    def assert_short(self, run, stowed=True):
        """The report that follows no object, behind the words that come before all objects."""
        frames = self.assert_first_words(run, "RoFailFastWithErrorContext")
        note = "\nstacksplice: a fault interrupted the report; continuing without the error:\n"
        self.assertIn(note, run.err)
        error = self.assert_made(run, "80070057", stowed)
        self.assertEqual([f["address"] for f in error["stack"]], frames)
        self.assertEqual(run.err.count("fatal error"), 1)

    def test_damaged_error(self):
        self.assert_short(self.ended("damaged-error"))

    def test_damaged_heap(self):
        self.assert_short(self.ended("damaged-heap"))

    def test_damaged_error_in_a_handler_of_the_same_signal(self):
        self.assert_short(self.ended("damaged-fault"))

    def test_damaged_error_and_a_handler_of_the_end(self):
        self.assert_short(self.ended("damaged-abort"), stowed=False)  # that handler prints none

    def test_damaged_error_without_a_handler(self):
        run = self.ended("damaged-alone")
        self.assertEqual((run.status, run.names), (-signal.SIGSEGV, []))
        self.assert_first_words(run, "RoFailFastWithErrorContext")

    def test_failing_again_in_the_handler_of_the_end(self):
        run = self.ended("abort-again")
        self.assertEqual((run.status, len(run.names)), (-signal.SIGABRT, 1), run.err)
        self.assertEqual(run.err.count("stacksplice: report file"), 1)

    def test_overflow_with_a_small_alternate_stack(self):
        run = self.ended("overflow-small")
        self.assertEqual((run.status, len(run.names)), (-signal.SIGABRT, 1), run.err)
        self.assert_first_words(run, "RoFailFastWithErrorContext")
        self.assertEqual(run.report["error"]["message"][:10], 'bad "amoun')

    def test_without_memory(self):
        self.assert_full(self.ended_without_memory("space"))
        self.assert_made(self.ended_without_memory("space-none"), "8007000e")

    def test_formatting_without_memory(self):
        for how in ("format-space", "format-space-warm"):
            run = self.ended_without_memory(how)
            self.assertEqual(run.status, 0, run.err)
            self.assertIn('    (Python) File "x.py", line 17, in f\n', run.out)
            self.assertRegex(run.out, r"    \(C\) .*crash_program")

    def test_unhandled(self):
        for how, event in (("unhandled", "RoReportUnhandledError"), ("delegate", "RoReportFailedDelegate")):
            run = Ended(how)
            self.assert_full(run)
            self.assertEqual(run.report["header"]["event"], event)
            self.assertNotIn("returned", run.out)

    def test_handler(self):
        run = Ended("handler-yes")
        self.assertTrue(
            run.out.startswith("handler yes\nreturned 0\nhandler yes\nreturned 0\nrefused 1\n"), run.out
        )
        self.assert_full(run)
        run = Ended("handler-no")
        self.assertTrue(run.out.startswith("handler no\n"), run.out)
        self.assertNotIn("returned", run.out)
        self.assert_full(run)

    def test_offered_to_the_handler_the_process_goes_on(self):
        for how, said in (("yes", 0), ("no", 1)):
            run = Ended(f"offer-{how}")
            lines = ["asked 1", "offered 1", "asked 0", f"handler {how}", f"offered {said}"]
            self.assertEqual((run.status, run.out.splitlines(), run.names), (0, lines, []))

    def test_child_of_the_reporting_thread(self):
        run = Ended("child")
        self.assertIn(f"child {int(signal.SIGABRT)}\n", run.out)
        self.assertEqual([s[3] for s in run.stowed], ["8000000b"])
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertEqual([strict(text)["error"]["hresult"] for text in run.raw].count("0x8000000b"), 1)

    def test_directory_that_is_not_there(self):
        run = Ended("full", lambda directory: {"STACKSPLICE_REPORT_DIR": directory + "/none"})
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertEqual(run.names, [])
        self.assertIn(
            f"stacksplice: no report file in {run.directory}/none: there is no such folder; errno 2\n",
            run.err,
        )
        self.assertEqual([s[3] for s in run.stowed], FULL_CODES)

    def test_empty_directory_is_no_file(self):
        run = Ended("full", lambda _: {"STACKSPLICE_REPORT_DIR": "", "TMPDIR": "/none"})
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertIn("no report file: STACKSPLICE_REPORT_DIR is empty\n", run.err)

    def test_stderr_that_nobody_reads(self):
        reader, writer = os.pipe()
        os.close(reader)
        run = Ended("full", stderr=writer)
        os.close(writer)
        self.assertEqual((run.status, run.report["schema"]), (-signal.SIGABRT, "stacksplice-report/1"))

    def test_limit_on_files(self):
        self.needs_limits()
        run = Ended("full", before=lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertIn("stacksplice: incomplete report file ", run.err)

    def test_default_directory(self):
        run = Ended("full", lambda directory: {"TMPDIR": directory})
        self.assertEqual(run.status, -signal.SIGABRT)
        (name,) = run.names
        self.assertRegex(name, NAME)

    def test_nobody_can_make_the_names_first(self):
        """Neither those of one second, one process and a count, nor those of an earlier run."""

        def make_names(directory):
            for second in range(10):
                stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + second))
                for name in (stamp, *(f"{stamp}-{count}" for count in range(1, 100))):
                    open(f"{directory}/stacksplice-{os.getpid()}-{name}.json", "x").close()

        run = Ended("full", before=make_names)
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertIn("stacksplice: report file ", run.err)
        suffixes = {re.match(NAME, Ended("full").names[0])[1] for _ in range(3)}
        self.assertEqual(len(suffixes), 3)


if __name__ == "__main__":
    COMMAND = sys.argv[1:]
    PROGRAM = COMMAND[-1]
    del sys.argv[1:]
    unittest.main()
