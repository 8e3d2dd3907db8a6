"""Combined reports in logs: a formatter, a mixin for anybody's formatter, and a filter.

    handler.setFormatter(stacksplice.logging.Formatter("%(levelname)s %(message)s"))

Then ``logger.exception(...)`` shows the combined report of an exception that crossed a border, and
what it showed before of any other.  Where formatters cannot be chosen, or write JSON, the filter
does it from outside:

    handler.addFilter(stacksplice.logging.Filter())

``JsonFormatter`` writes JSON Lines with the names of the Elastic Common Schema.
"""

from __future__ import annotations

import logging

from . import _stacksplice
from ._base.redaction import clean, text_of
from ._errors.info import ErrorInfo
from ._errors.live import Described, code_of, log_text, report_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, TypeAlias

    _ExcInfo: TypeAlias = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

__all__ = ["Filter", "Formatter", "FormatterMixin", "JsonFormatter"]

_ECS_VERSION = "8.11"
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName", "stacksplice"}


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
    - ``stacksplice``, the same as plain values (``ErrorInfo.to_dict()``), for structured logs; where the
      exception has another type or text than the error, "raised_as" in it has them.

    Both are text and plain values: they stay when the record is pickled or goes through a queue.
    With a name it lets pass only the records of that logger and those below it, as any filter.

    brief: True makes ``stacksplice`` a tenth as long, for formatters that write it as it is.  Whoever makes
    a text of it, as the formatters behind a queue, then has no lines of source.
    """

    def __init__(self, name: str = "", *, brief: bool = False) -> None:
        super().__init__(name)
        self._brief = brief

    def filter(self, record: logging.LogRecord) -> Any:
        """What ``logging.Filter.filter`` answers for the name."""
        exc = _exception_of(record)
        if exc is not None and "stacksplice" not in record.__dict__:
            info = _stacksplice.error_info(exc)
            if info is not None:
                record.stacksplice = report_of(exc, info, self._brief)
                record.exc_text = log_text(exc)
        return super().filter(record)


def _fields_of(error: BaseException | ErrorInfo, brief: bool) -> dict[str, Any]:
    """What the Elastic Common Schema has of an error, and the report of one that crossed a border."""
    told = Described(error)
    fields: dict[str, Any] = {"error.message": told.message, "error.stack_trace": told.stack_trace}
    if told.type is not None:
        fields["error.type"] = told.type
    if told.info is not None:
        fields["error.code"] = code_of(told.info)
        fields["stacksplice"] = told.info.to_dict(brief=brief)
    return fields


def _error_fields(record: logging.LogRecord, brief: bool) -> dict[str, Any]:
    exc = _exception_of(record)
    if exc is not None:
        return _fields_of(exc, brief)
    # A record that came through a queue has no exception, but what the filter kept.
    try:
        return _fields_of(ErrorInfo.from_dict(record.__dict__["stacksplice"]), brief)
    except (KeyError, TypeError, ValueError):  # there was no filter
        return {"error.stack_trace": record.exc_text} if record.exc_text else {}


class JsonFormatter(logging.Formatter):
    """One JSON object on one line for each record, with the names of the Elastic Common Schema.

    An error has ``error.type``, ``error.message`` and ``error.stack_trace``, the combined report; one
    that crossed a border also ``error.code``, its HRESULT, and ``stacksplice``, the report as data.  What
    a program adds with ``extra=`` stands beside them under its own name, and replaces none of them.

    brief: the report as data is brief, since the text beside it has the lines of source; False writes all
    of it, with the frames of interpreters and the columns.  Other parameters are those of
    ``logging.Formatter``.
    """

    def __init__(self, *arguments: Any, brief: bool = True, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._brief = brief

    def format(self, record: logging.LogRecord) -> str:
        import json
        from datetime import datetime, timezone

        moment = datetime.fromtimestamp(record.created, timezone.utc)
        fields: dict[str, Any] = {
            "@timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "log.level": record.levelname.lower(),
            "message": text_of(record.getMessage()),
            "ecs.version": _ECS_VERSION,
            "log.logger": record.name,
            "log.origin.file.name": record.filename,
            "log.origin.file.line": record.lineno,
            "log.origin.function": record.funcName,
            "process.pid": record.process,
            "process.thread.id": record.thread,
            "process.thread.name": record.threadName,
        }
        fields.update(_error_fields(record, self._brief))
        more = {name: clean(value, name) for name, value in record.__dict__.items() if name not in _USUAL}
        try:
            return json.dumps({**more, **fields}, default=str, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # JSON has no form for what the program added
            return json.dumps({**{name: str(value) for name, value in more.items()}, **fields}, default=str)
