"""install(capture_at_raise=True) beside coverage, debuggers and profilers, for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from building import ran
from gap_reasons import KEPT

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring before 3.12")

# Says what it found as one line of JSON: the stack of an exception that was unwound to a border, and
# that of the same exception when it was raised again.
SCRIPT = """\
import json, sys
import border, stacksplice
stacksplice.install(capture_at_raise=True)


def deep(n):
    if n:
        return sorted([n], key=lambda x: deep(n - 1))
    raise ValueError("deep")


def again(exc):
    raise exc


def look():
    try:
        border.call(deep, 2)
    except ValueError as exc:
        kept = exc
    try:
        border.call(again, kept)
    except ValueError as exc:
        assert exc is kept
    stack = stacksplice.error_info(kept).stack
    names = [frame.function.rpartition(".")[2] for frame in stack if frame.kind == "script"]
    gaps = [frame.reason for frame in stack if frame.kind == "gap"]
    tools = [sys.monitoring.get_tool(tool) for tool in range(6)]
    print(json.dumps({"names": names, "gaps": gaps, "tools": tools}))


look()
"""
WHOLE = ["deep", "<lambda>", "deep", "<lambda>", "deep", "look", "again", "look"]
GAPS = [KEPT, "unknown frames in between"]


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(child, script: Path, *arguments: str, typed: str = "", **environment: str):
    """What SCRIPT found, run by the module and with the arguments given; and the whole output."""
    done = ran(
        sys.executable, *arguments, input=typed, env={**child.environment, **environment}, cwd=script.parent
    )
    lines = [line[line.index('{"names"') :] for line in done.stdout.splitlines() if '{"names"' in line]
    found = [json.loads(line) for line in lines]
    for one in found:
        assert one["names"][: len(WHOLE)] == WHOLE and one["gaps"] == GAPS, one
        assert one["tools"].count("stacksplice") == 1
    return found, done.stdout + done.stderr


def test_alone(child, script):
    (found,), _ = run(child, script, str(script))
    assert found["tools"] == [None, None, None, None, "stacksplice", None]


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage(child, script, core):
    pytest.importorskip("coverage")
    environment = {"COVERAGE_CORE": core, "COVERAGE_FILE": str(script.parent / ".coverage")}
    (found,), output = run(child, script, "-m", "coverage", "run", str(script), **environment)
    if core == "sysmon":
        assert found["tools"][sys.monitoring.COVERAGE_ID] == "coverage.py", output
    run_report = [sys.executable, "-m", "coverage", "json", "-q", "-o", "report.json"]
    subprocess.run(run_report, check=True, cwd=script.parent, env={**child.environment, **environment})
    files = json.loads((script.parent / "report.json").read_text())["files"]
    (measured,) = (values for name, values in files.items() if name.endswith("script.py"))
    assert measured["missing_lines"] == [] and len(measured["executed_lines"]) > 20


def test_pdb(child, script):
    line = SCRIPT.splitlines().index('    raise ValueError("deep")') + 1
    typed = f"break {line}\ncontinue\nwhere\nnext\nnext\nclear 1\ncontinue\nquit\n"
    (found,), output = run(child, script, "-m", "pdb", str(script), typed=typed)
    assert f"script.py({line})deep()" in output
    assert "ValueError: deep" in output  # `next` stops where it is raised


def test_pdb_after_the_end(child, script):
    script.write_text(SCRIPT.replace("\nlook()\n", "\nlook()\nborder.call(deep, 1)\n"))
    typed = "continue\nwhere\nquit\n"
    (found,), output = run(child, script, "-m", "pdb", str(script), typed=typed)
    assert "post mortem" in output.lower() and "script.py(9)deep()" in output


def test_a_debugger_of_sys_monitoring(child, script):
    """One that sees each event and raises exceptions of its own meanwhile."""
    watching = """\
import sys
monitoring, seen = sys.monitoring, []
monitoring.use_tool_id(monitoring.DEBUGGER_ID, "debugger")
def inner(*arguments):
    try:
        {}["inside"]
    except KeyError:
        seen.append(arguments[-1])
for event in ("RAISE", "RERAISE", "PY_UNWIND", "EXCEPTION_HANDLED"):
    monitoring.register_callback(monitoring.DEBUGGER_ID, getattr(monitoring.events, event), inner)
events = monitoring.events
monitoring.set_events(
    monitoring.DEBUGGER_ID,
    events.RAISE | events.RERAISE | events.PY_UNWIND | events.EXCEPTION_HANDLED,
)
"""
    script.write_text(watching + SCRIPT + "assert len(seen) > 10\n")
    (found,), _ = run(child, script, str(script))
    assert found["tools"][0] == "debugger"


@pytest.mark.parametrize("module", ["cProfile", "trace --count --coverdir=."])
def test_profilers(child, script, module):
    (found,), output = run(child, script, "-m", *module.split(), str(script))
    if module == "cProfile":
        assert "script.py:6(deep)" in output


def test_bdb_by_monitoring(child, script):
    if sys.version_info < (3, 14):
        pytest.skip("bdb uses sys.monitoring from 3.14 on")
    debugging = """
import bdb
class Debugger(bdb.Bdb):
    seen = 0
    def user_exception(self, frame, info): Debugger.seen += 1; self.set_step()
    def user_line(self, frame): self.set_step()
debugger = Debugger(backend="monitoring")
debugger.runcall(look)
assert Debugger.seen
"""
    script.write_text(SCRIPT + debugging)
    found, _ = run(child, script, str(script))
    assert [one["tools"][0] for one in found] == [None, "bdbtracer"]
