"""stacksplice.logging: combined reports in logs of every kind."""

from __future__ import annotations

import io
import json
import logging
import logging.handlers
import pickle
import queue

import pytest
import stacksplice
import stacksplice.logging
from raising import caught

COMBINED = "Propagation:"
PLAIN = "Traceback (most recent call last):"


@pytest.fixture
def log():
    logger = logging.Logger("tests.of.stacksplice")
    yield logger
    for handler in logger.handlers:
        handler.close()


def attach(log: logging.Logger, formatter: logging.Formatter | None, *filters) -> io.StringIO:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(formatter)
    for one in filters:
        handler.addFilter(one)
    log.addHandler(handler)
    return handler.stream


@pytest.fixture
def crossing(border):
    def fails():
        raise ValueError("logged")

    return lambda: border.call(fails)


def log_it(log: logging.Logger, function, *arguments) -> None:
    try:
        function(*arguments)
    except Exception:
        log.exception("it failed: %d", 5)


def test_formatter(log, crossing):
    text = attach(log, stacksplice.logging.Formatter("%(levelname)s %(message)s"))
    log_it(log, crossing)
    assert text.getvalue().startswith("ERROR it failed: 5\nTraceback (most recent call last)")
    assert COMBINED in text.getvalue() and text.getvalue().endswith("\nValueError: logged\n")
    assert text.getvalue().count(PLAIN) == 1 and "\033" not in text.getvalue()
    assert text.getvalue().endswith("\n") and not text.getvalue().endswith("\n\n")


def test_other_records_are_as_before(log):
    ours, theirs = attach(log, stacksplice.logging.Formatter()), attach(log, logging.Formatter())
    log.error("no exception")
    log.exception("none is handled")
    log.error("a stack", stack_info=True)
    log_it(log, json.loads, "{")
    assert ours.getvalue() == theirs.getvalue() and PLAIN in ours.getvalue()


@pytest.mark.parametrize("ours_first", [True, False])
def test_cached_text_of_others(log, crossing, ours_first):
    """A traceback that another formatter left is no reason to show less; and it is made once."""
    made = []

    class Counting(stacksplice.logging.Formatter):
        def formatException(self, ei):
            made.append(ei)
            return super().formatException(ei)

    if not ours_first:
        plain = attach(log, logging.Formatter())
    texts = [attach(log, Counting()), attach(log, Counting("%(message)s"))]
    log_it(log, crossing)
    assert all(text.getvalue().count(COMBINED) == 1 for text in texts)
    assert made == []  # the cached one was used
    if not ours_first:
        assert PLAIN in plain.getvalue() and COMBINED not in plain.getvalue()


def test_mixin_for_a_formatter_of_json(log, crossing):
    class Json(logging.Formatter):
        def format(self, record):
            trace = self.formatException(record.exc_info) if record.exc_info else None
            return json.dumps({"message": record.getMessage(), "trace": trace})

    class Mine(stacksplice.logging.FormatterMixin, Json):
        pass

    text = attach(log, Mine())
    log_it(log, crossing)
    log_it(log, json.loads, "{")
    first, second = map(json.loads, text.getvalue().splitlines())
    assert first["message"] == "it failed: 5" and COMBINED in first["trace"]
    assert second["trace"].startswith(PLAIN)


def test_filter_for_any_formatter(log, crossing):
    text = attach(log, logging.Formatter("%(name)s"), stacksplice.logging.Filter())
    log_it(log, crossing)
    log_it(log, json.loads, "{")
    assert text.getvalue().startswith("tests.of.stacksplice\nTraceback (most recent call last)")
    assert text.getvalue().count(COMBINED) == 1 and text.getvalue().count(PLAIN) == 2


def test_filter_for_structured_logs(log, crossing):
    class Json(logging.Formatter):
        def format(self, record):
            return json.dumps(getattr(record, "stacksplice", None))

    log.addFilter(stacksplice.logging.Filter())
    text = attach(log, Json(), stacksplice.logging.Filter())
    log_it(log, crossing)
    log_it(log, json.loads, "{")
    log.error("no exception")
    first, second, third = map(json.loads, text.getvalue().splitlines())
    assert (second, third) == (None, None)
    assert first["schema"] == "stacksplice-error/1" and first["message"] == "logged"
    assert first["stack"][0]["function"].endswith("fails")
    assert stacksplice.ErrorInfo.from_dict(first).type == "ValueError"


@pytest.mark.parametrize("by_filter", [True, False])
def test_queues(log, crossing, by_filter):
    records = queue.Queue()
    handler = logging.handlers.QueueHandler(records)
    if by_filter:
        handler.addFilter(stacksplice.logging.Filter())
    else:
        handler.setFormatter(stacksplice.logging.Formatter())
    log.addHandler(handler)
    at_the_end = logging.StreamHandler(io.StringIO())
    listener = logging.handlers.QueueListener(records, at_the_end)
    listener.start()
    log_it(log, crossing)
    listener.stop()
    assert at_the_end.stream.getvalue().count(COMBINED) == 1
    if by_filter:
        log_it(log, crossing)
        record = pickle.loads(pickle.dumps(records.get()))
        assert record.stacksplice["message"] == "logged"
        line = json.loads(stacksplice.logging.JsonFormatter().format(record))
        assert COMBINED in line["error.stack_trace"] and line["stacksplice"]["message"] == "logged"
        assert (line["error.type"], line["error.code"]) == ("ValueError", "0x80070057")


def test_configured_by_a_dictionary(child):
    done = child("""
import logging.config, border
logging.config.dictConfig({
    "version": 1,
    "formatters": {"combined": {"()": "stacksplice.logging.Formatter", "format": "%(message)s"}},
    "filters": {"errors": {"()": "stacksplice.logging.Filter"}},
    "handlers": {
        "text": {"class": "logging.StreamHandler", "formatter": "combined"},
        "other": {"class": "logging.StreamHandler", "filters": ["errors"]},
    },
    "root": {"handlers": ["text", "other"]},
})
def fails(): raise ValueError("logged")
try: border.call(fails)
except ValueError: logging.exception("root")
""")
    assert done.stderr.count(COMBINED) == 2


def test_a_cause_or_a_member_that_crossed(log, crossing):
    """What is inside counts too, unless it is suppressed."""
    crossed = caught(crossing)

    def outer(inside, suppress=False):
        exc = RuntimeError("outer") if isinstance(inside, Exception) else ExceptionGroup("outer", inside)
        exc.__context__ = inside if isinstance(inside, Exception) else None
        exc.__suppress_context__ = suppress
        raise exc

    values = []

    class Keep(logging.Formatter):
        def format(self, record):
            values.append(getattr(record, "stacksplice", None))
            return super().format(record)

    text = attach(log, Keep(), stacksplice.logging.Filter())
    members = [KeyError("k"), ExceptionGroup("inner", [crossed])]
    for arguments in ((crossed,), (members,), (KeyError("nothing"),), (crossed, True)):
        log_it(log, outer, *arguments)
    assert [value and value["message"] for value in values[:2]] == ["outer", "outer (2 sub-exceptions)"]
    assert values[2:] == [None, None]
    assert values[0]["transformed"][0]["message"] == "logged"
    assert values[1]["exceptions"][1]["exceptions"][0]["message"] == "logged"
    assert "RuntimeError: outer" in text.getvalue()


# ---- JSON Lines ----------------------------------------------------------------------------------


def lines(stream: io.StringIO) -> list[dict]:
    def refuse(name):
        raise ValueError(name)

    text = stream.getvalue()
    assert text.endswith("\n") and text.isascii()
    return [json.loads(line, parse_constant=refuse) for line in text.split("\n")[:-1]]


def test_json_lines_have_the_names_of_ecs(log, crossing):
    stream = attach(log, stacksplice.logging.JsonFormatter())
    log_it(log, crossing)
    log.warning("größe %s\u2028", 5, extra={"order": "A-1"})
    failed, plain = lines(stream)
    assert plain["message"] == "größe 5\u2028" and plain["order"] == "A-1"
    assert plain["log.level"] == "warning" and plain["log.logger"] == "tests.of.stacksplice"
    assert plain["ecs.version"] and plain["@timestamp"].endswith("Z") and len(plain["@timestamp"]) == 24
    assert not [name for name in plain if name.startswith(("error.", "stacksplice"))]
    assert (failed["error.type"], failed["error.message"]) == ("ValueError", "logged")
    assert COMBINED in failed["error.stack_trace"] and failed["error.code"] == "0x80070057"
    assert stacksplice.ErrorInfo.from_dict(failed["stacksplice"]).message == "logged"


def test_json_lines_have_reports_in_brief(log, crossing):
    formatter = stacksplice.logging.JsonFormatter
    streams = [attach(log, formatter(**how)) for how in ({}, {"brief": True}, {"brief": False})]
    log_it(log, crossing)
    usual, brief, whole = [line["stacksplice"] for stream in streams for line in lines(stream)]
    assert usual == brief and brief["fingerprint"] == whole["fingerprint"]
    assert "hidden_left_out" in brief and "source" in whole["stack"][0] and "source" not in brief["stack"][0]
    assert len(json.dumps(brief)) < len(json.dumps(whole)) / 2


def test_what_the_filter_keeps_is_whole_unless_it_is_to_be_brief(log, crossing):
    kept = []
    for how in ({}, {"brief": True}):
        handler = logging.handlers.QueueHandler(queue.SimpleQueue())
        handler.addFilter(stacksplice.logging.Filter(**how))
        log.addHandler(handler)
        log_it(log, crossing)
        kept.append(handler.queue.get())
        log.removeHandler(handler)
    whole, brief = kept
    assert "source" in whole.stacksplice["stack"][0] and "source" not in brief.stacksplice["stack"][0]
    for record, has_source in zip(kept, (True, False)):
        line = json.loads(stacksplice.logging.JsonFormatter().format(record))
        assert "hidden_left_out" in line["stacksplice"]
        assert ('raise ValueError("logged")' in line["error.stack_trace"]) == has_source


def test_json_of_an_error_that_crossed_nothing(log):
    stream = attach(log, stacksplice.logging.JsonFormatter())

    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError

    def fails():
        raise Hostile

    log_it(log, fails)
    (line,) = lines(stream)
    assert line["error.type"].endswith("Hostile") and line["error.message"].startswith("<unprintable")
    assert line["error.stack_trace"].startswith(PLAIN) and "error.code" not in line


@pytest.mark.parametrize("value", [float("nan"), object(), {("a", 1): 2}, b"\xff", "\ud800"])
def test_whatever_a_program_adds_is_json(log, value):
    stream = attach(log, stacksplice.logging.JsonFormatter())
    log.error("x", extra={"value": value, "error.type": "forged", "log.level": "forged"})
    (line,) = lines(stream)
    assert line["message"] == "x" and line["log.level"] == "error" and "value" in line
