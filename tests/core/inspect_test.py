"""Errors of C programs, read from outside: inspect_test.py INSPECT PROGRAM...

The last program is linked statically and stripped: nothing in it has a name.
"""

import glob
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

INSPECT, PROGRAMS = "", []
MESSAGES = {"password=hunter2", "second", "first ä \U0001f511"}


def read(*arguments):
    """What INSPECT says; None where it may not look."""
    run = subprocess.run([INSPECT, *arguments], capture_output=True, check=False, timeout=120)
    if run.returncode and b"not permitted to trace" in run.stderr:
        raise unittest.SkipTest("this system lets no process trace another one")
    if run.returncode:
        raise AssertionError(f"status {run.returncode}: {run.stderr.decode()}")
    return json.loads(run.stdout)


def errors_of(document):
    return {thread["thread_id"]: thread["error"] for thread in document["threads"] if "error" in thread}


def stacks_of(lines):
    """The stacks that a program printed, by their threads."""
    rows = [line.split() for line in lines]
    return {int(row[0]): row[1:] for row in rows}


class Inspect(unittest.TestCase):
    def check(self, errors, own):
        self.assertEqual(set(errors), set(own))
        (toy,) = [error for error in errors.values() if error["type"]]
        (plain,) = [error for error in errors.values() if not error["type"]]
        for thread, error in errors.items():
            self.assertEqual([frame["address"] for frame in error["stack"]], own[thread])
            self.assertEqual(error["thread_id"], thread)
        self.check_toy(toy)
        self.check_transformed(plain)

    def check_toy(self, error):
        named = ("hresult", "type", "language", "message", "notes", "frames_left_out")
        self.assertEqual(
            [error[name] for name in named],
            ["0x8000000b", "KeyError", "toy", "password=hunter2", ["first note", "second"], 5],
        )
        script, gap = error["stack"][-2:]
        self.assertEqual((script["kind"], script["trust"]), ("script", "exact"))
        self.assertEqual((script["file"], script["line"], script["column"]), ("/toys/script.toy", 12, 3))
        self.assertEqual((script["language"], script["interpreter"]), ("toy", "toy 2"))
        self.assertRegex(script["function"], "^a long name .* a hundred bytes$")
        self.assertEqual(gap["reason"], "5 frames omitted here: stack longer than the limit")
        self.assertEqual([node["language"] for node in error["propagation"]], ["native"])

    def check_transformed(self, error):
        self.assertEqual((error["hresult"], error["message"]), ("0x80004004", "second"))
        self.assertEqual((error["language"], error["notes"]), ("native", ["added"]))
        (cause,) = error["transformed"]
        self.assertEqual((cause["hresult"], cause["message"]), ("0x80004005", "first ä \U0001f511"))
        self.assertRegex(error["reference"], "^[0-9a-f]{16}-[0-9a-f]{16}$")
        self.assertNotEqual(error["reference"], cause["reference"])

    def test_living(self):
        for program in PROGRAMS:
            with subprocess.Popen(
                [program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as child:
                own = stacks_of([child.stdout.readline(), child.stdout.readline()])
                document = read("--pid", str(child.pid))
                self.check(errors_of(document), own)
                notes = [note for note in document["notes"] if "libdw" not in note]
                self.assertEqual(notes, [])  # no Lua is in what is mapped
                (known,) = document["interpreters"]
                self.assertEqual((known["language"], known["version"]), ("toy", "1.2"))
                child.stdin.close()

    def ended(self, program, how, change=lambda core: None):
        """What the program printed, and its core file, after CHANGE, as INSPECT reads it."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
            if re.search("^[|]|/", file.read()):
                self.skipTest("this system does not put core files where the process is")
        limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [program, how],
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
                env={**os.environ, "STACKSPLICE_REPORT_DIR": folder},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limit),
            )
            self.assertLess(run.returncode, 0, run.stderr)
            (core,) = glob.glob(f"{folder}/core*") or [None]
            if not core:  # an address sanitizer leaves none
                self.skipTest("this process left no core file")
            change(core)
            return stacks_of(run.stdout.splitlines()), read("--core", core)

    def test_core_files(self):
        for program in PROGRAMS:
            own, document = self.ended(program, "abort")
            self.check(errors_of(document), own)
            self.assertNotIn("failed", document)

    def test_fail_fast(self):
        for program in PROGRAMS:
            _, document = self.ended(program, "failfast")
            self.check_transformed(document["failed"])

    def test_fail_fast_without_an_error(self):
        for program in PROGRAMS:
            _, document = self.ended(program, "alone")
            error = document["failed"]
            self.assertEqual((error["hresult"], error["language"]), ("0x8007000e", "native"))
            self.assertIsNone(error["reference"])
            self.assertTrue(error["stack"])
            self.assertFalse(errors_of(document))

    def errors_within(self, error):
        yield error
        for inner in [*(error["exceptions"] or ()), *error.get("transformed", ())]:
            yield from self.errors_within(inner)

    def test_at_every_instant(self):
        """A process that changes everything all the time is consistent whenever it is stopped."""
        found = 0
        with subprocess.Popen(
            [PROGRAMS[0], "busy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            self.assertEqual(child.stdout.readline(), "busy\n")
            for _ in range(60):
                document = read("--pid", str(child.pid))
                for whole in errors_of(document).values():
                    for error in self.errors_within(whole):
                        found += 1
                        self.assertIn(error["message"], MESSAGES)
                        self.assertTrue(error["stack"])
                        self.assertNotRegex(json.dumps(error), "cannot be read|does not belong")
            child.stdin.close()
        self.assertGreater(found, 60)

    def test_a_wrong_command_line_is_named(self):
        wrong = {
            "--cores x": r"unrecognized option:? (--|'--)?cores",  # as the C library says it
            "--core": r"option ('--core' )?requires an argument",
            "--pid 0": "--pid needs the number of a process",
            "--pid 1x": "--pid needs the number of a process",
            "--core x --thread 1": "--thread, --scripts and --errors go with --served",
            "--served --token x": "--token need numbers",
            "--pid 1 --core x": "say --pid PROCESS or --core FILE",
            "--locals": "say --pid PROCESS or --core FILE",
            "--pid 1 --root /": "--exe and --root go with --core",
            "1": "only options are understood",
        }
        for words, message in wrong.items():
            with self.subTest(words):
                run = subprocess.run([INSPECT, *words.split()], capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (2, "", 1))
                self.assertRegex(run.stderr, message)

    def test_what_cannot_be_read_is_said(self):
        def change(core):
            with open(core, "r+b") as file:
                data = file.read()
                for found in re.finditer(rb"SSER\x01\0\0\0", data):
                    file.seek(found.start())
                    file.write(b"gone")

        _, document = self.ended(PROGRAMS[0], "abort", change)
        self.assertFalse(errors_of(document))
        self.assertEqual(len([note for note in document["notes"] if "not all current errors" in note]), 1)

    def test_a_later_version_is_named(self):
        def change(core):
            with open(core, "r+b") as file:
                found = re.search(rb"stacksplice:data.{8}\x02\0\0\0", file.read(), re.DOTALL)
                file.seek(found.start() + 24)
                file.write(b"\x07")

        _, document = self.ended(PROGRAMS[-1], "abort", change)
        self.assertFalse(errors_of(document))
        self.assertRegex(" ".join(document["notes"]), "version 7 of the block for readers, this one reads 2")


if __name__ == "__main__":
    INSPECT, *PROGRAMS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
