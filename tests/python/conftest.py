"""The fixtures of all tests.  What they import is in building.py: other folders have a conftest, too."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
import stacksplice
from building import HERE, Child, compile_c, core_library
from frame_oracle import Checker


@pytest.fixture(scope="session")
def border_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    output = tmp_path_factory.mktemp("border") / f"border{suffix}"
    sources = [HERE / "border.c", HERE / "border_second.c"]
    return compile_c(output, sources, "-shared", "-fPIC", "-pthread", *core_library())


@pytest.fixture(scope="session")
def border(border_path: Path) -> ModuleType:
    """The module of border.c."""
    spec = importlib.util.spec_from_file_location("border", border_path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(border: ModuleType):
    """Called anywhere it compares the stack there with the truth."""
    checker = Checker(border)
    yield checker
    checker.assert_good()


@pytest.fixture(autouse=True)
def clean_slot():
    """Every test begins and ends without an error in its thread's slot."""
    stacksplice.winrt.RoClearError()
    yield
    stacksplice.winrt.RoClearError()


@pytest.fixture(scope="session")
def child(border_path: Path) -> Child:
    return Child(border_path)
