"""The first use of each thing in each trouble: in a fresh process, in which nothing has run before."""

import os
import re
import signal
import subprocess
import unittest

PROGRAM = os.environ["STACKSPLICE_FIRST_PROGRAM"]

SCRIPTS = {
    "lua": ["lua inner", "lua outer", "lua main chunk"],
    "python": ["python inner", "python outer", "python <module>"],
}
SCRIPTS["both"] = SCRIPTS["lua"] + SCRIPTS["python"]

# What is there for the first time, and what it shows; None: the script frames.
WHAT = {"capture": None, "error": None, "token": ["test coined"], "name": ["C act_in_lua"], "report": None}
WHEN = ["handler", "crash", "deadline", "other", "child", "memory"]
# Memory that is needed for the first time cannot be had; a crash handler has it before.
WITHOUT_MEMORY = {
    "capture": ["failed capture"],
    "error": ["failed stack"],
    "token": ["gap frames missing here: out of memory"],
    "name": ["failed name"],
}
# The report of a crash, or of a missed deadline: who has trouble does not write it.
CRASHES = {("report", "crash"), ("report", "other"), ("report", "memory")}

FRAME = re.compile(r'^    \((Lua|Python)\) File "[^"]*", line \d+, in (.*)$|^    \[gap: (.*)\]$', re.M)


def in_text(text):
    """The script frames and gaps of a report, as the program prints those of a stack."""
    return [f"gap {m[3]}" if m[3] else f"{m[1].lower()} {m[2]}" for m in FRAME.finditer(text)]


def first(languages, what, when):
    """How the program ended, and what it has."""
    done = subprocess.run(
        [PROGRAM, languages, what, when],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "STACKSPLICE_REPORT_DIR": ""},
        check=False,
    )
    if (what, when) in CRASHES | {("report", "deadline")}:
        return done, in_text(done.stderr)
    return done, in_text(done.stdout) if what == "report" else done.stdout.splitlines()


class FirstTest(unittest.TestCase):
    def check(self, languages):
        for when in WHEN:
            for what, shown in WHAT.items():
                with self.subTest(languages=languages, what=what, when=when):
                    done, seen = first(languages, what, when)
                    status = -signal.SIGSEGV if (what, when) in CRASHES else 0
                    self.assertEqual(done.returncode, status, done.stderr)
                    wanted = shown or SCRIPTS[languages]
                    if when == "memory":
                        wanted = WITHOUT_MEMORY.get(what, wanted)
                    self.assertEqual(seen, wanted, done.stdout + done.stderr)

    def test_lua(self):
        self.check("lua")

    def test_python(self):
        self.check("python")

    def test_both(self):
        self.check("both")

    def test_lua_that_nobody_opened_is_not_examined_in_a_signal_handler(self):
        for languages in "bare", "required":
            with self.subTest(languages=languages):
                done, seen = first(languages, "capture", "handler")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(seen, ["gap Lua's call sites cannot be located in a signal handler"])

    def test_a_script_that_requires_the_module_is_shown_wherever_handlers_of_ours_report(self):
        for what, when in [("report", when) for when in WHEN] + [
            ("capture", "deadline"),
            ("capture", "child"),
        ]:
            with self.subTest(what=what, when=when):
                done, seen = first("required", what, when)
                status = -signal.SIGSEGV if (what, when) in CRASHES else 0
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual(seen, SCRIPTS["lua"], done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
