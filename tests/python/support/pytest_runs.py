"""Runs of pytest with the plugin, in child processes, and what they print."""

from __future__ import annotations

import sys

import pytest
from building import ran

SUITE = """\
import unittest

import pytest

import border


def fails():
    raise ValueError("unhandled")


def crosses():
    border.call(fails)


def test_call():
    crosses()


@pytest.fixture
def broken():
    crosses()


@pytest.fixture
def breaks_later():
    yield
    crosses()


def test_setup(broken):
    pass


def test_teardown(breaks_later):
    pass


def test_plain():
    assert 1 == 2


def test_cause():
    try:
        crosses()
    except ValueError as exc:
        raise RuntimeError("outer") from exc


def test_passes():
    with pytest.raises(ValueError):
        crosses()


@pytest.mark.xfail
def test_expected():
    crosses()


def test_skipped():
    try:
        crosses()
    except ValueError:
        pytest.skip("no")


class TestCase(unittest.TestCase):
    def test_method(self):
        crosses()
"""


@pytest.fixture
def run(child, tmp_path):
    """Runs pytest on SOURCE (in test_it.py) with the plugin: its output.  BESIDE_OTHERS: with the other
    installed plugins, too, which take five times as long to load as all the rest."""

    def run(
        source: str,
        *arguments: str,
        plugin: bool = True,
        beside_others: bool = False,
        status: int = 1,
        **variables: str,
    ) -> str:
        (tmp_path / "test_it.py").write_text(source)
        loaded = ["-p", "stacksplice.pytest_plugin"] if plugin else ["-p", "no:stacksplice.pytest_plugin"]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, *arguments]
        command += ["--rootdir", tmp_path, "-c", "/dev/null", tmp_path]
        environment = {**child.environment, "PY_COLORS": "0", "COLUMNS": "100"}
        environment.pop("PYTEST_ADDOPTS", None)
        environment.pop("GITHUB_ACTIONS", None)
        environment.pop("PYTEST_XDIST_WORKER", None)
        if not beside_others:
            environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return ran(*command, status=status, env=environment | variables, cwd=tmp_path).stdout

    return run


def sections(output: str) -> list[str]:
    """The combined stacks of OUTPUT, each up to the next rule."""
    _, *parts = output.replace("\n___", "\n---").replace("\n===", "\n---").split("- combined stack -")
    return [part.partition("\n---")[0] for part in parts]
