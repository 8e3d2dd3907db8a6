"""The type stubs say what the extension has, and the package passes mypy --strict."""

from __future__ import annotations

import os
import sys

import pytest
from building import PACKAGE, ROOT, ran

pytest.importorskip("mypy")

CONFIGURATION = str(ROOT / "pyproject.toml")


def run(*arguments: str) -> None:
    environment = dict(os.environ)
    # An installed package is found without help, and mypy refuses to be pointed at site-packages.
    if PACKAGE.parent.name != "site-packages":
        environment |= {"MYPYPATH": str(PACKAGE.parent), "PYTHONPATH": str(PACKAGE.parent)}
    ran(sys.executable, "-m", *arguments, env=environment)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Most of mypy's time is for the standard library and this package, which it reads once."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.any_python
def test_mypy_strict(cache):
    run("mypy", "--config-file", CONFIGURATION, "--cache-dir", cache, "-p", "stacksplice")


def test_stubtest():
    run("mypy.stubtest", "--mypy-config-file", CONFIGURATION, "stacksplice")


@pytest.mark.any_python
def test_a_program_that_uses_it(tmp_path, cache):
    program = tmp_path / "program.py"
    program.write_text(
        "import stacksplice\n"
        "def report(exc: Exception) -> str:\n"
        "    info = stacksplice.error_info(exc)\n"
        "    if info is None:\n"
        "        return ''\n"
        "    first: stacksplice.Frame = info.stack[0]\n"
        "    line: int | None = first.line\n"
        "    return f'{info.hresult} {line} {info.propagation[0].language}'\n"
        "def take() -> stacksplice.ErrorInfo | None:\n"
        "    return stacksplice.take_error()\n"
    )
    run("mypy", "--strict", "--cache-dir", cache, str(program))
