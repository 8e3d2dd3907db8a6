"""Every entry point under one failed allocation: a MemoryError or the whole result, and no trace of it."""

from __future__ import annotations

import functools
import subprocess
import sys

import pytest

pytest.importorskip("_testcapi", reason="this Python has no _testcapi, whose set_nomemory() is used")

BEGIN = """
import io, logging, pickle, sys, traceback
import border, stacksplice, stacksplice.logging, stacksplice.winrt as winrt
from stacksplice import _stacksplice
from failing_memory import run

E_INVALIDARG = 0x80070057

def fails():
    raise ValueError("born")

def caught(function, *arguments):
    try:
        function(*arguments)
    except BaseException as exc:
        return exc
    raise AssertionError("no error")

def plain():
    return caught(fails)

def rich():
    exc = caught(fails)
    exc.__cause__ = ExceptionGroup("group", [KeyError("member"), OSError(2, "two")])
    exc.__cause__.add_note("of the group")
    exc.add_note("of the error")
    return exc

def known():
    exc = rich()
    stacksplice.originate(exc)
    stacksplice.take_error()
    return exc

def with_locals():
    _stacksplice._show_locals(True)
    exc = caught(lambda amount, names: 1 / amount, 0, {"key": [1.5, "x" * 300, b"x" * 300, {1}, 1 << 99]})
    stacksplice.originate(exc)
    stacksplice.take_error()
    return exc

def shows_locals(exc, entries):
    assert [name for name, _ in entries[-1][2]] == ["amount", "names"], entries

def info_of():
    return stacksplice.error_info(known())

def table():
    made = _stacksplice._new_counts(60000), rich(), []
    assert [_stacksplice._count(made[0], made[1]) for _ in range(3)] == [False, True, True]
    return made

def count_again(made):
    return [_stacksplice._count(made[0], made[1]) for _ in range(2)]

def tell(made):
    _stacksplice._tell_counts(made[0], True, made[2].append)
    return []

def tells_all(made, answers):
    tell(made)
    counts = [int(line.partition('"count":')[2].partition(",")[0]) for line in made[2]]
    assert sum(counts) == 2 + sum(answers), (made[2], answers)

def script_names(stack):
    return [frame.function for frame in stack if frame.kind == "script"]

def is_whole(exc, info):
    assert info is not None and info == stacksplice.error_info(exc), info
    assert (info.type, info.message) == ("ValueError", "born")
    assert script_names(info.stack)[0] == "fails"
    winrt.RoClearError()

def is_rich(exc, info):
    is_whole(exc, info)
    assert info.notes == ["of the error"]
    assert [member.type for member in info.cause.exceptions] == ["KeyError", "FileNotFoundError"]
    assert info.cause.notes == ["of the group"]

def equals(expected):
    def check(given, result):
        assert result == expected, result
    return check

def in_slot(hresult=E_INVALIDARG, message="native"):
    winrt.RoOriginateError(hresult, message)

def nothing():
    return None

def take(unused):
    return stacksplice.take_error()

def has_message(unused, info):
    assert info.message == "native", info

def raised(expected):
    def check(given, exc):
        assert isinstance(exc, expected), exc
        winrt.RoClearError()
    return check

def told(*words):
    def check(given, text):
        text = "".join(text)
        for word in words:
            assert word in text, text
    return check

"""

WORDS = "'ValueError: born', 'FileNotFoundError', 'of the group', 'fails'"

# name: (what is given, the call, what holds of the given and the result)
ROWS = {
    "capture": ("nothing", "lambda _: stacksplice.capture()", "lambda _, stack: script_names(stack)"),
    "resolve": (
        "lambda: [frame.address for frame in stacksplice.capture()]",
        "lambda addresses: list(map(_stacksplice.resolve, addresses))",
        "lambda addresses, found: all(found) and len(found) == len(addresses) or 1 / 0",
    ),
    "originate": ("plain", "stacksplice.originate", "is_whole"),
    "originate all": ("rich", "stacksplice.originate", "is_rich"),
    "originate again": ("known", "stacksplice.originate", "is_rich"),
    "originate a MemoryError": (
        "lambda: MemoryError('mine')",
        "stacksplice.originate",
        "lambda exc, info: (info.message, winrt.RoClearError()) == ('mine', None) or 1 / 0",
    ),
    "count": (
        "lambda: [_stacksplice._new_counts(60000), plain()]",
        "lambda made: _stacksplice._count(*made)",
        "lambda made, answer: answer is False or 1 / 0",
    ),
    "count again": ("table", "count_again", "tells_all"),
    "tell counts": ("table", "tell", "tells_all"),
    "propagate": ("known", "stacksplice.propagate", "is_rich"),
    "error_info": ("known", "stacksplice.error_info", "is_rich"),
    "border.originate": (
        "rich",
        "border.originate",
        "lambda exc, hr: hr & 0xFFFFFFFF == 0x8007000E and winrt.RoClearError() is None"
        " or is_rich(exc, stacksplice.error_info(exc))",
    ),
    "peek_error": ("in_slot", "lambda _: stacksplice.peek_error()", "has_message"),
    "take_error": ("in_slot", "take", "lambda _, info: info is None or has_message(_, info)"),
    "raise_error": (
        "lambda: in_slot()",
        "lambda _: caught(stacksplice.raise_error, E_INVALIDARG)",
        "raised((stacksplice.HResultError, MemoryError))",
    ),
    "raise_error of our own": (
        "lambda: stacksplice.originate(plain()).hresult",
        "lambda hr: caught(stacksplice.raise_error, hr)",
        "raised((ValueError, MemoryError))",
    ),
    "a border with frames of C": (
        "nothing",
        "lambda _: caught(border.call, fails)",
        "raised((ValueError, MemoryError, stacksplice.HResultError))",
    ),
    "HResultError": (
        "nothing",
        "lambda _: str(stacksplice.HResultError(E_INVALIDARG, 'text'))",
        "equals('text')",
    ),
    "hresult_of": ("plain", "_stacksplice.hresult_of", "equals(E_INVALIDARG - (1 << 32))"),
    "exception_for": (
        "nothing",
        "lambda _: repr(_stacksplice.exception_for(E_INVALIDARG, 'text'))",
        "lambda _, text: 'text' in text or 1 / 0",
    ),
    "format_exception": ("known", "stacksplice.format_exception", f"told({WORDS})"),
    "str": ("info_of", "str", f"told({WORDS})"),
    "to_json": ("info_of", "lambda info: info.to_json()", "told('ValueError', 'of the group', 'fails')"),
    "format_exception with locals": (
        "with_locals",
        "stacksplice.format_exception",
        "told('ZeroDivisionError', '<lambda>')",
    ),
    "to_json with locals": (
        "with_locals",
        "lambda exc: stacksplice.error_info(exc).to_json()",
        "told('ZeroDivisionError', '<lambda>')",
    ),
    "variables": ("with_locals", "lambda exc: _stacksplice._places(exc.__traceback__)", "shows_locals"),
    "fingerprint": (
        "info_of",
        "lambda info: info.fingerprint",
        "lambda info, text: len(text) == 32 or 1 / 0",
    ),
    "print_exception": (
        "known",
        "lambda exc: (file := io.StringIO(), stacksplice.print_exception(exc, file=file))[0].getvalue()",
        f"told({WORDS})",
    ),
    "logging": (
        "lambda: logging.makeLogRecord({'exc_info': (lambda e: (type(e), e, None))(known())})",
        "stacksplice.logging.Formatter().format",
        f"told({WORDS})",
    ),
    "install": (
        "nothing",
        "lambda _: (stacksplice.install(), stacksplice.uninstall())",
        "lambda _, done: (stacksplice.uninstall(), sys.excepthook is sys.__excepthook__)[1] or 1 / 0",
    ),
    "saved_error": ("in_slot", "pass_saved", "lambda _, done: has_message(_, stacksplice.take_error())"),
    "pickle": ("known", "pickle.dumps", "lambda exc, data: str(pickle.loads(data)) == 'born' or 1 / 0"),
    "unpickle": (
        "lambda: pickle.dumps(known())",
        "lambda data: stacksplice.error_info(pickle.loads(data))",
        "lambda data, info: (info.type, info.message) == ('ValueError', 'born') or 1 / 0",
    ),
    "RoOriginateError": (
        "nothing",
        "lambda _: winrt.RoOriginateError(E_INVALIDARG, 'native')",
        "lambda _, done: has_message(_, stacksplice.take_error())",
    ),
    "GetRestrictedErrorInfo": (
        "in_slot",
        "lambda _: winrt.GetRestrictedErrorInfo()",
        "lambda _, info: info is None or has_message(_, info)",
    ),
    "RtlCaptureStackBackTrace": (
        "nothing",
        "lambda _: winrt.RtlCaptureStackBackTrace(0, 8)",
        "lambda _, found: found or 1 / 0",
    ),
} | {
    f"info.{name}": (
        "info_of",
        f"lambda info: info.{name}",
        f"lambda info, found: found == info.{name} or 1 / 0",
    )
    for name in (
        "hresult description message type language reference thread_id stack propagation cause context"
        " exceptions notes language_exception causes_left_out exceptions_left_out"
    ).split()
}

END = """
def pass_saved(_):
    with stacksplice.saved_error():
        winrt.RoOriginateError(E_INVALIDARG, "of the block")
"""


# They read JSON in Python, whose scanner crashes in a dict of its own after one failure.
NOT_FROM_3_12 = {"pickle", "unpickle", "info.causes_left_out"}

# They have Python's traceback module write Python's lines.
BY_TRACEBACK = {"format_exception", "format_exception with locals", "str", "print_exception", "logging"}

TRACEBACK_ALONE = """
import _testcapi, traceback

def fails(a, b):
    return (a[0] + b["x"]) / 0

try:
    fails([1], {"x": 1})
except ZeroDivisionError as exc:
    shown = exc
for number in range(1, 1000):
    try:
        _testcapi.set_nomemory(number, number + 1)
        try:
            "".join(traceback.TracebackException.from_exception(shown, compact=True).format())
        finally:
            _testcapi.remove_mem_hooks()
    except (MemoryError, SystemError):
        pass
"""


@functools.cache
def traceback_survives():
    """Whether this CPython's traceback module lives through a failed allocation, with no stacksplice."""
    return subprocess.run([sys.executable, "-c", TRACEBACK_ALONE], stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("name", ROWS)
def test_each_allocation_fails_in_turn(child, name):
    if name in NOT_FROM_3_12 and sys.version_info >= (3, 12):
        pytest.skip("CPython's json crashes without memory since 3.12")
    if name in BY_TRACEBACK and not traceback_survives():
        pytest.skip("the traceback module of this CPython crashes without memory, with no stacksplice")
    prepare, call, check = ROWS[name]
    child(f"{BEGIN}{END}run({prepare}, {call}, {check})")
