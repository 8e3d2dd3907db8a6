"""The option of test_matrix.py, and the module that it runs; how that is built is in native.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import native  # noqa: E402

OTHER_LUAS = ["5.3", "5.4", "5.5"]


def pytest_addoption(parser):
    parser.addoption("--other-luas", action="store_true", help="not the Lua of the build")


def pytest_generate_tests(metafunc):
    if "matrix" in metafunc.fixturenames:
        luas = OTHER_LUAS if metafunc.config.getoption("--other-luas") else ["build"]
        names = [f"lua-{lua}" for lua in luas]
        metafunc.parametrize("matrix", luas, ids=names, indirect=True, scope="module")


@pytest.fixture(autouse=True)
def without_names(monkeypatch):
    """The names that asyncio makes up depend on what ran before."""
    monkeypatch.setattr("stacksplice._errors.awaiting._MAX_NAMES", 0)


@pytest.fixture(scope="session")
def build_matrix(tmp_path_factory):
    """Called with a version of Lua: the path of the module."""
    return lambda lua: native.build(tmp_path_factory.mktemp("matrix"), lua)
