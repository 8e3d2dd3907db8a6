"""Where the tests of this folder find the build, and how they run the example host."""

import json
import os
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = SOURCE / "examples" / "host" / "scripts"
HOST = os.environ["STACKSPLICE_HOST_PROGRAM"]


def run_host(*options, **environment):
    """The finished process; output as text."""
    return subprocess.run(
        [HOST, *options],
        capture_output=True,
        text=True,
        timeout=300,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )


def run_with_json(*options, **environment):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "reports.json")
        process = run_host("--json", path, *options, **environment)
        if process.returncode == 2:
            raise AssertionError(process.stderr)
        with open(path, encoding="utf-8") as file:
            return process, json.load(file)


def is_script(frame):
    """A frame of a script; C functions without a native frame of their own are none."""
    return frame["kind"] == "script" and frame.get("file") != "[C]"


def scripts_of(stack):
    """(language, function) of the script frames, innermost first."""
    return [(frame["language"], frame.get("function")) for frame in stack if is_script(frame)]


def origin_of(record):
    """Who made the error: "python ValueError", "lua table", or "native" when C code did."""
    error = record["error"]
    return f"{error['language']} {error['type']}" if error["type"] else "native"
