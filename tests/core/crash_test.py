"""How a process ends, seen from outside: crash_test.py [EMULATOR...] PROGRAM."""

import json
import os
import re
import resource
import signal
import sys
import time
import unittest

from program_runs import COMMAND, Run

NAME = r"^stacksplice-\d+-\d{8}T\d{6}Z-([0-9a-f]{16})\.json$"
FAIL_FAST = "RoFailFastWithErrorContext"
# The ways whose report has everything of the full error, and the event that it tells.
FULL = {
    "full": FAIL_FAST,
    "thread": FAIL_FAST,
    "two": FAIL_FAST,  # threads, which give one report
    "allocator": FAIL_FAST,
    "space": FAIL_FAST,
    "unhandled": "RoReportUnhandledError",
    "delegate": "RoReportFailedDelegate",
}
# Those whose error is made for this code.
MADE = {"none": "8000000b", "other": "80004001", "success": "00000000", "space-none": "8007000e"}
# Those whose report follows no object, behind the words that come before all objects; whether the handler
# of the end is the one that prints what is left for debuggers.
SHORT = {"damaged-error": True, "damaged-heap": True, "damaged-fault": True, "damaged-abort": False}
NO_FRAMES = "native frames not supported on this platform"


def machine_of(program):
    """The name of the machine that an ELF program is for, which is not this one under emulation."""
    with open(program, "rb") as file:
        number = int.from_bytes(file.read(20)[18:], sys.byteorder)
    return {62: "x86_64", 183: "aarch64"}.get(number, os.uname().machine)


def ended(how, **options):
    if len(COMMAND) > 1 and "space" in how:
        raise unittest.SkipTest("the emulator does not hold the program to resource limits")
    return Run(how, **options)


def failed(run):
    """What the block for debuggers has: HRESULT, number of frames, whether the thread is that of the end."""
    return [line.split()[1:] for line in re.findall(r"^failed .*$", run.out, re.M)]


class CrashTest(unittest.TestCase):
    def assert_ended(self, run):
        self.assertEqual((run.status, len(run.left)), (-signal.SIGABRT, 1), run.err)
        self.assertIn(f"stacksplice: report file {run.left[0]}\n", run.err)
        self.assertEqual(run.report["schema"], "stacksplice-report/1")

    def assert_full(self, run):
        """Everything that the program's full error has is in all three places."""
        self.assert_ended(run)
        self.assertIn('ValueError: bad "amount"\n| \\x00\\x01\ufffd\n', run.err)
        self.assertIn('    (Python) File "x.py", line 17, in f\n', run.err)
        self.assertRegex(run.err, r"    \(C\) \?\?\? \([^/()]+\+0x[0-9a-f]+\)\n")
        self.assertRegex(run.err, r"(?s)  1\. Lua received it.*  2\. Python received it")
        self.assertIn("\nCaused by:\ntable: first\n", run.err)
        self.assertEqual(run.err.count("fatal error"), 1)
        error = run.report["error"]
        self.assertEqual((error["hresult"], error["message"]), ("0x80070057", 'bad "amount"\n\0\x01\ufffd'))
        self.assertEqual([f["kind"] for f in error["stack"]], ["script", "native"])
        self.assertEqual([n["language"] for n in error["propagation"]], ["lua", "python"])
        self.assertEqual([t["message"] for t in error["transformed"]], ["first"])
        self.assertEqual([f[:2] for f in failed(run)], [["80070057", "2"]])

    def assert_first_words(self, run):
        words = rf"^stacksplice: fatal error: {FAIL_FAST} 0x80070057\nstacksplice: native frames: (.*)\n"
        self.assertRegex(run.err, words)
        frames = re.match(words, run.err)[1]
        if Run("none").report["error"]["stack"][0].get("reason") == NO_FRAMES:
            self.skipTest(NO_FRAMES)
        self.assertRegex(frames, r"^0x[0-9a-f]+( 0x[0-9a-f]+)*$")
        return frames.split()

    def assert_made(self, run, code, is_printed=True):
        self.assert_ended(run)
        error = run.report["error"]
        printed = [[code, str(len(error["stack"])), "1"]] if is_printed else []
        self.assertEqual(failed(run), printed)
        self.assertEqual(error["hresult"], "0x" + code)
        self.assertEqual((error["propagation"], error["transformed"]), ([], []))
        self.assertNotIn("amount", json.dumps(error["stack"]))
        self.assertIn("0x" + code, run.err)
        return error

    def test_full_error(self):
        for how, event in FULL.items():
            with self.subTest(how):
                run = ended(how)
                self.assert_full(run)
                self.assertEqual(run.report["header"]["event"], event)
                self.assertEqual(run.modes, {0o600})
                self.assertNotIn("returned", run.out)
                if how == "full":
                    self.assert_first_words(run)

    def test_no_secrets_and_no_hook(self):
        run = Run("secrets")
        self.assert_ended(run)
        for text in (run.err, json.dumps(run.report)):
            for name in ("password", "token", "secret"):
                self.assertIn(f"[redacted: {name}]", text)
            self.assertNotIn("hunter2", text)
            self.assertNotIn("[hook]", text)

    def test_header_and_modules(self):
        program = COMMAND[-1]
        run = Run(
            "full", environment_of=lambda folder: {"STACKSPLICE_REPORT_DIR": folder, "SECRET": "hidden-value"}
        )
        header = run.report["header"]
        self.assertRegex(header["time"], r"^20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ$")
        self.assertEqual(header["process"], os.path.realpath(program))
        self.assertEqual((header["cwd"], header["arch"]), (run.directory, machine_of(program)))
        self.assertNotIn("hidden-value", json.dumps(run.report))
        modules = {os.path.basename(m["path"]): m for m in run.report["modules"]}
        native, module = run.report["error"]["stack"][1], modules[os.path.basename(program)]
        self.assertEqual(module["build_id"], native["build_id"])
        self.assertEqual(int(native["address"], 16) - int(module["start"], 16), native["module_offset"])
        self.assertLess(int(native["address"], 16), int(module["end"], 16))
        self.assertTrue(any(name.startswith("libstacksplice.so") for name in modules))

    def test_captured_context_is_one_more_node(self):
        run = Run("context")
        self.assert_ended(run)
        self.assertEqual(len(run.report["error"]["propagation"]), 3)

    def test_error_that_is_made(self):
        for how, code in MADE.items():
            with self.subTest(how):
                error = self.assert_made(ended(how), code)
                self.assertNotIn("amount", error["message"])
                if how != "none":
                    continue
                self.assertIn("outside the valid range", error["message"])
                if error["stack"][0].get("reason") == NO_FRAMES:
                    self.skipTest(NO_FRAMES)
                modules = {os.path.basename(f.get("module", "")) for f in error["stack"]}
                self.assertIn(os.path.basename(COMMAND[-1]), modules)
                self.assertNotIn("libstacksplice.so.0", modules)

    def test_damage(self):
        for how, is_printed in SHORT.items():
            with self.subTest(how):
                run = Run(how)
                frames = self.assert_first_words(run)
                note = "\nstacksplice: a fault interrupted the report; continuing without the error:\n"
                self.assertIn(note, run.err)
                error = self.assert_made(run, "80070057", is_printed)
                self.assertEqual([f["address"] for f in error["stack"]], frames)
                self.assertEqual(run.err.count("fatal error"), 1)

    def test_damaged_error_without_a_handler(self):
        run = Run("damaged-alone")
        self.assertEqual((run.status, run.left), (-signal.SIGSEGV, []))
        self.assert_first_words(run)

    def test_failing_again_in_the_handler_of_the_end(self):
        run = Run("abort-again")
        self.assertEqual((run.status, len(run.left)), (-signal.SIGABRT, 1), run.err)
        self.assertEqual(run.err.count("stacksplice: report file"), 1)

    def test_overflow_with_a_small_alternate_stack(self):
        run = Run("overflow-small")
        self.assertEqual((run.status, len(run.left)), (-signal.SIGABRT, 1), run.err)
        self.assertEqual(run.report["error"]["message"][:10], 'bad "amoun')
        self.assert_first_words(run)

    def test_formatting_without_memory(self):
        for how in ("format-space", "format-space-warm"):
            run = ended(how)
            self.assertEqual(run.status, 0, run.err)
            self.assertIn('    (Python) File "x.py", line 17, in f\n', run.out)
            self.assertRegex(run.out, r"    \(C\) .*crash_program")

    def test_handler(self):
        said = "handler yes\nreturned 0\nhandler yes\nreturned 0\nrefused 1\n"
        for how, begin in (("yes", said), ("no", "handler no\n")):
            run = Run(f"handler-{how}")
            self.assertTrue(run.out.startswith(begin), run.out)
            self.assertEqual("returned" in run.out, how == "yes")
            self.assert_full(run)

    def test_offered_to_the_handler_the_process_goes_on(self):
        for how, said in (("yes", 0), ("no", 1)):
            run = Run(f"offer-{how}")
            lines = ["asked 1", "offered 1", "asked 0", f"handler {how}", f"offered {said}"]
            self.assertEqual((run.status, run.out.splitlines(), run.left), (0, lines, []))

    def test_child_of_the_reporting_thread(self):
        run = Run("child")
        self.assertIn("child aborted\n", run.out)
        self.assertEqual([f[0] for f in failed(run)], ["8000000b"])
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertEqual([r["error"]["hresult"] for r in run.reports].count("0x8000000b"), 1)

    def test_no_file(self):
        for folder, why in (
            ("/none", "no report file in /none: there is no such folder; errno 2\n"),
            ("", "no report file: STACKSPLICE_REPORT_DIR is empty\n"),
        ):
            environment = {"STACKSPLICE_REPORT_DIR": folder, "TMPDIR": "/none"}
            run = Run("full", environment_of=lambda _, environment=environment: environment)
            self.assertEqual((run.status, run.left), (-signal.SIGABRT, []))
            self.assertIn(f"stacksplice: {why}", run.err)
            self.assertEqual(failed(run)[0][0], "80070057")

    def test_limit_on_files(self):
        if len(COMMAND) > 1:
            self.skipTest("the emulator does not hold the program to resource limits")
        run = Run("full", before=lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual(run.status, -signal.SIGABRT)
        self.assertIn("stacksplice: incomplete report file ", run.err)

    def test_default_directory(self):
        run = Run("full", environment_of=lambda directory: {"TMPDIR": directory})
        (path,) = run.left
        self.assertRegex(os.path.basename(path), NAME)

    def test_nobody_can_make_the_names_first(self):
        """Neither those of one second, one process and a count, nor those of an earlier run."""

        def make_names(directory):
            for second in range(10):
                stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + second))
                for name in (stamp, *(f"{stamp}-{count}" for count in range(1, 100))):
                    open(f"{directory}/stacksplice-{os.getpid()}-{name}.json", "x").close()

        run = Run("full", before=make_names)
        self.assertEqual((run.status, len(run.reports)), (-signal.SIGABRT, 1))
        suffixes = {re.match(NAME, os.path.basename(Run("full").left[0]))[1] for _ in range(3)}
        self.assertEqual(len(suffixes), 3)


if __name__ == "__main__":
    COMMAND[:] = sys.argv[1:]
    del sys.argv[1:]
    unittest.main()
