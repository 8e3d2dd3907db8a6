"""What is shown of an exception that nobody handled."""

from __future__ import annotations

import sys

from .. import _stacksplice
from .._errors.live import log_text, text_of
from .._errors.report import style_of, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any, TextIO


def _write_now(file: TextIO, text: str) -> None:
    write(file, text)
    flush = getattr(file, "flush", None)
    if flush is not None:
        flush()


def show(
    exc: BaseException, header: Callable[[], str] | None = None, other_file: TextIO | None = None
) -> bool:
    """Report EXC, with what HEADER returns in front, as one that nobody handled.

    The handler that the host set is asked first.  What that does not handle is printed if it crossed
    a border: to sys.stderr, to OTHER_FILE where there is none.  False: it is still to be shown.
    """
    has_more = _stacksplice._crossed(exc)  # offering gives any exception an error object
    if _stacksplice._offer_unhandled(exc):
        return True
    file = getattr(sys, "stderr", None) or other_file
    if not has_more or file is None:
        return False
    _write_now(file, (header() if header else "") + text_of(exc, **style_of(file)))
    return True


def unhandled_record(record: logging.LogRecord) -> bool:
    """A filter for loggers that tell of exceptions which nobody handled: False drops the record."""
    exc = record.exc_info[1] if record.exc_info else None
    if exc is None or record.levelno < 40:  # logging.ERROR
        return True
    try:
        text = log_text(exc)
        if _stacksplice._offer_unhandled(exc):
            return False
        # Formatters show this text instead of their own.
        record.exc_text = text or record.exc_text
    except Exception as failure:
        tell_failure(failure)
    return True


def offer_after_cell(result: Any) -> None:
    """For IPython, which has shown its own traceback, with other languages' frames in it."""
    exc = result.error_before_exec or result.error_in_exec
    if exc is not None:
        _stacksplice._offer_unhandled(exc)


def tell_failure(failure: Exception) -> None:
    """Say that there is no combined report because of FAILURE, if anything can still be said."""
    try:
        if sys.stderr is not None:
            _write_now(sys.stderr, f"stacksplice: no combined report: {type(failure).__name__}: {failure}\n")
    except Exception:
        # A closed file, or the interpreter ends and modules have lost their contents.
        pass
