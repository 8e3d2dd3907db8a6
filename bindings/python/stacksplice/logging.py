"""Combined reports in logs: a formatter, a mixin for anybody's formatter, and a filter.

    handler.setFormatter(stacksplice.logging.Formatter("%(levelname)s %(message)s"))

Then ``logger.exception(...)`` shows the combined report of an exception that crossed a border, and
what it showed before of any other.  Where formatters cannot be chosen, or write JSON, the filter
does it from outside:

    handler.addFilter(stacksplice.logging.Filter())

``JsonFormatter`` writes JSON Lines with the names of the Elastic Common Schema.  ``DedupHandler`` shows
the first of equal errors and counts the rest.
"""

from __future__ import annotations

import logging

from . import _stacksplice
from ._base.redaction import clean, text_of
from ._errors.counts import Counts, is_count, text_of_count
from ._errors.info import ErrorInfo
from ._errors.live import Described, code_of, log_text, report_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, TypeAlias

    _ExcInfo: TypeAlias = (
        tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    )

__all__ = ["DedupHandler", "Filter", "Formatter", "FormatterMixin", "JsonFormatter"]

_ECS_VERSION = "8.11"
_MOST_FIRSTS = 1024  # more than are counted at a time
_UNKNOWN = logging.LogRecord("stacksplice", logging.ERROR, "", 0, "", (), None)  # the first was too long ago
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


def _fields_of_count(counts: dict[str, Any]) -> dict[str, Any]:
    told = {"error.message": "message", "error.type": "type", "error.code": "hresult"}
    fields = {name: counts[key] for name, key in told.items() if counts.get(key) is not None}
    return {**fields, "stacksplice": counts}


def _error_fields(record: logging.LogRecord, brief: bool) -> dict[str, Any]:
    exc = _exception_of(record)
    if exc is not None:
        return _fields_of(exc, brief)
    kept: Any = record.__dict__.get("stacksplice")
    if is_count(kept):
        return _fields_of_count(kept)
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


class DedupHandler(logging.Handler):
    """Before another handler: the first record of an error passes, equal ones that follow are counted.

        logger.addHandler(stacksplice.logging.DedupHandler(logging.StreamHandler()))

    Exceptions are equal that have one fingerprint, whatever they crossed and whatever the texts of the
    records; so is one that is logged twice on its way.  What came within WINDOW seconds of the first passes
    as one record with the first one's logger and level.  It says how often, when the first and the last
    came, and the last one's message; its ``stacksplice`` has the same as values.  The next equal record
    after the window passes again.  Records without an exception always pass.

    A window that has ended is told with the next record of this handler; all are by flush() and close(),
    which logging.shutdown() calls when the interpreter ends.  A process that ends by os._exit(), such as
    a child of multiprocessing, must call flush() itself.  A forked child begins with no counts, so each is
    told once, by the process that counted it.  256 errors are counted at a time; others pass.

    HANDLER keeps its formatter, filters and level, and stays open after close().

    Raises TypeError or ValueError when window is no number of seconds between 0 and 4,294,967, and
    TypeError when handler is no logging.Handler.
    """

    def __init__(self, handler: logging.Handler, window: float = 60.0) -> None:
        if not isinstance(handler, logging.Handler):
            raise TypeError(f"handler must be a logging.Handler, not {type(handler).__name__}")
        self._counts = Counts(window, "window")
        self._handler = handler
        self._firsts: dict[str, logging.LogRecord] = {}  # without exceptions and arguments
        super().__init__()

    def _count(self, record: logging.LogRecord) -> bool:
        """Whether RECORD is counted, and not to be shown."""
        self._counts.tell_ended(self._pass_counts)
        exc = _exception_of(record)
        if exc is None:
            return False
        if self._counts.is_counted(exc):
            return True
        info = _stacksplice._described(exc)
        if info is not None:
            first = logging.LogRecord(
                record.name, record.levelno, record.pathname, record.lineno, "", (), None, record.funcName
            )
            self._firsts.pop(info.fingerprint, None)
            self._firsts[info.fingerprint] = first
            if len(self._firsts) > _MOST_FIRSTS:
                del self._firsts[next(iter(self._firsts))]
        return False

    def _pass_counts(self, counts: dict[str, Any]) -> None:
        """Have the handler show a record of COUNTS."""
        first = self._firsts.get(counts["fingerprint"], _UNKNOWN)
        place = (first.name, first.levelno, first.pathname, first.lineno)
        record = logging.LogRecord(*place, text_of_count(counts), (), None, first.funcName)
        record.stacksplice = counts
        self._handler.handle(record)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < self._handler.level:
            return
        try:
            is_counted = self._count(record)
        except Exception:
            self.handleError(record)
            is_counted = False
        if not is_counted:
            self._handler.handle(record)

    def flush(self) -> None:
        """Have all counts shown, and flush the handler."""
        self.acquire()
        try:
            self._counts.tell(self._pass_counts)
        finally:
            self.release()
        self._handler.flush()

    def close(self) -> None:
        """Have all counts shown."""
        try:
            self.flush()
        finally:
            super().close()
