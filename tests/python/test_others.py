"""install() takes stacks at the raise once code of others may be on them, and costs nothing before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from building import Child

BEGIN = """
import sys
from importlib.machinery import ExtensionFileLoader

def traces():
    return ExtensionFileLoader.__init__, [str(each) for each in sys.meta_path]

def is_on():
    tools = [tool for tool in range(6) if sys.monitoring.get_tool(tool) == "stacksplice"]
    assert all(sys.monitoring.get_events(tool) == sys.monitoring.events.PY_UNWIND for tool in tools)
    return bool(tools)

before = traces()
import stacksplice
"""

needs_monitoring = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")


@needs_monitoring
@pytest.mark.parametrize("module", ["ctypes", "border"])
def test_the_import_switches_it_on(child: Child, border_path: Path, module: str) -> None:
    name = border_path.name.partition(".")[0] if module == "border" else module
    child(
        BEGIN
        + f"""
stacksplice.install()
import _decimal, _heapq, array, mmap, select, unicodedata  # Python's own
assert not is_on()
import {name}
assert is_on()
stacksplice.uninstall()
assert not is_on() and traces() == before, (traces(), before)
stacksplice.install()
assert is_on()
stacksplice.uninstall()
assert not is_on() and traces() == before, (traces(), before)
"""
    )


@needs_monitoring
def test_uninstall_before_any_import_leaves_no_trace(child: Child) -> None:
    child(
        BEGIN
        + """
stacksplice.install()
assert traces() != before
stacksplice.install()
stacksplice.uninstall()
assert traces() == before
import ctypes
assert not is_on()
"""
    )


@needs_monitoring
def test_a_module_that_is_built_into_the_program(child: Child) -> None:
    """It has no file.  The finder is asked as the import system asks it."""
    child(
        BEGIN
        + """
stacksplice.install()
sys.builtin_module_names += ("hosts_own",)
import importlib.util
assert importlib.util.find_spec("math") and not is_on()
importlib.util.find_spec("hosts_own")
assert is_on()
"""
    )


@needs_monitoring
def test_a_lazy_module_stays_unloaded(child: Child) -> None:
    child(
        BEGIN
        + """
from types import ModuleType
class Lazy(ModuleType):
    def __getattribute__(self, name):
        raise AssertionError(f"asked for {name}")
sys.modules["lazy"] = Lazy("lazy")
sys.modules["strange"] = None
stacksplice.install()
assert not is_on()
"""
    )


@needs_monitoring
def test_all_tool_ids_in_use(child: Child) -> None:
    """Then there are no stacks at the raise, and the import does not fail."""
    child(
        BEGIN
        + """
for tool in (3, 4, 5):
    sys.monitoring.use_tool_id(tool, "other")
stacksplice.install()
import ctypes
assert not is_on()
"""
    )


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and newer have the event")
def test_without_the_event_imports_stay_alone(child: Child) -> None:
    child(
        BEGIN + "stacksplice.install()\nassert stacksplice._hooks.others._finder not in sys.meta_path\n"
        "assert ExtensionFileLoader.__init__ is before[0]\n"
    )
