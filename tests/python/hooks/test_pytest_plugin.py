"""The plugin for pytest, in child processes that run pytest for real."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import xml.etree.ElementTree as ElementTree

import pytest
from building import command
from pytest_runs import SUITE, sections

pytestmark = pytest.mark.any_python

COMBINED = "Propagation:"


@pytest.mark.parametrize("style", ["auto", "long", "short", "native", "no", "line"])
def test_each_failure_has_its_section(run, style):
    """Where there are tracebacks."""
    output = run(SUITE, f"--tb={style}", "--show-capture=no", "--capture=no")  # it is no captured output
    assert "4 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors" in output
    found = sections(output)
    assert len(found) == (0 if style in ("no", "line") else 5)
    assert all(COMBINED in part and "Traceback" in part and "fails" in part for part in found)
    # pytest's own part is as it was.
    if found:
        assert output.count("AssertionError" if style == "native" else "assert 1 == 2") >= 1


RELATED = """

def test_cause():
    try:
        crosses()
    except ValueError as exc:
        raise RuntimeError("outer") from exc


def test_group():
    found = []
    for _ in range(2):
        try:
            crosses()
        except ValueError as exc:
            found.append(exc)
    raise ExceptionGroup("two", found)
"""


@pytest.mark.parametrize("source, stacks", [(SUITE, 4), (SUITE.partition("def test_call")[0] + RELATED, 0)])
def test_frames_of_the_runner_are_left_out(run, source, stacks):
    """Of each stack that has them: causes and members begin where they were caught, as in Python, and what
    crossed no border at the test."""
    output = "".join(sections(run(source)))
    assert len(re.findall(r" frames of (?:pytest|unittest) hidden\n", output)) == stacks
    kept, inside = [], False
    for line in output.splitlines():
        inside = "Propagation:" not in line and (inside or "Traceback" in line)
        if inside:
            kept.append(line)
    assert kept and not any("_pytest" in line or "pluggy" in line for line in kept)


def test_left_out(run):
    assert sections(run(SUITE, plugin=False)) == []


def test_files_for_junit(run, tmp_path):
    run(SUITE, "--junitxml=report.xml")
    cases = [*ElementTree.parse(tmp_path / "report.xml").iter("testcase")]
    kept = {case.get("name"): any(COMBINED in (part.text or "") for part in case) for case in cases}
    crossed = {"test_call", "test_setup", "test_teardown", "test_method", "test_cause"}
    assert {name for name, found in kept.items() if found} == crossed
    path = ".//property[@name='stacksplice.fingerprint']"
    found = {case.get("name"): case.find(path).get("value") for case in cases if case.find(path) is not None}
    assert found.keys() == crossed and all(len(fingerprint) == 32 for fingerprint in found.values())


def test_workers_of_xdist(run, tmp_path):
    pytest.importorskip("xdist")
    output = run(SUITE, "-n", "2", "--junitxml=report.xml", beside_others=True)
    assert "4 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors" in output
    assert len(sections(output)) == 5
    assert (tmp_path / "report.xml").read_text().count(COMBINED) == 5


@pytest.mark.parametrize("raises", ["crosses()", "import broken_module"])
def test_modules_that_cannot_be_collected(run, tmp_path, raises):
    (tmp_path / "broken_module.py").write_text(
        "import border\ndef fails(): raise ImportError('unhandled')\nborder.call(fails)\n"
    )
    before = SUITE.partition("def test_call")[0]
    output = run(before + raises + "\n", status=2)
    assert "1 error" in output
    (found,) = sections(output)
    assert ("ImportError: unhandled" if "import" in raises else COMBINED) in found
    if importlib.util.find_spec("xdist"):
        output = run(before + raises + "\n", "-n", "1", beside_others=True)
        assert len(sections(output)) == 1


def test_conftest_and_fixtures_that_are_missing(run):
    """Failures whose representation takes no section."""
    output = run("def test_missing(no_such_fixture): pass\n")
    assert "fixture 'no_such_fixture' not found" in output and sections(output) == []


def test_a_report_that_fails_is_said(run, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import stacksplice.pytest_plugin as plugin\n"
        "def broken(exc): raise LookupError('no report')\n"
        "plugin.log_text = broken\n"
    )
    output = run("def test_it(): assert 0\n")
    assert "no combined report: LookupError: no report" in output and "assert 0" in output


def test_loaded_when_it_is_installed(run):
    installed = importlib.metadata.entry_points(group="pytest11", name="stacksplice.pytest_plugin")
    if not installed:
        pytest.skip("this stacksplice is not installed but in PYTHONPATH")
    output = run(SUITE, beside_others=True)
    assert len(sections(output)) == 5
    (point,) = {point.value for point in installed}
    assert point == "stacksplice.pytest_plugin"


def annotations(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("::error ")]


@pytest.mark.parametrize("arguments", [[], ["-n", "2"]])
def test_annotations_on_github(run, arguments):
    if arguments:
        pytest.importorskip("xdist")
    beside_others = bool(arguments)
    found = annotations(run(SUITE, *arguments, beside_others=beside_others, GITHUB_ACTIONS="true"))
    line = SUITE[: SUITE.index("raise ValueError")].count("\n") + 1
    assert (
        len(found) == 5 and len({each for each in found if "title=test_it.py%3A%3Atest_call::" in each}) == 1
    )
    for each in found:
        assert each.startswith(f"::error file=test_it.py,line={line},title=test_it.py%3A%3A")
    assert [each for each in found if each.endswith("::ValueError: unhandled")]
    assert annotations(run(SUITE, *arguments, beside_others=beside_others)) == []


def test_no_text_of_an_error_ends_an_annotation(run):
    source = SUITE.replace('"unhandled"', '"100%\\r\\n::error file=x,line=1::forged"')
    output = run(source, "-k", "test_call", GITHUB_ACTIONS="true")
    # pytest itself prints messages as they are.
    (ours,) = [each for each in annotations(output) if "test_call" in each]
    assert ours.endswith("::ValueError: 100%25%0D%0A::error file=x,line=1::forged")


OF_LUA = """
import lupa.lua54
def fails(text): lupa.lua54.LuaRuntime().execute(text, name="@rules.lua")
def test_table(): fails("error({code = 7, message = 'no stock'})")
def test_text(): fails("error('no stock')")
"""


def test_words_of_lua_are_in_summary_junit_and_annotations(run, tmp_path):
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    (tmp_path / "rules.lua").write_text("-- rules\n")
    output = run(OF_LUA, "--junitxml=junit.xml", GITHUB_ACTIONS="true")
    wanted = [
        'lupa.lua54.LuaError: {code = 7, message = "no stock"}',
        "lupa.lua54.LuaError: rules.lua:1: no stock",
    ]
    assert [each.rpartition("::")[2] for each in annotations(output)] == wanted
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("failure")
    assert [case.get("message") for case in cases] == wanted
    assert [line.partition(" - ")[2][:24] for line in output.splitlines() if line.startswith("FAILED ")] == [
        each[:24] for each in wanted
    ]


def test_a_strict_suite_below_run(child, tmp_path):
    """The package is imported before pytest, which warns of plugins whose asserts it cannot rewrite."""
    names = ["stacksplice/__init__.py", "stacksplice/pytest_plugin.py"]
    information = tmp_path / "stacksplice-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: stacksplice\nVersion: 0\n")
    (information / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    (information / "entry_points.txt").write_text(
        "[pytest11]\nstacksplice.pytest_plugin = stacksplice.pytest_plugin\n"
    )
    (tmp_path / "test_strict.py").write_text("def test():\n    pass\n")
    paths = f"{tmp_path}:{child.environment['PYTHONPATH']}"
    environment = {**child.environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTHONPATH": paths}
    done = command("run", "-m", "pytest", "-W", "error", "test_strict.py", cwd=tmp_path, env=environment)
    assert " 1 passed" in done.stdout and "stacksplice" in done.stdout
