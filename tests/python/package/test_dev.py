"""What ./dev says of a command line that is wrong, before it installs or builds anything, and which tests
it finds for a path."""

from __future__ import annotations

import re

import pytest
from building import ROOT, built, ran

pytestmark = pytest.mark.any_python


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["tset"], "there is no command 'tset'"),
        (["test", "ctets"], "there is no test part 'ctets'; the parts are: all, "),
        (["test", "tests/nothing.py"], "there is no tests/nothing.py in "),
        (["test", "tests/suites"], "no test belongs to tests/suites alone; "),
        (["demo", "--al"], "demo has one option, --all; not: --al"),
        (["demo", "--all", "--all"], "demo has one option, --all; not: --all --all"),
        (["check", "--quik"], "check has one option, --quick; not: --quik"),
        (["fuzz", "unwnd"], "there is no fuzz target 'unwnd'"),
        (["--python"], "--python needs a path"),
    ],
)
def test_what_is_wrong_is_the_last_line(arguments, words):
    done = ran("/bin/sh", str(ROOT / "dev"), *arguments, status=2)
    assert done.stderr.splitlines()[-1].startswith(f"dev: {words}")
    assert "==>" not in done.stdout  # the mark of each step that is done


# In each of these a change has tests; of these parents, in each folder.
FOLDERS = ["core", "crash", "inspect", "examples", "docs", "scripts", "tests/lua", "tests/fuzz"]
PARENTS = ["core/src", "bindings", "bindings/python/stacksplice/_tools"]


def found(path):
    source = """say() { printf '%s\\n' "$*"; }; . scripts/paths.sh; tests_of "$1\""""
    lines = ran("/bin/sh", "-ec", source, "sh", path, cwd=ROOT).stdout.splitlines()
    return [tuple(line.split(" ", 1)) for line in lines]


def folders():
    for parent in PARENTS:
        for folder in (ROOT / parent).iterdir():
            if folder.is_dir() and folder.name != "__pycache__":
                yield str(folder.relative_to(ROOT))
    yield from FOLDERS


@pytest.mark.parametrize("path", sorted(folders()))
def test_the_tests_of_a_folder_are_there(path):
    tests = found(path)
    assert tests
    for runner, what in tests:
        if runner == "ctest":
            folder, names = what.split(" ", 1)
            command = ["ctest", "--test-dir", built("tests") / folder, "-N", "-R", names]
            assert int(re.search(r"Total Tests: (\d+)", ran(*command).stdout)[1]), what
        else:
            assert (ROOT / what).exists(), what


@pytest.mark.parametrize(
    "path, tests",
    [
        ("core/src/report/json.c", [("ctest", "core ^report")]),
        ("tests/lua/spec/errors_spec.lua", [("busted", "tests/lua/spec/errors_spec.lua")]),
        (
            "tests/python/package/test_dev.py::test_it[a b]",
            [("pytest", "tests/python/package/test_dev.py::test_it[a b]")],
        ),
        ("tests/suites", []),
    ],
)
def test_the_tests_of_a_path(path, tests):
    assert found(path) == tests


@pytest.mark.parametrize(
    "path, names",
    [
        ("tests/core/report_test.c", ["report_test"]),
        ("tests/core/check_exports.py", ["error_exports_test"]),
        ("tests/lua/host.c", ["lua_host", "lua_host_static"]),
        ("tests/host/test_host.py", ["host_host"]),
        ("tests/conformance/slot_test.c", [f"conformance.slot.{kind}" for kind in ("c", "cpp", "wchar")]),
    ],
)
def test_the_tests_of_a_file_of_ctest(path, names):
    ((_, what),) = found(path)
    folder, expected = what.split(" ", 1)
    listed = ran("ctest", "--test-dir", built("tests") / folder, "-N", "-LE", "valgrind", "-R", expected)
    assert re.findall(r"Test +#\d+: (\S+)", listed.stdout) == names


def test_what_is_left_out_with_musl_is_there():
    """pytest says nothing of a name that is none of its tests."""
    lines = (ROOT / "tests" / "musl_left_out.txt").read_text(encoding="utf-8").splitlines()
    names = [line.partition("::") for line in lines if line.startswith("tests/")]
    assert names
    for file, _, name in names:
        assert f"\ndef {name.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8"), (
            f"{file}::{name}"
        )
