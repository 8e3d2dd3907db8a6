"""Errors of C and of Windows as they arrive in Python, and what error_info says of them."""

from __future__ import annotations

import copy

import pytest
import stacksplice
from raising import boom, caught
from stacksplice import winrt
from test_errors import E_FAIL, E_INVALIDARG


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
