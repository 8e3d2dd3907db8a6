"""Runs a call with each of its allocations failing in turn; its program is a row of test_no_memory.py.

Not a test: a child process is given a row, since a failure may be a crash.
"""

import _testcapi
import gc
import types

import stacksplice

MAX_FAILURES = 3000  # of one call


def is_left(number):
    """Whether allocation NUMBER has not come yet: then one of these would be it."""
    try:
        for _ in range(number + 1):
            bytearray()
    except MemoryError:
        return True
    return False


def held():
    """How many of the objects live that a crossing makes or keeps."""
    kinds = (BaseException, types.TracebackType, stacksplice.ErrorInfo, stacksplice.Stack)
    gc.collect()
    return sum(isinstance(each, kinds) for each in gc.get_objects())


def call_and_fail(call, given, number):
    """The result, and whether the failure was still to come; (None, False) where it was told."""
    try:
        _testcapi.set_nomemory(number, number + 1)
        try:
            result = call(given)
            return result, is_left(number)
        finally:
            _testcapi.remove_mem_hooks()
    except MemoryError:
        pass
    except SystemError as exc:
        # CPython 3.11 and 3.12 forget to say so when a frame of Python code finds no memory.  Of a
        # function of C they say "returned NULL without setting an exception": that is not it.
        if str(exc) != "error return without exception set":
            raise
    return None, False


def run(prepare, call, check):
    """Let allocation 1, 2, ... of call(prepare()) fail until there are no more."""
    check(given := prepare(), call(given))
    del given
    before = held()
    for number in range(1, MAX_FAILURES):
        given = prepare()
        result, left = call_and_fail(call, given, number)
        if result is not None or left:
            check(given, result)
        # What failed works again.
        given = prepare()
        check(given, call(given))
        del given, result
        if left:
            break
    else:
        raise AssertionError("it never came to its end")
    assert held() <= before, f"{held() - before} objects are left"
