"""What a capture of Python frames counts, changes and survives."""

from __future__ import annotations

import ctypes
import sys
import threading

import stacksplice
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
