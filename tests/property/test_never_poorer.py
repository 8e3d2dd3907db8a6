"""Whatever error is sent, each thing that another tool says of it alone is there with us, and is as long."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import stacksplice
import stacksplice.logging
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("greenlet", reason="greenlet is not installed")
pytest.importorskip("lupa", reason="lupa is not installed")

import ways  # noqa: E402

settings.register_profile(
    "poorer",
    deadline=None,
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],  # making one smaller would take minutes: the ways are named
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module", autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


# ---- Errors ----------------------------------------------------------------------------------------


class Custom(Exception):
    """Tools prefer a member of this name to str()."""

    message = "of its own"


def of_lua_by(code):
    """A leaf that runs CODE in Lua."""

    def leaf():
        ways.lua()  # the runtime of this thread
        ways.lua().load(code)()

    leaf.__name__ = f"of_lua_by {code}"
    return leaf


def of_python_by(make):
    def leaf():
        raise make()

    leaf.__name__ = f"of_python_by {make()!r}"
    return leaf


LEAVES = [
    *ways.LEAVES,
    *map(
        of_lua_by,
        (
            "error({code = 7, message = 'no stock'})",
            "error('of two\\nlines')",
            "error()",
            "error(12)",
            "local order = {} return order.total.amount",
            "error(setmetatable({}, {__tostring = function() return 'as text' end}))",
        ),
    ),
    *map(
        of_python_by,
        (
            Custom,
            lambda: OSError(2, "no such thing", "file"),
            lambda: KeyError(("two", 2)),
            lambda: SyntaxError("bad", ("file.py", 3, 1, "x = = 2")),
            lambda: ExceptionGroup("all", [ValueError("never raised"), KeyError("neither")]),
        ),
    ),
]


def with_a_note(inner):
    def noted():
        try:
            inner()
        except BaseException as exc:
            exc.add_note("a note\nof two lines")
            raise

    return noted


def behind_a_cause(inner):
    def caused():
        try:
            inner()
        except BaseException as exc:
            raise RuntimeError("outside") from exc

    return caused


def behind_a_context(inner):
    def handled():
        try:
            inner()
        except BaseException:
            raise LookupError("while it was handled")  # noqa: B904

    return handled


def without_a_context(inner):
    def handled():
        try:
            inner()
        except BaseException as exc:
            raise exc from None

    return handled


def in_a_group(inner):
    def group():
        raise ExceptionGroup("members", [ways.caught(inner), ways.caught(inner)])

    return group


def by_recursion(inner):
    def recur(calls=12):
        if calls:
            recur(calls - 1)
        else:
            inner()

    return recur


WAYS = [
    *ways.WAYS,
    *[with_a_note, behind_a_cause, behind_a_context, without_a_context, in_a_group, by_recursion] * 4,
]
errors = {
    "version": st.sampled_from(ways.VERSIONS),
    "leaf": st.sampled_from(LEAVES),
    "chosen": st.lists(st.sampled_from(WAYS), max_size=6),
}


def made(version, leaf, chosen):
    ways.use(version)
    return ways.caught(ways.program(leaf, chosen))


def all_of(exc):
    """EXC and all that is behind it or in it, each once."""
    found = [exc]
    for one in found:  # which grows during the loop
        inner = [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        found += [other for other in inner if other is not None and all(other is not f for f in found)]
    return found


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


@given(**errors)
@settings(settings.get_profile("poorer"))
def test_an_event_of_sentry(send, version, leaf, chosen):
    from stacksplice.sentry import StackspliceIntegration

    exc = made(version, leaf, chosen)
    theirs, ours = send(exc, []), send(exc, [StackspliceIntegration()])
    values = ours["exception"]["values"]
    names = [way.__name__ for way in (leaf, *chosen)]
    assert not [*lacking_values(theirs["exception"]["values"], values)], names
    assert set(theirs) <= set(ours)
    numbers = [value["mechanism"]["exception_id"] for value in values if "exception_id" in value["mechanism"]]
    assert len(numbers) in (0, len(values)) and len(set(numbers)) == len(numbers), names
    assert len(values) <= len(all_of(exc)), names  # none is there twice
    assert all(value["value"] for value in values if value["type"] == "LuaError"), names


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
@given(**errors)
@settings(settings.get_profile("poorer"))
def test_spans_and_logs_of_opentelemetry(record, version, leaf, chosen):
    exc = made(version, leaf, chosen)
    names = [way.__name__ for way in (leaf, *chosen)]
    for theirs, ours in zip(record(exc, False), record(exc, True), strict=True):
        short = {"exception.stacktrace"}  # which hides frames of bridges
        lacking = {name for name in theirs if len(str(ours.get(name, ""))) < len(str(theirs[name]))}
        assert lacking <= short and set(theirs) <= set(ours), names
        assert not any(isinstance(value, Mapping) for value in ours.values()), names
        if stacksplice.error_info(exc) is not None:
            assert ours["exception.message"].strip() and ours["stacksplice.fingerprint"], names
    span, log = record(exc, True)
    ours = ("exception.type", "exception.message", "stacksplice.fingerprint", "stacksplice.hresult")
    if stacksplice._stacksplice._own_info(exc) is not None:  # others are described where they are reported
        assert [span.get(name) for name in ours] == [log.get(name) for name in ours], names
