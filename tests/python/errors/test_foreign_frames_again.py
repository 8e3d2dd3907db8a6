"""Frames of Lua and native code in tracebacks of exceptions that are raised again, or leave again."""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
import traceback

import pytest
import stacksplice
from foreign import E_FAIL, LUA_IN, LUA_OUT, entries, fail, foreign, here
from gap_reasons import RETURNED
from raising import caught
from stacksplice import winrt


def test_raised_again_in_python(price):
    once = [*LUA_OUT, *LUA_IN]

    def bare():
        try:
            price(fail)
        except ValueError:
            raise

    def by_name():
        try:
            price(fail)
        except ValueError as exc:
            raise exc

    def without():
        try:
            price(fail)
        except ValueError as exc:
            raise exc.with_traceback(None)

    def wrapped():
        try:
            price(fail)
        except ValueError as exc:
            raise KeyError("other") from exc

    assert foreign(caught(bare)) == once
    assert foreign(caught(by_name)) == once
    assert foreign(caught(without)) == []
    other = caught(wrapped)
    assert foreign(other) == [] and foreign(other.__cause__) == once
    assert foreign(caught(price, lambda *_: bare())).count(LUA_OUT[3]) == 2


def test_raised_again_where_it_was_caught(price):
    def catches():
        try:
            price(fail)
        except ValueError as exc:
            stacksplice.originate(exc)
            stacksplice.raise_error(stacksplice.error_info(exc).hresult)

    assert foreign(caught(catches)) == [*LUA_OUT, *LUA_IN]


def test_calls_from_one_place_stay_apart(crossing):
    """Their entries share a frame object, and each counts as a frame when they are originated again."""
    exc = caught(crossing.run, "local p = require('pricing').deep(9) return p")
    names = [name for _, name in foreign(exc)]
    assert names.count("deep") > 5
    again = ValueError("again").with_traceback(exc.__traceback__)
    stack = stacksplice.originate(again).stack
    assert [f.function for f in stack].count("deep") == names.count("deep")


def test_raised_later_from_elsewhere(crossing, price):
    """The stack of its origin tells nothing of the second way: a gap, and no line of the first."""
    kept = caught(price, fail)
    kept.__traceback__ = None

    def other(*_):
        raise kept

    exc = caught(crossing.run, "local x = 1\nlocal p = py(...) return p", other)
    assert exc is kept
    shown = foreign(exc)
    assert ("pricing.lua", "price") not in shown
    lines = [entry.lineno for entry in traceback.extract_tb(exc.__traceback__) if entry.name == "main chunk"]
    assert lines == [2]


def test_the_same_error_object_again(border):
    first = caught(border.fail, 0x80004005, "native")
    info = stacksplice.error_info(first)
    winrt.SetRestrictedErrorInfo(info)
    again = caught(border.raise_error, E_FAIL)
    assert again is first and entries(again).count(("border.c", "fail")) == 1


def test_a_copy_has_none(price):
    exc = caught(price, fail)
    assert copy.copy(exc).__traceback__ is None
    assert pickle.loads(pickle.dumps(exc)).__traceback__ is None


def test_the_combined_stack_has_them_once(price):
    exc = caught(price, fail)
    stack = stacksplice.error_info(exc).stack

    class Other(Exception):
        pass

    def raise_other():
        raise Other().with_traceback(exc.__traceback__)

    other = caught(raise_other)
    again = stacksplice.originate(other).stack
    inside = [f.function or f.reason for f in again[:3]]
    assert inside[0].endswith("fail") and inside[1] == RETURNED and "python" in inside[2]
    stacksplice.take_error()
    lua = [(f.function, f.line) for f in stack if f.language == "lua"]
    assert [(f.function, f.line) for f in again if f.language == "lua"] == lua
    native = [f.function for f in again if f.kind == "native"]
    assert native.count("lua_py") == native.count("run_in_lua") == 1
    assert not [f for f in again if f.language == "python" and (f.file or "").endswith((".lua", ".c"))]
    names = [f.function.rpartition(".")[2] for f in again if f.kind == "script"]
    assert names.index("fail") < names.index("price") < names.index("raise_other")


def test_reports_do_not_change(price):
    on = caught(price, fail)
    stacksplice.foreign_frames(False)
    off = caught(price, fail)
    shown = [[(f.language, f.function) for f in stacksplice.error_info(exc).stack] for exc in (on, off)]
    assert shown[0] == shown[1]


def test_a_frame_that_went_on_is_put_in_once(fail_in_lua):
    """Its later line stands beside the one at which the stack has it, whoever reads the stack again."""
    libc = ctypes.CDLL(None)
    comparison = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def sort(inner):
        kept = []

        def compare(_a, _b):
            try:
                inner()
            except Exception as exc:
                kept.append(exc)
            return 0

        libc.qsort((ctypes.c_int * 2)(2, 1), 2, 4, comparison(compare))
        raise kept[-1]

    def outer():
        sort(inner)

    def inner():
        sort(fail_in_lua)

    exc = caught(outer)
    stacks = [stacksplice.error_info(exc).stack for _ in range(3)]
    names = [frame.function.rpartition(".")[2] for frame in stacks[0] if frame.language == "python"]
    ours = [name for name in names if name in ("outer", "inner", "sort", "compare")]
    assert ours == ["compare", "sort", "sort", "inner", "compare", "sort", "sort", "outer"]
    assert [len(stack) for stack in stacks] == [len(stacks[0])] * 3


def test_without_memory_the_exception_is_as_it_was(crossing, price):
    memory = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    caught(price, fail)
    whole, bare = set(), 0
    for n in range(400):
        exc = None
        memory.set_nomemory(n, n + 1)
        try:
            price(fail)
        except (ValueError, MemoryError, stacksplice.HResultError) as failed:
            exc = failed
        finally:
            memory.remove_mem_hooks()
        assert exc is not None
        if type(exc) is ValueError:
            shown = foreign(exc)
            # All of them, or none; never an exception that lost its own entries.
            assert entries(exc)[-1] == here("fail")
            assert shown == [] or shown == [*LUA_OUT, *LUA_IN]
            bare += not shown
            whole.add(len(shown))
    assert bare > 0 and len(LUA_OUT) + len(LUA_IN) in whole


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring before 3.12")
def test_with_the_stack_of_the_raise(price, border):
    stacksplice.install(capture_at_raise=True)
    try:
        whole = [here("call_lua"), *LUA_OUT, ("crossing.c", "lua_py"), here("fail")]
        assert entries(caught(price, fail)) == whole
        assert entries(caught(border.call, fail)) == [("border.c", "call"), here("fail")]
    finally:
        stacksplice.uninstall()
