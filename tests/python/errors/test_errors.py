"""Errors that leave Python and come back: identity, stack, chain, cause, values."""

from __future__ import annotations

import copy
import pickle

import pytest
import stacksplice
from raising import boom, caught
from stacksplice import winrt

E_FAIL = -2147467259
E_INVALIDARG = -2147024809


class Slotted(Exception):
    __slots__ = ("code",)


class Frozen(Exception):
    def __setattr__(self, name, value):
        raise AttributeError("frozen")


class Unprintable(ValueError):
    def __str__(self):
        raise RuntimeError("no")


VALUES = [
    ValueError("plain"),
    ValueError(),
    ValueError("größe 日本 𝔘"),
    ValueError("lone \ud800 surrogate"),
    ValueError("a\0b"),
    ValueError("long " * 1000),
    Slotted("slots"),
    Frozen("frozen"),
    Unprintable("x"),
    KeyError("key"),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    StopIteration(5),
    ExceptionGroup("group", [ValueError("in")]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    OSError(2, "missing", "/x"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_the_same_object_comes_back(border, value):
    exc = caught(border.call, boom, value)
    assert exc is value
    assert exc.__cause__ is None and exc.__context__ is None
    info = stacksplice.error_info(exc)
    assert info is not None and info.language_exception is exc
    assert info.hresult < 0
    assert stacksplice.peek_error() is None
    # Once more: the same error, one node further.
    again = caught(border.call, boom, exc)
    assert again is value and stacksplice.error_info(again) == info
    assert len(info.propagation) == 2


def test_message_of_the_values(border):
    def message(value):
        return stacksplice.error_info(caught(border.call, boom, value)).message

    assert message(ValueError("größe 日本 𝔘")) == "größe 日本 𝔘"
    assert message(ValueError("lone \ud800 surrogate")) == "lone \ud800 surrogate"
    assert message(ValueError("a\0b")) == "a\0b"
    assert message(ValueError("x" * 5000)) == "x" * 5000
    assert message(Unprintable("x")) == "<unprintable Unprintable object>"
    assert message(ValueError()) == ""


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_pickle_and_copy_still_work(border, value):
    exc = caught(border.call, boom, value)
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    copies = [pickle.loads(pickle.dumps(exc, protocol)) for protocol in protocols]
    copies += [copy.copy(exc), copy.deepcopy(exc)]
    for made in copies:
        assert type(made) is type(exc)
        assert made.args == exc.args or isinstance(value, ExceptionGroup)
    # Not one that its own __setattr__ would refuse.
    arrived = [stacksplice.error_info(made) for made in copies[:-2] if not isinstance(value, Frozen)]
    message = stacksplice.error_info(exc).to_dict()["message"]  # valid UTF-8
    assert all(info.message == message for info in arrived)
    own = [stacksplice._stacksplice._own_info(made) for made in copies[-2:]]
    assert own == [None, None]
    described = [stacksplice.error_info(made) for made in copies[-2:]]
    assert described[1] is None  # a shallow copy of a group has the same members
    assert described[0] is None or described[0].exceptions[0] == stacksplice.error_info(exc.exceptions[0])
    # A copy's own way is its own.
    other = copies[-2]
    assert caught(border.call, boom, other) is other
    assert stacksplice.error_info(other) != stacksplice.error_info(exc)


# ---- Stacks --------------------------------------------------------------------------------------


def names(stack):
    return [f.function.rpartition(".")[2] for f in stack if f.language == "python" and f.function]


def test_an_exception_that_was_never_raised_has_the_live_stack():
    def here():
        return stacksplice.originate(ValueError("never raised"))

    stack = here().stack
    assert names(stack)[0] == "here"
    assert not [f for f in stack if f.kind == "gap"]


# ---- Chain and cause -----------------------------------------------------------------------------


def test_cause_leaves_the_slot_alone(border):
    exc = RuntimeError("second")
    exc.__cause__ = ValueError("first")
    stacksplice.originate(KeyError("in flight"))
    border.hold(exc)
    assert stacksplice.peek_error().type == "KeyError"


# ---- Language exceptions as COM objects ----------------------------------------------------------


def test_language_exception_interfaces(border):
    exc = caught(boom, ValueError("plain"))
    unknown, agile, trace, transform, cause, same, interrupt, back, *stacks = border.examine(exc)
    assert (unknown, agile, trace, transform, cause, same, interrupt) == (1, 1, 1, 0, 0, 1, 0)
    assert back is exc
    assert [len(stack) for stack in stacks[:3]] == [0, 1, 8]
    whole = stacks[3]
    assert 8 < len(whole) <= 1000
    assert stacks[2][:4] + stacks[2][5:] == whole[:4] + whole[-3:]
    for stack, shown in (stacks[1], 0), (stacks[2], 7):  # both ends, and a gap that says what is not there
        assert stacksplice.Stack(stack).frames_left_out == len(whole) - shown
    assert names(stacksplice.Stack(stacks[3]))[0] == "boom"

    exc.__cause__ = KeyError("why")
    with_cause = RuntimeError("second")
    with_cause.__cause__ = exc
    assert border.examine(with_cause)[3:5] == (1, 1)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_only_interrupts_say_that_they_are(border, value):
    assert border.examine(value)[6] == (not isinstance(value, Exception))


def test_language_exception_given_to_the_windows_function():
    exc = ValueError("mine")
    assert winrt.RoOriginateLanguageException(E_FAIL, "another message", exc)
    info = stacksplice.peek_error()
    assert info.hresult == E_FAIL and info.language_exception is exc
    assert caught(stacksplice.raise_error, E_FAIL) is exc
    assert stacksplice.error_info(exc) == info


def test_bad_arguments_of_c_functions(border):
    E_POINTER, E_UNEXPECTED = -2147467261, -2147418113
    no_exception, no_out, none, nothing, untouched, is_object = border.refuse()
    assert (no_exception, no_out, none) == (E_POINTER, E_POINTER, E_INVALIDARG)
    assert nothing == E_UNEXPECTED  # said by an error of its own
    assert untouched == 1 and is_object is False
    assert stacksplice.take_error().message == "no Python exception is set"


# ---- Errors of C and of Windows as they arrive ---------------------------------------------------


def test_native_error_arrives_as_hresult_error(border):
    exc = caught(border.fail, 0x80070057, "native says no")
    assert isinstance(exc, ValueError) and isinstance(exc, stacksplice.HResultError)
    assert str(exc) == exc.message == "native says no" and exc.hresult == E_INVALIDARG
    info = stacksplice.error_info(exc)
    assert info.language == "native" and info.type is None and info.language_exception is None
    assert len(info.propagation) == 1
    # On its way out it is the same error, and it comes back as the same exception.
    assert border.originate(exc) == E_INVALIDARG
    assert stacksplice.peek_error() == info
    assert caught(border.raise_error, E_INVALIDARG) is exc
    assert len(info.propagation) == 2


def test_one_exception_for_one_error(border):
    winrt.RoOriginateError(E_FAIL, "shared")
    info = stacksplice.peek_error()
    first = caught(border.raise_error, E_FAIL)
    winrt.SetRestrictedErrorInfo(info)
    assert caught(border.raise_error, E_FAIL) is first
    del first
    winrt.SetRestrictedErrorInfo(info)
    assert str(caught(border.raise_error, E_FAIL)) == "shared"


def test_propagate_adds_a_node():
    exc = ValueError("x")
    info = stacksplice.propagate(exc)  # none yet: originated
    assert info.propagation == [] and stacksplice.take_error() == info
    stacksplice.propagate(exc)
    assert len(info.propagation) == 1 and stacksplice.take_error() == info


def test_origination_switched_off(border):
    flags = winrt.RoGetErrorReportingFlags()
    winrt.RoSetErrorReportingFlags(winrt.RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)
    try:
        exc = ValueError("quiet")
        assert stacksplice.originate(exc) is None
        assert border.originate(exc) == E_INVALIDARG
        assert stacksplice.peek_error() is None
        assert isinstance(caught(border.raise_error, E_INVALIDARG), ValueError)
    finally:
        winrt.RoSetErrorReportingFlags(flags)


def test_reference_resolves_while_the_error_lives(border):
    exc = caught(border.call, boom, ValueError("x"))
    info = stacksplice.error_info(exc)
    stacksplice.originate(exc)
    assert winrt.RoResolveRestrictedErrorInfoReference(info.reference) == info
    with pytest.raises(ValueError, match="reference"):
        winrt.RoResolveRestrictedErrorInfoReference("nothing")


def test_a_captured_context_is_a_node_of_python_s(border):
    assert winrt.RoOriginateError(E_FAIL, "here")
    assert winrt.RoCaptureErrorContext(E_FAIL) == 0
    info = stacksplice.take_error()
    assert [node.language for node in info.propagation] == ["python"]
    assert winrt.RoCaptureErrorContext(E_FAIL) == 0 and not stacksplice.take_error().propagation
    assert winrt.RoCaptureErrorContext(0) == 0 and stacksplice.peek_error() is None


def test_hresult_error_that_is_originated_by_hand(border):
    """A foreign exception that C makes the language exception of another error."""
    exc = caught(border.fail, 0x80070057, "first")
    assert winrt.RoOriginateLanguageException(E_FAIL, "second", exc)
    assert caught(border.raise_error, E_FAIL) is exc
    assert stacksplice.error_info(exc).hresult == E_FAIL
    for _ in range(100):  # a new error may get the old one's address
        other = caught(border.fail, 0x80070057, "other")
        assert other is not exc and str(other) == "other"


def test_copy_of_a_foreign_exception_that_outlives_it(border):
    winrt.RoOriginateError(E_FAIL, "shared")
    info = stacksplice.peek_error()
    first = caught(border.raise_error, E_FAIL)
    other = copy.copy(first)
    del first
    winrt.SetRestrictedErrorInfo(info)
    second = caught(border.raise_error, E_FAIL)
    assert second is not other and str(second) == "shared"
    del other
    winrt.SetRestrictedErrorInfo(info)
    assert caught(border.raise_error, E_FAIL) is second
