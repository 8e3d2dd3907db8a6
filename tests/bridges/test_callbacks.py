"""Callbacks that C libraries call: ctypes and cffi.  Their errors go nowhere, by design of theirs."""

from __future__ import annotations

import pytest
from bridging import Run

CTYPES = """
import ctypes, sys, stacksplice
from seen import *

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

def fail():
    raise ValueError("born in a callback")

@COMPARE
def compare(a, b):
    fail()

def sort():
    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)
    return sorted(numbers)

noted = []
def note(unraisable):
    noted.append((unraisable.exc_type, str(unraisable.exc_value), story(unraisable.exc_value)))
"""

CFFI = """
import cffi, sys, stacksplice
from seen import *

ffi = cffi.FFI()
ffi.cdef("void qsort(void *, size_t, size_t, int (*)(const void *, const void *));")
libc = ffi.dlopen(None)
noted = []

def fail():
    raise ValueError("born in a callback")

def note(type, value, traceback):
    # cffi hands the traceback beside the exception.
    noted.append((type, str(value), story(value.with_traceback(traceback))))

@ffi.callback("int(const void *, const void *)", error=-1, onerror=note)
def compare(a, b):
    fail()

def sort():
    numbers = ffi.new("int[2]", [2, 1])
    libc.qsort(numbers, 2, ffi.sizeof("int"), compare)
    return sorted(numbers)
"""

CHECK = """
def check(told, complete):
    unwound = [] if complete else [GAP_RETURNED]
    in_order(told, "python fail", "python compare", *unwound, "python sort", "python <module>")
"""


@pytest.mark.parametrize("bridge", ["ctypes", "cffi"])
def test_an_error_in_a_callback(run: Run, bridge: str) -> None:
    """It is told to the bridge's own hook and nobody else; the sort goes on."""
    if bridge == "cffi":
        pytest.importorskip("cffi", reason="cffi is not installed")
    begin = CTYPES + "sys.unraisablehook = note\n" if bridge == "ctypes" else CFFI
    run(
        begin
        + CHECK
        + """
before = sort()
assert len(noted) == 1
kind, text, told = noted[0]
check(told, complete=False)
stacksplice.take_error()
stacksplice.install()
"""
        + ("sys.unraisablehook = note\n" if bridge == "ctypes" else "")
        + """
assert sort() == before
assert noted[1][:2] == (kind, text)
if sys.version_info >= (3, 12):
    stacksplice.install(capture_at_raise=True)
"""
        + ("    sys.unraisablehook = note\n" if bridge == "ctypes" else "")
        + """
    assert sort() == before
    assert noted[2][:2] == (kind, text)
    check(noted[2][2], complete=True)
stacksplice.take_error()
"""
    )


def test_store_and_raise_again(run: Run) -> None:
    """What the guide says of a callback that cannot fail: keep the exception, raise it afterwards."""
    run(
        CTYPES
        + """
def sort_and_raise():
    kept = []
    @COMPARE
    def compare(a, b):
        try:
            fail()
        except BaseException as exc:
            stacksplice.originate(exc)  # the stack here, inside qsort
            stacksplice.take_error()
            kept.append(exc)
            return 0
    numbers = (ctypes.c_int * 2)(2, 1)
    libc.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)
    if kept:
        raise kept[0]

try:
    sort_and_raise()
except ValueError as exc:
    told = scripts(stacksplice.error_info(exc).stack)
    in_order(told, "python fail", GAP_RETURNED, "python sort_and_raise.<locals>.compare",
             "python sort_and_raise", "python <module>")
else:
    raise AssertionError("no error")
assert stacksplice.peek_error() is None
"""
    )


def test_faults_of_ctypes_stay(run: Run) -> None:
    """ctypes' own hook prints what it prints, also with ours installed: its exception crossed nothing."""
    source = CTYPES + "import io\nsys.stderr = io.StringIO()\n%s\nsort()\nprint(sys.stderr.getvalue())\n"
    lines = [line for line in run(source % "").splitlines() if "0x" not in line]
    with_hook = [line for line in run(source % "stacksplice.install()").splitlines() if "0x" not in line]
    assert "ValueError: born in a callback" in lines
    assert with_hook == lines
