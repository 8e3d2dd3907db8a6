"""Options of test_matrix.py, and the module that it runs; how that is built is in native.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import native  # noqa: E402


def pytest_addoption(parser):
    for name in ("--case", "--modes", "--styles", "--kind"):
        parser.addoption(name, help="of the one case that test_one_case runs")


@pytest.fixture(scope="session")
def build_matrix(tmp_path_factory):
    """Called with a version of Lua: the path of the module."""
    return lambda lua: native.build(tmp_path_factory.mktemp("matrix"), lua)
