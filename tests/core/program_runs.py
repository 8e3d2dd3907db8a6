"""Runs of programs that end in ways that no test in the same process survives."""

import glob
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

COMMAND = []  # an emulator, if one is needed, and the program
# A sanitizer's handlers would come after ours and end the process in their own way.
NO_HANDLERS = ":".join(f"handle_{name}=0" for name in ("segv", "sigbus", "sigfpe", "sigill", "abort"))


def core_of(directory):
    cores = glob.glob(f"{directory}/core*")
    if not cores or not shutil.which("gdb"):
        return ""
    return subprocess.run(
        ["gdb", "-batch", "-ex", "bt", COMMAND[-1], cores[0]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEBUGINFOD_URLS": ""},
    ).stdout


def refuse(name):
    raise ValueError(name)


class Run:
    """One run of the program: its status, what it wrote, its report files, the stack of its core file.

    ENVIRONMENT_OF takes the folder that it runs in, as BEFORE does, which is called in the new process.
    """

    def __init__(
        self,
        *arguments,
        with_core=False,
        stderr=subprocess.PIPE,
        sanitizer=False,
        environment_of=lambda directory: {"STACKSPLICE_REPORT_DIR": directory},
        before=lambda directory: None,
    ):
        with_core = with_core and len(COMMAND) == 1  # not that of an emulator
        environment = {name: value for name, value in os.environ.items() if name != "STACKSPLICE_REPORT_DIR"}
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
            if not sanitizer:
                environment[name] = ":".join(filter(None, (environment.get(name), NO_HANDLERS)))
        with tempfile.TemporaryDirectory() as directory:
            self.directory = directory
            limit = resource.RLIM_INFINITY if with_core else 0

            def prepare():
                resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
                before(directory)

            run = subprocess.run(
                [*COMMAND, *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                timeout=120,
                check=False,
                cwd=directory,
                env={**environment, **environment_of(directory)},
                preexec_fn=prepare,
            )
            self.status = run.returncode
            self.out = run.stdout.decode()
            self.err = (run.stderr or b"").decode()
            self.reports = []
            for name in sorted(glob.glob(f"{directory}/stacksplice-*.json")):
                with open(name, encoding="utf-8") as file:
                    text = file.read()
                if text.endswith("}\n"):  # else a fault cut it off
                    self.reports.append(json.loads(text, parse_constant=refuse))
            self.left = glob.glob(f"{directory}/stacksplice-*")
            self.modes = {os.stat(path).st_mode & 0o777 for path in self.left}
            self.core = core_of(directory) if with_core else ""
        if self.status == 77:
            raise unittest.SkipTest("not in this build")

    @property
    def report(self):
        """The last one that is complete."""
        (report,) = self.reports[-1:]
        return report

    @property
    def stacks(self):
        """Those that the program printed before it crashed."""
        return [line.split() for line in re.findall(r"^stack(.*)$", self.out, re.M)]

    @property
    def logged(self):
        """The last one: that of the crash."""
        return self.stacks[-1]
