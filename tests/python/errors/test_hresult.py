"""The table of exceptions and HRESULTs, both columns, against the documented rows."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import errno

import pytest
import stacksplice
from stacksplice import _stacksplice

E_FAIL = 0x80004005

# exception, HRESULT out, class back, errno back
ROWS = [
    (MemoryError(), 0x8007000E, MemoryError, None),
    (NotImplementedError("x"), 0x80004001, NotImplementedError, None),
    (IndexError("x"), 0x8000000B, IndexError, None),
    (KeyError("x"), 0x8000000B, IndexError, None),
    (ValueError("x"), 0x80070057, ValueError, None),
    (TypeError("x"), 0x80070057, ValueError, None),
    (UnicodeError("x"), 0x80070459, ValueError, None),
    (UnicodeDecodeError("utf-8", b"", 0, 0, "x"), 0x80070459, ValueError, None),
    (PermissionError(errno.EACCES, "x"), 0x80070005, PermissionError, errno.EACCES),
    (FileNotFoundError(errno.ENOENT, "x"), 0x80070002, FileNotFoundError, errno.ENOENT),
    (FileExistsError(errno.EEXIST, "x"), 0x80070050, FileExistsError, errno.EEXIST),
    (TimeoutError(errno.ETIMEDOUT, "x"), 0x800705B4, TimeoutError, errno.ETIMEDOUT),
    (TimeoutError(), 0x800705B4, TimeoutError, errno.ETIMEDOUT),
    (asyncio.CancelledError(), 0x800704C7, OSError, errno.ECANCELED),
    (concurrent.futures.CancelledError(), 0x800704C7, OSError, errno.ECANCELED),
    (KeyboardInterrupt(), 0x800704C7, OSError, errno.ECANCELED),
    (EOFError("x"), 0x80070026, EOFError, None),
    (OverflowError("x"), 0x80070216, OverflowError, None),
    (ZeroDivisionError("x"), 0x80020012, ZeroDivisionError, None),
    (RecursionError("x"), 0x800703E9, RecursionError, None),
    (ModuleNotFoundError("x"), 0x8007007E, ModuleNotFoundError, None),
    (AttributeError("x"), 0x80020003, AttributeError, None),
    (NameError("x"), 0x80020006, NameError, None),
    (UnboundLocalError("x"), 0x80020006, NameError, None),
    (RuntimeError("x"), E_FAIL, stacksplice.HResultError, None),
    (Exception("x"), E_FAIL, stacksplice.HResultError, None),
    (ImportError("x"), E_FAIL, stacksplice.HResultError, None),
    (SystemExit(1), E_FAIL, stacksplice.HResultError, None),
]


def signed(bits: int) -> int:
    return bits - (1 << 32) if bits & 0x80000000 else bits


@pytest.mark.parametrize("exc, out, back, number", ROWS, ids=lambda v: getattr(type(v), "__name__", v))
def test_row(border, exc, out, back, number):
    assert _stacksplice.hresult_of(exc) == signed(out)
    assert border.originate(exc) == signed(out)
    stacksplice.take_error()
    made = _stacksplice.exception_for(out, "the message")
    assert isinstance(made, back) and isinstance(made, stacksplice.HResultError)
    assert isinstance(made, Exception)
    assert str(made) == made.message == "the message"
    assert made.hresult == signed(out)
    if number is not None:
        assert (made.errno, made.strerror) == (number, "the message")


def builtin_exceptions():
    for name in dir(builtins):
        cls = getattr(builtins, name)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            yield cls


def test_every_builtin_exception_has_the_answer_of_its_nearest_row():
    tested = {type(row[0]): row[1] for row in ROWS}
    for cls in builtin_exceptions():
        group = issubclass(cls, BaseExceptionGroup)
        exc = cls("x", [ValueError()]) if group else cls.__new__(cls)
        nearest = next((tested[base] for base in cls.__mro__ if base in tested), E_FAIL)
        assert _stacksplice.hresult_of(exc) == signed(nearest), cls


def test_errno_table():
    codes = {}
    own_class = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EEXIST, errno.ETIMEDOUT}
    for number in sorted({*errno.errorcode} - own_class):
        code = _stacksplice.hresult_of(OSError(number, "x")) & 0xFFFFFFFF
        if code >> 16 == 0x8007:
            codes[code] = number
        else:  # Windows has no such number
            assert code == 0xA0530000 + number, errno.errorcode[number]
        made = _stacksplice.exception_for(code, "m")
        if code not in (0x8007000E, 0x80070057):  # MemoryError and ValueError have these
            assert isinstance(made, type(OSError(made.errno, "m"))), hex(code)
            assert code in codes or made.errno == number
    assert len(codes) >= 35
    # Back: numbers of Windows, of which several may mean one of errno.
    back = [_stacksplice.exception_for(0x80070000 | code, "m") for code in range(1, 0x10000)]
    assert sum(isinstance(made, OSError) for made in back) >= len(codes)
    for made in back:
        if isinstance(made, OSError):
            assert made.errno and isinstance(made, type(OSError(made.errno, "m"))), hex(made.hresult)


def test_own_hresult_attribute():
    class Own(Exception):
        hresult = 0x80041234

    class Signed(Own):
        hresult = -2147220940

    class Wrong(Exception):
        hresult = "text"

    class Success(Exception):
        hresult = 0

    class Huge(Exception):
        hresult = 1 << 80

    class Raises(Exception):
        @property
        def hresult(self):
            raise RuntimeError

    assert _stacksplice.hresult_of(Own()) == signed(0x80041234)
    assert _stacksplice.hresult_of(Signed()) == -2147220940
    for cls in (Wrong, Success, Huge, Raises):
        assert _stacksplice.hresult_of(cls()) == signed(E_FAIL)


def test_winerror_of_an_os_error():
    class Windows(OSError):
        winerror = 0

    exc = Windows("x")
    exc.winerror = 32
    assert _stacksplice.hresult_of(exc) == signed(0x80070020)
    exc.winerror = -2147024809
    assert _stacksplice.hresult_of(exc) == -2147024809


def test_most_derived_class_wins():
    class Mine(KeyError):
        pass

    class Both(ZeroDivisionError, ValueError):
        pass

    assert _stacksplice.hresult_of(Mine()) == signed(0x8000000B)
    assert _stacksplice.hresult_of(Both()) == signed(0x80020012)


def test_hresult_error_can_be_raised_by_hand():
    exc = stacksplice.HResultError(0x80041234, "by hand")
    assert (exc.hresult, exc.message, str(exc)) == (signed(0x80041234), "by hand", "by hand")
    assert _stacksplice.hresult_of(exc) == signed(0x80041234)
    assert stacksplice.HResultError().hresult == signed(E_FAIL)
    with pytest.raises(ValueError, match="hresult"):
        stacksplice.HResultError(0, "fine")
    with pytest.raises(TypeError, match="hresult"):
        stacksplice.HResultError("text")
    with pytest.raises(OverflowError, match="hresult"):
        stacksplice.HResultError(1 << 40)
