"""Whatever error is sent, each thing that another tool says of it alone is there with us, and is as long."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import stacksplice
import stacksplice.logging
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("greenlet", reason="greenlet is not installed")
pytest.importorskip("lupa", reason="lupa is not installed")

import ways  # noqa: E402
from sent_errors import HANDLERS, LEAVES, LOGGERS, WAYS, all_of, made  # noqa: E402

HERE = Path(__file__).resolve().parent
MANY = pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.long)])

settings.register_profile(
    "poorer",
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # making one smaller would take minutes: the ways are named
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module", autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


def with_random_errors(count, check):
    """CHECK(exc, names, chosen) each of COUNT errors: with the names of what it went through, and how it
    is made."""

    @given(
        version=st.sampled_from(ways.VERSIONS),
        leaf=st.integers(0, len(LEAVES) - 1),
        chosen=st.lists(st.integers(0, len(WAYS) - 1), max_size=6),
    )
    @settings(settings.get_profile("poorer"), max_examples=count)
    def one(version, leaf, chosen):
        functions = [LEAVES[leaf], *[WAYS[way] for way in chosen]]
        names = [version, *[function.__name__ for function in functions]]
        check(made(version, functions[0], functions[1:]), names, (version, leaf, chosen))

    one()


# ---- Sentry ----------------------------------------------------------------------------------------


def lacks(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """What is in THEIRS and not in OURS, which may have more of a text."""
    if isinstance(theirs, dict):
        for name, value in theirs.items():
            if name not in ours:
                yield f"{path}.{name}"
            elif name not in ("exception_id", "parent_id", "frames", "in_app"):
                yield from lacks(value, ours[name], f"{path}.{name}")
    elif theirs is not None and str(theirs).strip() not in str(ours):
        yield f"{path}: {theirs!r} became {ours!r}"


def frames_of(value):
    return (value.get("stacktrace") or {}).get("frames") or []


def lacking_frames(theirs: Any, ours: Any) -> Iterator[str]:
    """Those of THEIRS that do not stand in OURS, whole and in their order, the innermost first: of a
    function that calls itself OURS has callers that THEIRS lacks."""
    known = frames_of(ours)[::-1]
    for frame in frames_of(theirs)[::-1]:
        place = frame["abs_path"], frame["lineno"]
        same = [at for at, one in enumerate(known) if (one.get("abs_path"), one.get("lineno")) == place]
        faults = [[*lacks(frame, known[at], frame["function"])] for at in same]
        whole = [at for at, fault in zip(same, faults, strict=True) if not fault]
        if whole:
            del known[: whole[0] + 1]
        else:
            yield f"no frame {frame['function']} at {place}: {faults[:1]}"


def lacking_values(theirs: list[Any], ours: list[Any]) -> Iterator[str]:
    """Each of THEIRS is one of OURS, whole; the error itself is the last of both."""
    unused = list(ours)
    for number, value in enumerate(reversed(theirs)):
        candidates = unused if number else unused[-1:]
        faults = [[*lacks(value, other), *lacking_frames(value, other)] for other in candidates]
        names = value["type"], value["module"]
        same = [at for at, one in enumerate(candidates) if (one.get("type"), one.get("module")) == names]
        whole = [at for at in same if not faults[at]]
        if whole:
            del unused[unused.index(candidates[whole[0]])]
        else:
            yield f"no {value['type']} {value['value']!r}: {[faults[at] for at in same]}"


@pytest.fixture(scope="module")
def send():
    """The event for an exception as it would have left this process, with INTEGRATIONS."""
    sentry_sdk = pytest.importorskip("sentry_sdk", reason="sentry_sdk is not installed")

    class Nowhere(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            pass

    def send(exc, integrations):
        events = []
        client = sentry_sdk.Client(
            "http://key@localhost/1",
            transport=Nowhere,
            integrations=integrations,
            default_integrations=False,
            before_send=lambda event, hint: events.append(event),
        )
        with sentry_sdk.isolation_scope() as scope:
            scope.set_client(client)
            sentry_sdk.capture_exception(exc)
        return events[0]

    return send


@MANY
def test_an_event_of_sentry(send, count):
    from stacksplice.sentry import StackspliceIntegration

    def check(exc, names, _):
        theirs, ours = send(exc, []), send(exc, [StackspliceIntegration()])
        values = ours["exception"]["values"]
        assert not [*lacking_values(theirs["exception"]["values"], values)], names
        assert set(theirs) <= set(ours)
        mechanisms = [value["mechanism"] for value in values]
        numbers = [mechanism["exception_id"] for mechanism in mechanisms if "exception_id" in mechanism]
        assert len(numbers) in (0, len(values)) and len(set(numbers)) == len(numbers), names
        assert len(values) <= len(all_of(exc)), names  # none is there twice
        assert all(value["value"] for value in values if value["type"] == "LuaError"), names

    with_random_errors(count, check)


# ---- OpenTelemetry ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    """The attributes of an exception on a span and in a log of logging, with or WITHOUT us."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk import _logs as logs
    from opentelemetry.sdk import trace
    from stacksplice import opentelemetry

    class Kept(logs.LogRecordProcessor):
        def on_emit(self, log_record):
            self.attributes = dict(log_record.log_record.attributes)

        def shutdown(self):
            pass

        def force_flush(self, timeout_millis=0):
            return True

    def record(exc, is_ours):
        spans, emitter, kept = trace.TracerProvider(shutdown_on_exit=False), logs.LoggerProvider(), Kept()
        handler = logs.LoggingHandler(logger_provider=emitter)
        if is_ours:
            spans.add_span_processor(opentelemetry.SpanProcessor())
            emitter.add_log_record_processor(opentelemetry.LogRecordProcessor())
            handler.addFilter(stacksplice.logging.Filter())
        emitter.add_log_record_processor(kept)
        span = spans.get_tracer("tests").start_span("span")
        span.record_exception(exc)
        told = type(exc), exc, exc.__traceback__
        handler.handle(logging.LogRecord("tests", logging.ERROR, "file", 1, "failed", (), told))
        emitter.shutdown()
        return dict(span.events[0].attributes), kept.attributes

    return record


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the handler has moved to another package
@MANY
def test_spans_and_logs_of_opentelemetry(record, count):
    same = ("exception.type", "exception.message", "stacksplice.fingerprint", "stacksplice.hresult")

    def check(exc, names, _):
        recorded = record(exc, True)
        for theirs, ours in zip(record(exc, False), recorded, strict=True):
            short = {"exception.stacktrace"}  # which hides frames of bridges
            lacking = {name for name in theirs if len(str(ours.get(name, ""))) < len(str(theirs[name]))}
            assert lacking <= short and set(theirs) <= set(ours), names
            assert not any(isinstance(value, Mapping) for value in ours.values()), names
            if stacksplice.error_info(exc) is not None:
                assert ours["exception.message"].strip() and ours["stacksplice.fingerprint"], names
        if (
            stacksplice._stacksplice._own_info(exc) is not None
        ):  # others are described where they are reported
            span, log = recorded
            assert [span.get(name) for name in same] == [log.get(name) for name in same], names

    with_random_errors(count, check)


# ---- Loggers ---------------------------------------------------------------------------------------


class Alone:
    """A process without stacksplice, in which the same errors are made, and logged by the logger NAME."""

    def __init__(self, name):
        program = [sys.executable, HERE / "sent_errors.py", name]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def log(self, made_by):
        self._process.stdin.write(json.dumps(made_by) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def end(self):
        self._process.stdin.close()
        assert self._process.wait(60) == 0


# The entries of lupa's own functions, which we take out of tracebacks.
BRIDGE = re.compile(r'(?m)^[ |]*File "[^"]*\.pyx", line .*\n?')
OF_THE_RUN = re.compile(r"0x[0-9a-f]+|\d+")
OF_ALONE = ("main", "<module>")  # loguru also shows who called the logger
FRAME = re.compile(r'[ |]*(?:\(\w+\) )?File "([^"]+)", line (\d+), in (\S+)')
RUNNERS = re.compile(r"/(?:asyncio|concurrent/futures)/|/threading\.py$")  # what a report of ours folds


def texts_of(value, path=()):
    """Each text of a record and where it stands; frames as data as the text of a traceback."""
    if path[-1:] == ("frames",):
        lines = [f'File "{one["filename"]}", line {one["lineno"]}, in {one["name"]}' for one in value]
        return {path: "\n".join(lines)}
    if path[-1:] == ("exc_notes",):  # of which ours is another one
        return {path: "\n".join(value)}
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return {at: text for key, each in inner for at, text in texts_of(each, (*path, key)).items()}
    return {path: value if isinstance(value, str) else ""}  # a number need only be there


def places_of(text):
    """File, line and function of each frame; of what waits for others without the line, where chance has a
    part."""
    found = [match.groups() for match in map(FRAME.match, BRIDGE.sub("", text).splitlines()) if match]
    return [(file, "" if RUNNERS.search(file) else line, name) for file, line, name in found]


def poorer(theirs: str, ours: str, is_report: bool) -> Any:
    """What the text OURS lacks; as a report it has its own lines in place of frames of runners."""
    if not FRAME.search(theirs):
        return None if len(OF_THE_RUN.sub("", ours)) >= len(OF_THE_RUN.sub("", theirs)) else theirs
    left = iter(places_of(ours))
    wanted = [
        place for place in places_of(theirs) if place[2] not in OF_ALONE and (place[1] or not is_report)
    ]
    return [place for place in wanted if place not in left]


@pytest.mark.parametrize("name", LOGGERS)
@MANY
def test_a_logger_of_others(name, count):
    module = {"python-json-logger": "pythonjsonlogger"}.get(name, name.split(",")[0].replace("-", "_"))
    pytest.importorskip(module, reason=f"{module} is not installed")
    alone, log = Alone(name), LOGGERS[name]()

    def check(exc, names, made_by):
        theirs = texts_of(json.loads(alone.log(made_by)))
        own = [log(exc), *([log(exc, stacksplice.logging.Filter())] if name in HANDLERS else [])]
        for number, ours in enumerate(map(json.loads, own)):
            known = texts_of(ours)
            assert set(theirs) <= set(known), names
            lacking = {at: poorer(text, known[at], number == 1) for at, text in theirs.items()}
            assert not any(lacking.values()), (names, lacking)

    with_random_errors(count, check)
    alone.end()
