"""install() takes stacks at the raise once code of others may be on them, and costs nothing before."""

from __future__ import annotations

import sys

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


@pytest.fixture
def child(child):
    return child.behind(BEGIN)


needs_monitoring = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")


IMPORTS = """
stacksplice.install()
import _decimal, _heapq, array, mmap, select, unicodedata  # Python's own
assert not is_on()
import {}
assert is_on()
stacksplice.uninstall()
assert not is_on() and traces() == before, (traces(), before)
stacksplice.install()
assert is_on()
stacksplice.uninstall()
assert not is_on() and traces() == before, (traces(), before)
"""
PROGRAMS = {
    "the import of ctypes": IMPORTS.format("ctypes"),
    "the import of another extension": IMPORTS.format("border"),
    "uninstalled before any import": """
stacksplice.install()
assert traces() != before
stacksplice.install()
stacksplice.uninstall()
assert traces() == before
import ctypes
assert not is_on()
""",
    # It has no file.  The finder is asked as the import system asks it.
    "a module that is built into the program": """
stacksplice.install()
sys.builtin_module_names += ("hosts_own",)
import importlib.util
assert importlib.util.find_spec("math") and not is_on()
importlib.util.find_spec("hosts_own")
assert is_on()
""",
    "a lazy module stays unloaded": """
from types import ModuleType
class Lazy(ModuleType):
    def __getattribute__(self, name):
        raise AssertionError(f"asked for {name}")
sys.modules["lazy"] = Lazy("lazy")
sys.modules["strange"] = None
stacksplice.install()
assert not is_on()
""",
    # Then there are no stacks at the raise, and the import does not fail.
    "all tool ids in use": """
for tool in (3, 4, 5):
    sys.monitoring.use_tool_id(tool, "other")
stacksplice.install()
import ctypes
assert not is_on()
""",
}


@needs_monitoring
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_switches_it_on(child: Child, name: str) -> None:
    child(PROGRAMS[name])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and newer have the event")
def test_without_the_event_imports_stay_alone(child: Child) -> None:
    child(
        "stacksplice.install()\nassert stacksplice._hooks.others._finder not in sys.meta_path\n"
        "assert ExtensionFileLoader.__init__ is before[0]\n"
    )


@needs_monitoring
def test_many_loops_are_left_on_the_way_to_a_border(child: Child) -> None:
    """Of what C of Python's own had called on the way, all is known, or how much is not."""
    child("""
import ctypes, sys, stacksplice
libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

def handled():
    try:
        sorted([0], key=lambda _: 1 / 0)
    except ZeroDivisionError:
        pass

def nested(_):
    global left
    left -= 1
    try:
        sorted([0], key=nested) if left else [][0]
    finally:
        handled()

def told(loops):
    global left
    left = loops
    reports = []
    def hook(unraisable):
        reports.append(stacksplice.error_info(unraisable.exc_value).stack)
    sys.unraisablehook = hook
    compare = COMPARE(lambda *_: nested(0) or 0)
    libc.qsort((ctypes.c_int * 2)(), 2, ctypes.sizeof(ctypes.c_int), compare)
    stack, = reports
    frames = list(stack)
    places = [i for i, frame in enumerate(frames) if frame.function == "nested"]
    assert len(places) == loops
    return stack, [frames[i + 1:j] for i, j in zip(places, places[1:])]

stacksplice.install()
stacksplice.set_max_frames(4096)
stack, between = told(100)
assert all(between) and stack.frames_left_out == 0
assert all(frame.kind == "native" for part in between for frame in part)

stack, between = told(200)
bare = [part for part in between if not part or part[0].kind == "gap"]
assert 0 < len(bare) < 100 and bare == between[:len(bare)]
assert [len(part) for part in bare] == [0] * (len(bare) - 1) + [1]
assert stack.frames_left_out and stack.frames_left_out % len(bare) == 0
""")
