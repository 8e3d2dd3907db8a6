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


def test_every_row_of_the_table_is_tested():
    classes, _, _ = _stacksplice.exception_table()
    tested = {type(row[0]): row[1] for row in ROWS}
    assert classes and all(tested.get(cls) == code for cls, code in classes)


def test_every_builtin_exception_has_an_answer():
    for name in dir(builtins):
        cls = getattr(builtins, name)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            group = issubclass(cls, BaseExceptionGroup)
            exc = cls("x", [ValueError()]) if group else cls.__new__(cls)
            assert _stacksplice.hresult_of(exc) < 0, name


def test_errno_table():
    _, out, back = _stacksplice.exception_table()
    assert len(out) >= 40 and len(back) >= len(out)
    own_class = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EEXIST, errno.ETIMEDOUT}
    for number, code in out:
        if number not in own_class:
            assert _stacksplice.hresult_of(OSError(number, "x")) == signed(code), errno.errorcode[number]
    # Back: the code's own errno, with the class that OSError chooses for it.
    own_row = {0x8007000E, 0x80070057}  # MemoryError and ValueError
    for number, code in back:
        made = _stacksplice.exception_for(code, "m")
        assert isinstance(made, OSError) != (code in own_row), hex(code)
        if code not in own_row:
            assert made.errno == number
            assert isinstance(made, type(OSError(number, "m")))


def test_errno_without_a_twin():
    _, out, _ = _stacksplice.exception_table()
    number = next(n for n in sorted(errno.errorcode) if n not in {row[0] for row in out})
    assert _stacksplice.hresult_of(OSError(number, "x")) == signed(0xA0530000 + number)
    made = _stacksplice.exception_for(0xA0530000 + number, "m")
    assert isinstance(made, OSError) and made.errno == number


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
