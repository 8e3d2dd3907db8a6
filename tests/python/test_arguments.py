"""Bad arguments: the error names the argument, and nothing has changed."""

from __future__ import annotations

import sys

import pytest
import stacksplice
from stacksplice import _stacksplice, winrt

NOT_AN_EXCEPTION = [None, 5, "text", ValueError, object()]


@pytest.fixture(autouse=True)
def slot_stays():
    stacksplice.originate(KeyError("in the slot"))
    before = stacksplice.peek_error()
    flags = winrt.RoGetErrorReportingFlags()
    yield
    assert stacksplice.peek_error() == before
    assert winrt.RoGetErrorReportingFlags() == flags
    winrt.RoClearError()


@pytest.mark.parametrize("value", NOT_AN_EXCEPTION)
@pytest.mark.parametrize(
    "function",
    [
        stacksplice.error_info,
        stacksplice.originate,
        stacksplice.propagate,
        stacksplice.fail_fast,
        stacksplice.report_unhandled,
        stacksplice.format_exception,
        stacksplice.print_exception,
        _stacksplice.hresult_of,
    ],
)
def test_not_an_exception(function, value):
    with pytest.raises(TypeError, match="exc"):
        function(value)


@pytest.mark.parametrize(
    "function",
    [
        stacksplice.raise_error,
        _stacksplice.exception_for,
        winrt.RoOriginateError,
        winrt.RoGetMatchingRestrictedErrorInfo,
        winrt.RoCaptureErrorContext,
        winrt.RoFailFastWithErrorContext,
        lambda value: winrt.RoOriginateLanguageException(value, None),
        lambda value: winrt.RoTransformError(value, -1),
        lambda value: winrt.RoTransformError(-1, value),
    ],
)
def test_not_an_hresult(function):
    for value in (None, "text", 1.5):
        with pytest.raises(TypeError, match="hresult|error"):
            function(value)
    for value in (1 << 32, -(1 << 31) - 1, 1 << 100):
        with pytest.raises(OverflowError, match="hresult|error"):
            function(value)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and newer have it")
def test_captures_at_the_raise_before_3_12():
    hook = sys.excepthook
    with pytest.raises(NotImplementedError, match=r"3\.12 or newer\), but this is Python 3\.11\."):
        stacksplice.install(capture_at_raise=True)
    assert sys.excepthook is hook


def test_success_codes():
    for number in (0, 1):
        with pytest.raises(ValueError, match=f"hresult must be a failure code, got {number}"):
            stacksplice.raise_error(number)
    with pytest.raises(ValueError, match="hresult"):
        _stacksplice.exception_for(1)
    assert winrt.RoOriginateError(0, "x") is False
    with pytest.raises(ValueError, match="hresult"):
        winrt.RoGetMatchingRestrictedErrorInfo(0)


@pytest.mark.parametrize("name", ["skip", "limit"])
def test_capture(name):
    with pytest.raises(ValueError, match=name):
        stacksplice.capture(**{name: -1})
    with pytest.raises(ValueError, match=name):
        stacksplice.capture(**{name: -(1 << 100)})
    with pytest.raises(TypeError, match=name):
        stacksplice.capture(**{name: "text"})
    stacksplice.capture(**{name: 1 << 100})


def test_messages_and_exceptions_of_winrt():
    with pytest.raises(TypeError, match="message"):
        winrt.RoOriginateError(-1, 5)
    with pytest.raises(TypeError, match="message"):
        winrt.RoTransformError(-1, -2, b"x")
    with pytest.raises(TypeError, match="language_exception"):
        winrt.RoOriginateLanguageException(-1, "x", "no exception")
    with pytest.raises(TypeError, match="error"):
        winrt.SetRestrictedErrorInfo("text")
    with pytest.raises(TypeError, match="error"):
        winrt.RoReportUnhandledError(None)
    with pytest.raises(TypeError, match="reference"):
        winrt.RoResolveRestrictedErrorInfoReference(5)


def test_flags():
    for value in (0x10, -1, 1 << 40):
        with pytest.raises(ValueError, match="flags"):
            winrt.RoSetErrorReportingFlags(value)
    with pytest.raises(TypeError, match="flags"):
        winrt.RoSetErrorReportingFlags("x")


def test_classes():
    with pytest.raises(TypeError, match="ErrorInfo"):
        stacksplice.ErrorInfo()
    with pytest.raises(ValueError, match="data"):
        stacksplice.ErrorInfo.from_dict({})
    with pytest.raises(ValueError, match="order"):
        stacksplice.capture().format("sideways")
    with pytest.raises(TypeError):
        _stacksplice.ErrorHandle()


def test_raise_of_a_success_code_in_c(border):
    with pytest.raises(SystemError, match="failure code"):
        border.raise_error(0)


def test_public_names():
    for name in stacksplice.__all__:
        value = getattr(stacksplice, name)
        assert name == "__version__" or value.__doc__, name
    for name in winrt.__all__:
        value = getattr(winrt, name)
        assert isinstance(value, int) or value.__doc__, name
