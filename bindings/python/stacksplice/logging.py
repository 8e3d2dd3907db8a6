"""Combined reports in logs: a formatter, a mixin for anybody's formatter, and a filter.

    handler.setFormatter(stacksplice.logging.Formatter("%(levelname)s %(message)s"))

Then ``logger.exception(...)`` shows the combined report of an exception that crossed a border, and
what it showed before of any other.  Where formatters cannot be chosen, or write JSON, the filter
does it from outside:

    handler.addFilter(stacksplice.logging.Filter())
"""

from __future__ import annotations

import logging

from ._live import story_of
from ._unhandled import log_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, TypeAlias

    _ExcInfo: TypeAlias = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

__all__ = ["Filter", "Formatter", "FormatterMixin"]


def _exception_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


class FormatterMixin:
    """For a formatter of any kind: ``class Mine(FormatterMixin, TheirFormatter): pass``.

    The text is left in the record's ``exc_text``, as formatters do, so that it is made once and goes
    where the exception cannot: into a pickled record and through a queue.
    """

    def format(self, record: logging.LogRecord) -> str:
        exc = _exception_of(record)
        text = log_text(exc) if exc is not None else None
        if text is not None:
            record.exc_text = text  # another formatter may have left the plain traceback there
        return super().format(record)  # type: ignore[misc, no-any-return]

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 (the name is logging's)
        text = log_text(ei[1]) if ei[1] is not None else None
        if text is not None:
            return text
        return super().formatException(ei)  # type: ignore[misc, no-any-return]


class Formatter(FormatterMixin, logging.Formatter):
    """A ``logging.Formatter`` that shows combined reports."""


class Filter(logging.Filter):
    """For a handler or a logger: gives each record of an exception that crossed a border

    - ``exc_text``, the combined report, which formatters show in place of the traceback;
    - ``stacksplice``, the same as plain values (``ErrorInfo.to_dict()``), for structured logs.

    Both are text and plain values: they stay when the record is pickled or goes through a queue.
    With a name it lets pass only the records of that logger and those below it, as any filter.
    """

    def filter(self, record: logging.LogRecord) -> Any:
        """What ``logging.Filter.filter`` answers for the name."""
        exc = _exception_of(record)
        if exc is not None and "stacksplice" not in record.__dict__:
            info = story_of(exc)
            if info is not None:
                record.stacksplice = info.to_dict()
                record.exc_text = log_text(exc)
        return super().filter(record)
