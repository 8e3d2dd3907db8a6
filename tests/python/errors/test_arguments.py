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
        _stacksplice.hresult_of,
    ],
)
def test_not_an_exception(function, value):
    with pytest.raises(TypeError, match="exc"):
        function(value)


@pytest.mark.parametrize("value", NOT_AN_EXCEPTION[1:])
@pytest.mark.parametrize("function", [stacksplice.format_exception, stacksplice.print_exception])
def test_not_an_exception_to_show(function, value):
    """None is one for the module traceback, too: test_like_traceback.py."""
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


info, capture = stacksplice.ErrorInfo, stacksplice.capture
WRONG = [
    (ValueError, "hresult must be a failure code, got 0", lambda: stacksplice.raise_error(0)),
    (ValueError, "hresult must be a failure code, got 1", lambda: stacksplice.raise_error(1)),
    (ValueError, "hresult", lambda: _stacksplice.exception_for(1)),
    (ValueError, "hresult", lambda: winrt.RoGetMatchingRestrictedErrorInfo(0)),
    (ValueError, "skip", lambda: capture(skip=-1)),
    (ValueError, "skip", lambda: capture(skip=-(1 << 100))),
    (ValueError, "limit", lambda: capture(limit=-1)),
    (ValueError, "limit", lambda: capture(limit=-(1 << 100))),
    (TypeError, "skip", lambda: capture(skip="text")),
    (TypeError, "limit", lambda: capture(limit="text")),
    (TypeError, "message", lambda: winrt.RoOriginateError(-1, 5)),
    (TypeError, "message", lambda: winrt.RoTransformError(-1, -2, b"x")),
    (TypeError, "language_exception", lambda: winrt.RoOriginateLanguageException(-1, "x", "text")),
    (TypeError, "error", lambda: winrt.SetRestrictedErrorInfo("text")),
    (TypeError, "error", lambda: winrt.RoReportUnhandledError(None)),
    (TypeError, "reference", lambda: winrt.RoResolveRestrictedErrorInfoReference(5)),
    (ValueError, "flags", lambda: winrt.RoSetErrorReportingFlags(0x10)),
    (ValueError, "flags", lambda: winrt.RoSetErrorReportingFlags(-1)),
    (ValueError, "flags", lambda: winrt.RoSetErrorReportingFlags(1 << 40)),
    (TypeError, "flags", lambda: winrt.RoSetErrorReportingFlags("x")),
    (TypeError, "ErrorInfo", info),
    (ValueError, "data", lambda: info.from_dict({})),
    (ValueError, "order", lambda: capture().format("sideways")),
    (TypeError, "ErrorHandle", _stacksplice.ErrorHandle),
]


def test_wrong_values():
    for error, match, call in WRONG:
        with pytest.raises(error, match=match):
            call()
    capture(skip=1 << 100), capture(limit=1 << 100)
    assert winrt.RoOriginateError(0, "x") is False


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
