"""What a capture of Python frames counts, changes and survives; and sub-interpreters."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest
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


def test_code_that_dies_is_not_mistaken_for_its_successor():
    for number in range(2000):
        name = f"made_{number}"
        scope = {"capture": stacksplice.capture}
        exec(f"def {name}():\n    return capture(limit=1)\nresult = {name}()", scope)
        assert scope["result"][0].function == name


SUB_INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import stacksplice, sys
def inside():
    return stacksplice.capture()
stack = inside()
frames = [(f.function, f.interpreter is None) for f in stack if f.language == "python"]
print(frames)
try:
    raise ValueError("sub")
except ValueError as exc:
    stacksplice.originate(exc)
'''
import stacksplice
def outer():
    try:
        arguments = ("legacy",) if sys.version_info >= (3, 13) else ()
        options = {} if sys.version_info >= (3, 13) else {"isolated": False}
        made = interpreters.create(*arguments, **options)
        interpreters.run_string(made, code)
    finally:
        interpreters.destroy(made)
outer()
exc = None
try:
    stacksplice.raise_error(-2147024809)
except ValueError as caught:
    exc = caught
info = stacksplice.error_info(exc)
print(type(exc).__name__, exc, info.type, [f.function for f in info.stack if f.language == "python"])
"""


def test_sub_interpreter_has_its_own_frames_and_errors(child):
    lines = child(SUB_INTERPRETER).stdout.splitlines()
    assert lines[0] == "[('inside', False), ('<module>', False), ('outer', True), ('<module>', True)]"
    # The last one is where it was raised again.
    assert lines[1] == "HResultValueError sub ValueError ['<module>', 'outer', '<module>', '<module>']"


def test_more_activations_than_are_kept_at_hand(check, border):
    """Hundreds of loops of the interpreter on one stack."""

    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    threading.stack_size(64 << 20)
    try:
        thread = threading.Thread(target=level, args=(400,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
        sys.setrecursionlimit(limit)
    assert check.count == 1


ISOLATED = """
import sys
try:
    import _interpreters as interpreters
    made = interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=True)
import stacksplice
code = '''
import stacksplice
def inside():
    return [(f.function, f.interpreter is None) for f in stacksplice.capture() if f.language == "python"]
print(inside(), flush=True)
for number in range(100):
    try:
        raise ValueError(number)
    except ValueError as exc:
        info = stacksplice.originate(exc)
        assert info.language_exception is exc
'''
def outer():
    interpreters.run_string(made, code)
outer()
assert stacksplice.peek_error().language_exception is None  # another interpreter's
assert stacksplice.peek_error().message == "99"
interpreters.destroy(made)
assert stacksplice.take_error().message == "99"
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="one lock for all interpreters before 3.12")
def test_interpreter_with_a_lock_of_its_own(child):
    line = child(ISOLATED).stdout
    assert line.startswith("[('inside', False), ('<module>', False)")


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
