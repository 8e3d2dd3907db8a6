"""For OpenTelemetry's SDK: exceptions on spans and in logs get the combined stack.

    provider.add_span_processor(stacksplice.opentelemetry.SpanProcessor())
    logger_provider.add_log_record_processor(stacksplice.opentelemetry.LogRecordProcessor())

Add them before the processors that export.  ``import stacksplice.opentelemetry`` needs
``opentelemetry-sdk``; ``import stacksplice`` does not.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from opentelemetry.sdk import _logs as logs
from opentelemetry.sdk import trace

from . import _stacksplice
from ._errors.info import ErrorInfo
from ._errors.live import Described, code_of

__all__ = ["LogRecordProcessor", "SpanProcessor", "exception_attributes"]

_STACKTRACE = "exception.stacktrace"


def exception_attributes(exc: BaseException | ErrorInfo) -> dict[str, str]:
    """What the semantic conventions say of an exception, for spans, logs and events; or of an error that
    was saved, such as the file of a crash.

    - ``exception.type``, ``exception.message``: of one that crossed a border never empty;
    - ``exception.stacktrace``, the combined report, or the traceback of an error that crossed no border;
    - of one that did also ``stacksplice.hresult``, ``stacksplice.fingerprint`` and ``stacksplice.report``,
      the report as JSON.
    """
    told = Described(exc)
    attributes = {} if told.type is None else {"exception.type": told.type}
    attributes |= {"exception.message": told.message, _STACKTRACE: told.stack_trace}
    if told.info is not None:
        attributes["stacksplice.hresult"] = code_of(told.info)
        attributes["stacksplice.fingerprint"] = told.info.fingerprint
        attributes["stacksplice.report"] = told.info.to_json().rstrip("\n")
    return attributes


def _attributes_of(report: Mapping[str, Any]) -> dict[str, str] | None:
    """The same of what ``stacksplice.logging.Filter`` left; None of a member that is a program's own."""
    try:
        return exception_attributes(ErrorInfo.from_dict(report))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


_recording_kinds: dict[type[trace.Span], type[trace.Span]] = {}  # by the kind that they are made from


def _recording(kind: type[trace.Span]) -> type[trace.Span]:
    """Spans of that KIND which record our attributes, too."""
    if kind in _recording_kinds.values():  # there are two processors
        return kind
    if kind not in _recording_kinds:

        def record_exception(
            self: trace.Span,
            exception: BaseException,
            attributes: Mapping[str, Any] | None = None,
            *args: Any,
            **more: Any,
        ) -> None:
            if _stacksplice._crossed(exception):
                attributes = {**exception_attributes(exception), **(attributes or {})}
            kind.record_exception(self, exception, attributes, *args, **more)

        members = {"__slots__": (), "record_exception": record_exception}
        _recording_kinds[kind] = type(kind.__name__, (kind,), members)
    return _recording_kinds[kind]


class SpanProcessor(trace.SpanProcessor):
    """Gives the exceptions that spans record the attributes of `exception_attributes`."""

    def on_start(self, span: trace.Span, parent_context: Any = None) -> None:
        """What the SDK calls with each new span."""
        span.__class__ = _recording(type(span))  # an attribute of the span would refer to the span itself


class LogRecordProcessor(logs.LogRecordProcessor):
    """Gives log records of exceptions the attributes of `exception_attributes`.

    Records of Python's ``logging`` need ``stacksplice.logging.Filter`` on the handler that brings them to
    OpenTelemetry, which keeps text only: they get the same attributes, in place of the filter's.
    """

    def on_emit(self, log_record: logs.ReadWriteLogRecord) -> None:
        """What the SDK calls with each record."""
        record = log_record.log_record
        exc = getattr(record, "exception", None)
        if exc is not None:
            if _stacksplice._crossed(exc):
                self._update(record, exception_attributes(exc))
            return
        report = (record.attributes or {}).get("stacksplice")
        told = _attributes_of(report) if isinstance(report, Mapping) else None
        if told is not None:  # in place of a map of maps, which no query counts
            self._update(record, {}).pop("stacksplice")
            self._update(record, told)

    @staticmethod
    def _update(record: Any, attributes: dict[str, str]) -> MutableMapping[str, Any]:
        if not isinstance(record.attributes, MutableMapping):
            record.attributes = dict(record.attributes or {})
        record.attributes.update(attributes)
        return record.attributes

    def shutdown(self) -> None:
        """Nothing is kept."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is kept."""
        return True
