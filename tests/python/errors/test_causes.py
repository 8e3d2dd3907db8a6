"""Causes, contexts and notes of exceptions that leave Python, come back, or come from elsewhere."""

from __future__ import annotations

import gc
import pickle
import re
import sys
import traceback
import weakref

import pytest
import stacksplice
from gap_reasons import CAUGHT_BEFORE, NEVER_RAISED, RETURNED
from raising import boom, caught, first, names, reasons, report, with_cause
from stacksplice import ErrorInfo, HResultError


def with_context():
    try:
        first()
    except KeyError:
        raise ValueError("second")


def with_suppressed():
    try:
        first()
    except KeyError:
        raise ValueError("second") from None


# ---- Out -----------------------------------------------------------------------------------------


def test_cause_and_context_are_told_apart(border, native):
    exc = caught(border.call, with_cause)
    info = stacksplice.error_info(exc)
    assert info.cause == info.transformed and info.context is None
    assert info.cause.language_exception is exc.__cause__
    assert native.read(exc)[0] == 1
    exc = caught(border.call, with_context)
    info = stacksplice.error_info(exc)
    assert info.context == info.transformed and info.cause is None
    assert info.context.language_exception is exc.__context__
    assert native.read(exc)[0] == 2
    info = stacksplice.error_info(caught(border.call, with_suppressed))
    assert info.transformed is None and info.cause is None and info.context is None


CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def test_reports_tell_cause_from_context(border):
    for function, words, other, relation in (
        (with_cause, ("\nCaused by:\n", CAUSE), ("Raised while handling", CONTEXT), "cause"),
        (with_context, ("\nRaised while handling:\n", CONTEXT), ("Caused by", CAUSE), "context"),
    ):
        exc = caught(border.call, function)
        info = stacksplice.error_info(exc)
        data = info.to_dict()
        assert [entry["relation"] for entry in data["transformed"]] == [relation]
        assert "relation" not in data
        saved = ErrorInfo.from_dict(data)
        assert getattr(saved, relation).message == "'first'"
        for text in (info.format(), info.format(newest_last=False), saved.format(), report(exc)):
            assert sum(map(text.count, words)) == 1 and not any(map(text.count, other))
        assert report(exc).partition(words[1])[2] == info.format().partition(words[1])[2]


def test_what_called_the_frame_that_caught_a_cause_is_known(border):
    def outer():
        with_cause()

    info = stacksplice.error_info(caught(border.call, outer))
    assert names(info.stack)[:2] == ["with_cause", "outer"]
    assert names(info.cause.stack)[:3] == ["first", "with_cause", "outer"]
    assert reasons(info.cause.stack)[:1] == [RETURNED]
    assert names(info.cause.stack)[3:] == names(info.stack)[2:]


def test_where_it_was_caught_before_nothing_is_guessed(border):
    kept = caught(first)

    def later():
        raise ValueError("second") from kept

    def never():
        raise ValueError("second") from KeyError("never raised")

    def generator():
        try:
            first()
        except KeyError as exc:
            yield exc
            raise ValueError("second") from exc

    def by_others():
        running = generator()
        next(running)
        (lambda: next(running))()

    info = stacksplice.error_info(caught(border.call, never))
    assert [frame.reason for frame in info.cause.stack] == [NEVER_RAISED]
    info = stacksplice.error_info(caught(border.call, by_others))
    assert names(info.cause.stack) == ["first", "generator"]
    assert reasons(info.cause.stack) == [CAUGHT_BEFORE]

    def elsewhere():
        return caught(first)

    def passed_on():
        raise ValueError("second") from elsewhere()

    info = stacksplice.error_info(caught(border.call, passed_on))
    assert names(info.cause.stack) == ["first", "caught"]
    assert reasons(info.cause.stack) == [CAUGHT_BEFORE]
    assert names(stacksplice.error_info(caught(border.call, later)).cause.stack)[:2] == ["first", "caught"]


def test_shared_causes_keep_one_error(border):
    shared = caught(first)
    infos = []
    for number in range(2):
        exc = ValueError(str(number))
        exc.__cause__ = shared
        infos.append(stacksplice.error_info(caught(border.call, boom, exc)))
    assert infos[0].cause == infos[1].cause == stacksplice.error_info(shared)


def chain_of(count):
    exc = ValueError("0")
    for number in range(1, count):
        following = ValueError(str(number))
        following.__cause__ = exc
        exc = following
    return exc


def test_chains_of_thousands_are_bounded_and_say_so(border):
    exc = caught(border.call, boom, chain_of(5000))
    info = stacksplice.error_info(exc)
    data = info.to_dict()
    assert len(data["transformed"]) == 63 and data["transformed_left_out"] == 1
    assert info.causes_left_out == 1
    assert ErrorInfo.from_dict(data).format().startswith("Caused by more errors that are not shown.\n\n")
    assert info.format().startswith("Caused by more errors that are not shown.\n\n")
    assert report(exc).startswith(f"ValueError: 0\n{CAUSE}ValueError: 1\n")  # as a traceback does
    short = stacksplice.error_info(caught(border.call, boom, chain_of(10)))
    assert short.to_dict()["transformed_left_out"] == 0
    assert "not shown" not in short.format()


def test_a_chain_that_grows_with_each_border_stays_bounded(border):
    exc = ValueError("0")
    for number in range(400):
        following = ValueError(str(number))
        following.__cause__ = exc
        exc = caught(border.call, boom, following)
    count, info = 0, stacksplice.error_info(exc)
    while info is not None:
        info, count = info.transformed, count + 1
    assert 50 < count <= 151


def test_a_cause_that_is_no_exception_is_left_out(border, native):
    exc = ValueError("second")
    native.set_cause(exc, "not an exception")
    assert caught(border.call, boom, exc) is exc
    info = stacksplice.error_info(exc)
    assert info.transformed is None and info.causes_left_out == 1
    assert "second" in report(exc)
    outer = RuntimeError("outer")
    native.set_cause(outer, 5)
    assert "outer" in report(outer)


# ---- Back ----------------------------------------------------------------------------------------


def test_an_error_of_c_arrives_with_its_cause(native):
    cause = caught(with_context)
    exc = caught(native.fail, cause, False, [], [])
    assert type(exc) is HResultError
    assert exc.__cause__ is cause and exc.__suppress_context__
    assert exc.__cause__.__context__.args == ("first",)
    assert stacksplice.error_info(exc).cause == stacksplice.error_info(cause)
    exc = caught(native.fail, cause, True, [], [])
    assert exc.__cause__ is None and exc.__context__ is cause and not exc.__suppress_context__


def test_each_error_of_a_native_chain_arrives(border, native):
    inner = caught(native.fail, None, False, [], ["inner"])
    outer = caught(native.transform, inner, 0x80070005)
    assert isinstance(outer, PermissionError) and outer.__cause__ is inner
    assert stacksplice.error_info(outer).cause == stacksplice.error_info(inner)
    again = caught(border.call, boom, outer)
    assert again is outer and again.__cause__ is inner


def test_being_received_in_a_handler_adds_no_cause(border, native):
    try:
        first()
    except KeyError:
        exc = caught(native.fail, None, False, [], [])
    assert exc.__cause__ is None
    assert stacksplice.error_info(exc).transformed is None
    own = ValueError("own")
    caught(border.call, boom, own)
    try:
        first()
    except KeyError:
        assert caught(border.call, boom, own) is own
    assert stacksplice.error_info(own).transformed is None


class Mortal(ValueError):
    """One that weak references can be made of."""


def test_arrived_chains_need_no_collector(native):
    gc.collect()
    gc.disable()
    try:
        exc = caught(native.fail, Mortal("cause"), False, [Mortal("member")], ["a note"])
        references = [weakref.ref(one) for one in (exc, exc.__cause__, exc.exceptions[0])]
        del exc
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()


# ---- Notes ---------------------------------------------------------------------------------------


def noted():
    exc = ValueError("noted")
    exc.add_note("größe \ud800")
    exc.add_note("two\nlines")
    raise exc


# ---- Descriptions --------------------------------------------------------------------------------


def told(info):
    return re.sub('"reference":"[^"]*"', "", info.to_json())  # each error object has one of its own


def wrapper(border, between=True):
    """One that crossed nothing, raised from another such, raised while one that crossed was handled."""

    def middle():
        try:
            border.call(first)
        except KeyError:
            raise TypeError("middle")

    def outside():
        try:
            middle()
        except TypeError as exc:
            raise Mortal("outside") from exc

    return caught(outside if between else middle)


def test_what_led_to_it_crossed(border):
    exc = wrapper(border)
    exc.add_note("a note")
    info, again = [stacksplice.error_info(exc) for _ in range(2)]
    assert (info.type, info.message, info.notes) == ("test_causes.Mortal", "outside", ["a note"])
    assert info.language_exception is exc and info.stack[0].function.endswith("outside")
    assert info.cause.message == "middle" and info.cause.stack[0].function.endswith("middle")
    assert info.cause.context == stacksplice.error_info(exc.__cause__.__context__)
    assert "native" in {frame.kind for frame in info.cause.context.stack}
    assert again == info and hash(again) == hash(info) and told(again) == told(info)
    assert stacksplice.ErrorInfo.from_json(info.to_json()).format() == info.format()
    assert pickle.loads(pickle.dumps(info)).cause.context.fingerprint == info.cause.context.fingerprint
    headings = [
        [line.removeprefix("note: ") for line in text.splitlines() if line[:1] not in ("", " ")]
        for text in (info.format(), report(exc))
    ]
    assert headings[0] == headings[1]


def test_a_description_changes_nothing(border):
    exc, twin = wrapper(border), wrapper(border)
    assert stacksplice.error_info(exc).to_json() and stacksplice.peek_error() is None
    assert stacksplice._stacksplice._own_info(exc) is None
    assert stacksplice._stacksplice._own_info(exc.__cause__) is None
    for one in (exc, twin):  # the cause that it gets later is the one that leaves
        one.__cause__ = ValueError("later")
    sides = [stacksplice.error_info(caught(border.call, boom, one)) for one in (exc, twin)]
    assert [side.cause.message for side in sides] == ["later"] * 2
    first_stack, second_stack = ([frame.function for frame in side.stack] for side in sides)
    assert first_stack == second_stack
    assert stacksplice.error_info(exc) == sides[0] and sides[0] != sides[1]
    assert len(sides[0].propagation) == len(sides[1].propagation)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of CPython 3.12")
def test_a_description_leaves_the_stack_of_the_raise(child):
    child("""
import border, stacksplice
stacksplice.install(capture_at_raise=True)
def inner(): raise KeyError("inner")
def wrap():
    try: border.call(inner)
    except KeyError as exc: raise RuntimeError("outer") from exc
def crossed(is_asked):
    try: wrap()
    except RuntimeError as exc: kept = exc
    for _ in range(2 * is_asked):
        assert stacksplice.error_info(kept).stack[0].function == "wrap"
    def again(): raise kept
    try: border.call(again)
    except RuntimeError as exc: return [f.function for f in stacksplice.error_info(exc).stack]
assert "wrap" in crossed(True) and crossed(True) == crossed(False)
""")


def test_what_crossed_nothing_has_none(border):
    try:
        first()
    except KeyError as exc:
        effect = RuntimeError("effect")
        effect.__cause__ = exc
    assert stacksplice.error_info(effect) is None
    suppressed = wrapper(border, between=False)
    suppressed.__suppress_context__ = True
    assert stacksplice.error_info(suppressed) is None
    with pytest.raises(TypeError):
        stacksplice.error_info("text")


def test_a_description_keeps_its_exception_and_no_longer_than_that(border):
    exc = wrapper(border)
    reference = weakref.ref(exc)
    info = stacksplice.error_info(exc)
    del exc
    assert info.language_exception is reference()
    saved = pickle.loads(pickle.dumps(info))
    del info
    gc.collect()
    assert reference() is None and saved.cause.context.message


# ---- Reports of what is alive --------------------------------------------------------------------


def test_an_exception_whose_cause_crossed_shows_the_causes_story(border):
    def effect():
        try:
            border.call(first)
        except KeyError as exc:
            raise RuntimeError("effect") from exc

    exc = caught(effect)
    text = report(exc)
    assert text.startswith("Traceback (most recent call last):\n")
    inner, _, outer = text.partition(CAUSE)
    assert outer.endswith("RuntimeError: effect\n")
    assert "  (C) " in inner and inner.endswith("KeyError: 'first'\n")
    assert report(exc, chain=False) == "".join(traceback.format_exception(exc, chain=False))


def test_chain_false_shows_one_error(border):
    exc = caught(border.call, with_cause)
    assert "first" not in report(exc, chain=False).split("ValueError: second")[1]
    assert stacksplice.error_info(exc).format(chain=False) == report(exc, chain=False)


def test_a_cause_that_came_later_is_shown(border):
    exc = caught(border.call, boom, ValueError("x"))
    exc.__cause__ = OSError("later")
    assert report(exc).startswith("OSError: later\n" + CAUSE)


@pytest.mark.parametrize("levels, known", [(7, True), (8, False)])
def test_a_gap_stands_for_callers_behind_too_many_exceptions(levels, known):
    def level(number):
        try:
            if number == 0:
                raise ValueError("first")
            level(number - 1)
        except ValueError:
            raise ValueError("again")

    error = stacksplice.originate(caught(level, levels - 1))
    while error.transformed is not None:
        error = error.transformed
    # Each of the exceptions around the first knows the caller of one more frame.
    outermost = [frame for frame in error.stack if frame.kind == "gap"][-1]
    assert error.message == "first" and (outermost.reason != CAUGHT_BEFORE) == known
    assert len([frame for frame in error.stack if (frame.function or "").endswith("level")]) == min(levels, 8)
