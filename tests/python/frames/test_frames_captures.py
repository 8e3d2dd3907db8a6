"""What a capture of Python frames counts, changes and survives."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest
import stacksplice
from building import HERE, PACKAGE, ran
from frame_oracle import chain, python_frames


def test_capture_starts_at_the_caller_and_counts():
    def caller():
        return stacksplice.capture()

    stack = caller()
    first = stack[0]
    assert (first.language, first.function) == ("python", caller.__qualname__)
    assert first.line == caller.__code__.co_firstlineno + 1
    assert first.trust == "exact"
    assert caller.__qualname__ not in [f.function for f in stacksplice.capture(skip=0)]
    shorter = [stacksplice.capture(limit=3), stacksplice.capture(skip=1)]
    assert len(shorter[0].addresses) == 3
    assert len(shorter[1].addresses) == len(stack.addresses) - 2
    assert stacksplice.capture(limit=0).addresses == ()


def test_capture_changes_no_reference_count():
    def here():
        return None

    code = test_capture_changes_no_reference_count.__code__
    objects = [code, code.co_filename, code.co_qualname, here.__code__]
    stacksplice.capture()
    before = [sys.getrefcount(item) for item in objects]
    for _ in range(10):
        stacksplice.capture()
    assert [sys.getrefcount(item) for item in objects] == before


def test_more_activations_than_are_kept_at_hand(check, border, deep_recursion):
    """Hundreds of loops of the interpreter on one stack."""

    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    threading.stack_size(64 << 20)
    try:
        thread = threading.Thread(target=level, args=(400,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    assert check.count == 1


# push nothing that an unwinder could follow: sub rsp, 24; xor ebp, ebp; call rdi; add rsp, 24; ...
NO_UNWIND_DATA = bytes.fromhex("55 4883ec20 31ed ffd7 4883c420 5d c3".replace(" ", ""))


def test_frames_behind_code_that_cannot_be_unwound(border):
    """Machine code as a compiler at run time makes it: the native walk ends, Python's frames do not."""
    import mmap

    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(NO_UNWIND_DATA)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    callback_type = ctypes.CFUNCTYPE(None)
    trampoline = ctypes.CFUNCTYPE(None, callback_type)(address)
    seen = []

    def callback():
        seen.append((chain(sys._getframe()), border.capture_both()[1]))

    def outer():
        trampoline(callback_type(callback))

    outer()
    truth, combined = seen[0]
    stack = stacksplice.Stack(combined)
    assert [frame[:2] for frame in python_frames(stack)] == [frame[:2] for frame in truth]
    gaps = [index for index, frame in enumerate(stack) if frame.kind == "gap"]
    names = [frame.function for frame in stack]
    assert len(gaps) == 1
    assert names.index(callback.__qualname__) < gaps[0] < names.index(outer.__qualname__)


# ---- Whole processes -----------------------------------------------------------------------------

JIT = """
import sys
import border, frame_oracle, stacksplice
capture = border.capture_both
def hot(n):
    seen = []
    for i in range(n):
        seen.append(capture())
        i & 3
    return seen
def keyed(n):
    seen = []
    sorted(range(n), key=lambda x: seen.append(capture()) or x)
    return seen
expected = {hot: ["hot", "<module>"], keyed: ["keyed.<locals>.<lambda>", "keyed", "<module>"]}
gaps = count = 0
for function, names in expected.items():
    for _ in range(2):
        found = function(5000)
        for hr, combined in {(hr, tuple(combined)) for hr, combined, native in found}:
            stack = stacksplice.Stack(combined)
            assert [f[1] for f in frame_oracle.python_frames(stack)] == names, stack
            reasons = [f.reason for f in stack if f.kind == "gap"]
            # What the walk could not pass is said, and it is nothing of Python's.
            assert not [f for f in stack if f.kind == "gap" and f.language == "python"], stack
            assert reasons or stack[-1].function in ("_start", None), stack
            gaps += bool(reasons)
        count += len(found)
print(getattr(sys, "_jit", None) is not None and sys._jit.is_enabled(), gaps, count)
"""


def test_hot_loop_with_the_jit(child):
    """3.14 on, where it is built in: Python's frames are complete; what is hidden is said."""
    enabled, _, count = child(JIT, PYTHON_JIT="1").stdout.split()
    available = sys.version_info >= (3, 14) and sys._jit.is_available()
    assert (enabled, count) == (str(available), "20000")


def executable() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def has_symbols(program: Path) -> bool:
    listed = subprocess.run(["readelf", "-SW", str(program)], capture_output=True, text=True)
    return " .symtab " in listed.stdout


def test_stripped_interpreter(tmp_path, border_path):
    """The scenarios of test_frames.py in a copy of the interpreter without a symbol table."""
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and not has_symbols(executable()):
        pytest.skip("the interpreter is a shared library")
    if not has_symbols(executable()):
        pytest.skip("this interpreter is stripped: every test here runs without its symbols")
    program = tmp_path / "python"
    subprocess.run(["strip", "-o", str(program), str(executable())], check=True)
    assert not has_symbols(program)
    paths = [PACKAGE.parent, HERE, sysconfig.get_path("purelib")]
    environment = {
        **os.environ,
        "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    file = Path(__file__).with_name("test_frames.py")
    command = [str(program), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    ran(*command, env=environment)
