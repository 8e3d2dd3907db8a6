"""The truth about Python frames: the chain of sys._getframe(), and one function behind all that was
spliced, which needs no symbols."""

from __future__ import annotations

import ctypes
import sys

import stacksplice

LIBGCC = ctypes.CDLL("libgcc_s.so.1")
LIBGCC._Unwind_FindEnclosingFunction.restype = ctypes.c_void_p
LIBGCC._Unwind_FindEnclosingFunction.argtypes = [ctypes.c_void_p]
TOKEN = 0x5353 << 48


def function_start(address: int) -> int | None:
    return LIBGCC._Unwind_FindEnclosingFunction(address - 1)


def is_token(address: int) -> bool:
    return address & (0xFFFF << 48) == TOKEN


def chain(frame) -> list[tuple[str, str, int | None]]:
    result = []
    while frame is not None:
        result.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno or None))
        frame = frame.f_back
    return result


def python_frames(stack) -> list[tuple[str, str, int]]:
    return [(f.file, f.function, f.line) for f in stack if (f.kind, f.language) == ("script", "python")]


def spliced_addresses(combined: list[int], native: list[int]) -> tuple[list[int], list[int]]:
    """The native return addresses that script frames stand for, and those that stayed."""
    stayed = [address for address in combined[1:] if not is_token(address)]
    left = list(stayed)
    spliced = []
    for address in native[1:]:
        if left and left[0] == address:
            left.pop(0)
        else:
            spliced.append(address)
    assert not left, "a native frame of the combined stack is not in the native one"
    return spliced, stayed


class Checker:
    """Compares the stack here with the truth; counts how often it did."""

    def __init__(self, border) -> None:
        self.border = border
        self.count = 0
        self.problems: list[object] = []
        self.without_lock = False

    def __call__(self, *_) -> bool:
        capture = self.border.capture_both_without_lock if self.without_lock else self.border.capture_both
        hr, combined, native = capture()
        truth = chain(sys._getframe())
        self.compare(hr, combined, native, truth)
        return True

    def compare(self, hr, combined, native, truth) -> None:
        self.count += 1
        stack = stacksplice.Stack(combined)
        found = python_frames(stack)
        gaps = [frame.reason for frame in stack if frame.kind == "gap"]
        if hr != 0 or gaps:
            self.problems.append(("not complete", hr, gaps))
        # This function's own line is one further when the chain is asked for.
        if [frame[:2] for frame in found] != [frame[:2] for frame in truth] or found[1:] != truth[1:]:
            self.problems.append((found, truth))
        spliced, stayed = spliced_addresses(combined, native)
        starts = {function_start(address) for address in spliced}
        others = {function_start(address) for address in stayed}
        # A compiler may put what a function seldom does into a part of its own.
        if len(starts) not in (1, 2) or starts & others:
            self.problems.append(("spliced frames are not one function", starts, starts & others))

    def assert_good(self, at_least: int = 1) -> None:
        assert not self.problems, self.problems[0]
        assert self.count >= at_least
