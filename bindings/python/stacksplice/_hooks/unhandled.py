"""What is shown of an exception that nobody handled."""

from __future__ import annotations

import sys

from .. import _stacksplice
from .._errors.live import text_of
from .._errors.report import style_of, write
from . import storms
from .lock import add_finder, lock, remove_finder

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
    a border: to sys.stderr, to OTHER_FILE where there is none.  One that is counted is told later.
    False: it is still to be shown.
    """
    has_more = _stacksplice._crossed(exc)  # offering gives any exception an error object
    if _stacksplice._offer_unhandled(exc):
        return True
    if storms.is_counted(exc):
        return True
    file = getattr(sys, "stderr", None) or other_file
    if not has_more or file is None:
        return False
    _write_now(file, (header() if header else "") + text_of(exc, True, None, **style_of(file)))
    return True


def unhandled_record(record: logging.LogRecord) -> bool:
    """A filter for loggers that tell of exceptions which nobody handled: False drops the record."""
    exc = record.exc_info[1] if record.exc_info else None
    if exc is None or record.levelno < 40:  # logging.ERROR
        return True
    try:
        has_more = _stacksplice._crossed(exc)
        if _stacksplice._offer_unhandled(exc) or storms.is_counted(exc, record.name):
            return False
        if has_more:  # formatters show this text instead of their own
            record.exc_text = text_of(exc).rstrip("\n")
    except Exception as failure:
        tell_failure(failure)
    return True


# Each is named as its module, which imports logging.
_LOGGERS = ("asyncio", "concurrent.futures")


class _Finder:
    """Stands first in sys.meta_path until one of these modules is imported: other programs may not need
    logging, and it takes longer than all of ours."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in _LOGGERS:
            _filter()


_finder = _Finder()


def _filter() -> None:
    import logging

    remove_finder(_finder)
    for logger in [logging.getLogger(name) for name in _LOGGERS]:
        with lock:
            logger.addFilter(unhandled_record)  # once, however often


def begin_in_logs() -> None:
    """Have combined reports in the records of these loggers."""
    add_finder(_finder)  # before the question: another thread may import one in between
    if any([name in sys.modules for name in _LOGGERS]):
        _filter()


def end_in_logs() -> None:
    """Put nothing into records any more."""
    remove_finder(_finder)
    if "logging" in sys.modules:
        import logging

        for logger in [logging.getLogger(name) for name in _LOGGERS]:
            with lock:
                logger.removeFilter(unhandled_record)


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
