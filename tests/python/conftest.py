"""The fixtures of all tests.  What they import is in building.py: other folders have a conftest, too."""

from __future__ import annotations

import gc
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
import stacksplice
from building import HERE, TESTS, Child, compile_c, core_library
from foreign import calls_failing_lua, calls_lua
from frame_oracle import Checker
from lua_border import compile_crossing
from pytest_runs import run  # noqa: F401
from raising import leaf_behind
from validating import validate_all


@pytest.fixture(scope="session")
def border_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    output = tmp_path_factory.mktemp("border") / f"border{suffix}"
    sources = [HERE / "border.c", HERE / "border_second.c"]
    return compile_c(output, sources, "-shared", "-fPIC", "-pthread", *core_library())


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def border(border_path: Path) -> ModuleType:
    """The module of border.c."""
    return _load("border", border_path)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of related_module.c."""
    output = tmp_path_factory.mktemp("related") / f"related_module{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [HERE / "related_module.c", TESTS / "support" / "error_double.c"]
    return _load("related_module", compile_c(output, sources, "-shared", "-fPIC", *core_library()))


@pytest.fixture(scope="session")
def crossing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module crossing is, in which Python and Lua call each other, and pricing.lua."""
    return compile_crossing(tmp_path_factory.mktemp("crossing")).parent


@pytest.fixture(scope="session")
def crossing(crossing_folder: Path) -> ModuleType:
    """That module, whose Lua finds pricing.lua."""
    module = _load("crossing", next(crossing_folder.glob("crossing*.so")))
    module.find_pricing = f"package.path = '{crossing_folder}/?.lua;' .. package.path"
    module.run(module.find_pricing)
    return module


@pytest.fixture
def deep_recursion():
    """Python may recurse five thousand times."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture
def check(border: ModuleType):
    """Called anywhere it compares the stack there with the truth."""
    checker = Checker(border)
    yield checker
    checker.assert_good()


@pytest.fixture(scope="session", autouse=True)
def valid_reports():
    """Each report of a test is one of the published schema."""
    if importlib.util.find_spec("jsonschema") is None:  # there is none for every Python
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        validate_all(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_objects():
    """What was imported until here is no garbage: no collection of the module's tests walks it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_slot():
    """Every test begins and ends without an error in its thread's slot, and shows frames of others."""
    stacksplice.winrt.RoClearError()
    yield
    stacksplice.winrt.RoClearError()
    stacksplice.foreign_frames(True)


@pytest.fixture
def price(crossing: ModuleType):
    return calls_lua(crossing)


@pytest.fixture
def fail_in_lua(crossing: ModuleType):
    return calls_failing_lua(crossing)


@pytest.fixture
def leaf(border: ModuleType):
    """A coroutine function whose error crosses a border of C."""
    return leaf_behind(border)


@pytest.fixture(scope="session")
def child(border_path: Path) -> Child:
    return Child(border_path)
