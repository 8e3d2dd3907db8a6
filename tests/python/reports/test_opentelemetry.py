"""stacksplice.opentelemetry with the real SDK and its exporters in memory."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
from collections.abc import Mapping

import pytest
import stacksplice
import stacksplice.logging
from building import built, ran
from raising import boom, caught, fail, with_cause
from stacksplice import ErrorInfo

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk import _logs as logs  # noqa: E402
from opentelemetry.sdk import trace  # noqa: E402
from opentelemetry.sdk._logs import export as logs_export  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from stacksplice import opentelemetry  # noqa: E402

pytestmark = pytest.mark.any_python

CONVENTIONS = {"exception.type", "exception.message", "exception.stacktrace", "exception.escaped"}
OURS = {"stacksplice.hresult", "stacksplice.fingerprint", "stacksplice.report"}


@pytest.fixture
def tracer():
    """A tracer, and what calling its exporter's get_finished_spans gives."""
    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(opentelemetry.SpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("tests"), exporter
    provider.shutdown()


@pytest.fixture
def log_records():
    """A provider of loggers, and its exporter."""
    kind = getattr(logs_export, "InMemoryLogRecordExporter", None) or logs_export.InMemoryLogExporter
    exporter, provider = kind(), logs.LoggerProvider()
    provider.add_log_record_processor(opentelemetry.LogRecordProcessor())
    provider.add_log_record_processor(logs_export.SimpleLogRecordProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


def attributes_of(exporter) -> dict:
    (span,) = exporter.get_finished_spans()
    (event,) = span.events
    assert event.name == "exception" and all(isinstance(v, str) for v in event.attributes.values())
    return dict(event.attributes)


def test_the_file_of_a_crash(tmp_path):
    ran(built("tests/core/fault_program"), "threads", "case", status=None, STACKSPLICE_REPORT_DIR=tmp_path)
    (file,) = tmp_path.iterdir()
    text = file.read_text(encoding="utf-8")
    told = opentelemetry.exception_attributes(ErrorInfo.from_json(text))
    assert told["exception.type"] == "SIGSEGV" and json.loads(told["stacksplice.report"]) == json.loads(text)
    assert told["exception.stacktrace"].count("\nThread ") >= 1


def test_a_span_ended_by_an_exception(tracer, price):
    def traced():
        with tracer[0].start_as_current_span("pricing"):
            price(fail)

    exc = caught(traced)
    told = attributes_of(tracer[1])
    assert set(told) == CONVENTIONS | OURS
    assert (told["exception.type"], told["exception.message"]) == ("ValueError", "3")
    assert '(Lua) File "' in told["exception.stacktrace"]
    assert told["exception.stacktrace"].endswith("ValueError: 3")
    info = stacksplice.error_info(exc)
    assert told["stacksplice.fingerprint"] == info.fingerprint and told["stacksplice.hresult"] == "0x80070057"
    report = stacksplice.ErrorInfo.from_json(told["stacksplice.report"])
    assert report.message == "3" and "lua" in {frame.language for frame in report.stack}


def test_recorded_by_the_program(tracer, border):
    exc = caught(border.call, with_cause)
    with tracer[0].start_as_current_span("span") as span:
        span.record_exception(exc, {"order": "A-1", "exception.message": "its own"})
        assert isinstance(span, trace.Span) and type(span).__name__ in ("Span", "_Span")
    told = attributes_of(tracer[1])
    assert set(told) == CONVENTIONS | OURS | {"order"} and told["exception.message"] == "its own"


def test_other_exceptions_are_the_sdks(tracer):
    with tracer[0].start_as_current_span("span") as span:
        span.record_exception(caught(fail))
    assert set(attributes_of(tracer[1])) == CONVENTIONS


def test_two_processors_are_as_good_as_one(border):
    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    for processor in (opentelemetry.SpanProcessor(), opentelemetry.SpanProcessor()):
        provider.add_span_processor(processor)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for _ in range(2):
        with provider.get_tracer("tests").start_as_current_span("span") as span:
            span.record_exception(caught(border.call, fail))
        assert set(attributes_of(exporter)) == CONVENTIONS | OURS
        exporter.clear()
    assert type(span).__mro__[1] in (trace.Span, trace._Span)


def test_spans_are_freed_at_once(tracer):
    import gc
    import weakref

    gc.disable()
    try:
        span = tracer[0].start_span("span")
        gone = weakref.ref(span)
        del span
        assert gone() is None
    finally:
        gc.enable()


def test_attributes_of_any_exception(border):
    plain = opentelemetry.exception_attributes(caught(fail))
    assert set(plain) == CONVENTIONS - {"exception.escaped"}
    assert plain["exception.stacktrace"].startswith("Traceback (most recent call last):\n")

    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError

    empty = caught(border.call, boom, RuntimeError())
    told = opentelemetry.exception_attributes(empty)
    assert told["exception.message"] == stacksplice.error_info(empty).description != ""
    told = opentelemetry.exception_attributes(caught(border.call, boom, Hostile()))
    assert told["exception.message"].startswith("<unprintable") and told["exception.type"].endswith("Hostile")


def test_logs_with_an_exception(log_records, border):
    provider, exporter = log_records
    logger = provider.get_logger("tests")
    logger.emit(body="failed", exception=caught(border.call, fail))
    logger.emit(body="failed", exception=caught(fail))
    crossed, plain = [dict(each.log_record.attributes) for each in exporter.get_finished_logs()]
    assert OURS <= set(crossed) and '(C) File "' in crossed["exception.stacktrace"]
    assert not OURS & set(plain) and plain["exception.type"] == "ValueError"


def test_logs_of_the_logging_module(log_records, border):
    provider, exporter = log_records
    handler = logs.LoggingHandler(logger_provider=provider)
    handler.addFilter(stacksplice.logging.Filter())
    logger = logging.Logger("tests.of.stacksplice")
    logger.addHandler(handler)
    logger.error("no report", extra={"stacksplice": {"message": 5}})
    for function, arguments in ((border.call, (fail,)), (fail, ())):
        try:
            function(*arguments)
        except ValueError:
            logger.exception("it failed")
    own, crossed, plain = [dict(each.log_record.attributes) for each in exporter.get_finished_logs()]
    assert dict(own["stacksplice"]) == {"message": 5} and "exception.stacktrace" not in own
    assert '(C) File "' in crossed["exception.stacktrace"] and crossed["exception.type"] == "ValueError"
    assert json.loads(crossed["stacksplice.report"])["message"] == "x" and OURS <= set(crossed)
    assert (
        "stacksplice" not in crossed
        and "stacksplice" not in plain
        and '(C) File "' not in plain["exception.stacktrace"]
    )


@pytest.mark.parametrize("code", ["error({code = 7})", "error('text')"])
@pytest.mark.parametrize("queued", [False, True])
def test_a_log_has_the_attributes_of_a_span(tracer, log_records, code, queued):
    lua54 = pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    provider, exporter = log_records
    handler = logs.LoggingHandler(logger_provider=provider)
    logger = logging.Logger("tests.of.stacksplice")
    kept = logging.handlers.QueueHandler(queue.SimpleQueue())
    for one in (handler, kept):
        one.addFilter(stacksplice.logging.Filter())
    stacksplice.install()
    try:
        with tracer[0].start_as_current_span("span") as span:
            exc = caught(lua54.LuaRuntime().execute, code)
            span.record_exception(exc)
        record = logger.makeRecord("tests", logging.ERROR, "file", 1, "failed", (), (type(exc), exc, None))
        if queued:
            kept.handle(record)
            record = kept.queue.get()
        handler.handle(record)
    finally:
        stacksplice.uninstall()
    (log,) = exporter.get_finished_logs()
    of_span = attributes_of(tracer[1])
    of_log = {name: value for name, value in log.log_record.attributes.items() if name in of_span}
    report = json.loads(of_log.pop("stacksplice.report"))
    assert report.pop("raised_as")["type"] == "lupa.lua54.LuaError"
    assert report == json.loads(of_span.pop("stacksplice.report"))
    del of_span["exception.escaped"]
    stack = of_log.pop("exception.stacktrace"), of_span.pop("exception.stacktrace")
    assert all("(Lua) File" in text for text in stack) and of_log == of_span
    assert of_span["exception.message"].startswith(
        "{code = 7}" if "7" in code else '[string "<python>"]:1: text'
    )
    assert not any(isinstance(value, Mapping) for value in log.log_record.attributes.values())
