"""Exception groups: every member keeps its own stack, chain and notes, wherever the group goes."""

from __future__ import annotations

import pickle
import traceback

import pytest
import stacksplice
from gap_reasons import NEVER_RAISED
from raising import boom, caught, first, names, reasons, report, with_cause
from stacksplice import HResultErrorGroup
from subinterpreters import INTERPRETERS


def make_group():
    """A group of an error with a cause, one that was never raised, and a group."""
    inner = caught(boom, ExceptionGroup("inner", [caught(first)]))
    noted = caught(with_cause)
    noted.add_note("a note")
    raise ExceptionGroup("outer", [noted, TypeError("never"), inner])


def test_every_member_keeps_its_story(border, native):
    exc = caught(border.call, make_group)
    assert type(exc) is ExceptionGroup
    info = stacksplice.error_info(exc)
    assert [member.language_exception for member in info.exceptions] == list(exc.exceptions)
    one, never, inner = info.exceptions
    assert names(one.stack)[:2] == ["with_cause", "caught"] and one.notes == ["a note"]
    assert names(one.cause.stack)[:2] == ["first", "with_cause"]
    assert reasons(never.stack) == [NEVER_RAISED] and never.exceptions is None
    assert [member.message for member in inner.exceptions] == ["'first'"]
    assert info.exceptions_left_out == 0
    assert native.read(exc)[1:3] == (3, 0)
    assert native.read(exc)[4] == 2


@pytest.mark.parametrize("kind", ["fingerprint", "loose_fingerprint"])
def test_members_count_in_the_fingerprint(border, kind):
    def group(*members):
        raise ExceptionGroup("g", [caught(boom, member) for member in members])

    def fingerprint(*members):
        return getattr(stacksplice.error_info(caught(border.call, group, *members)), kind)

    one = fingerprint(ValueError("a"), KeyError("b"))
    assert one == fingerprint(KeyError("x"), ValueError("y"), ValueError("z"))
    assert one != fingerprint(ValueError("a"), OSError("b"))


@pytest.mark.parametrize("part", ["split", "subgroup", "derive", "except*"])
def test_parts_keep_the_members_stories(border, part):
    group = caught(border.call, make_group)
    if part == "split":
        rest = group.split(ValueError)[0]
    elif part == "subgroup":
        rest = group.subgroup(lambda exc: isinstance(exc, ValueError))
    elif part == "derive":
        rest = group.derive(group.exceptions[:1])
    else:

        def handle():
            try:
                raise group
            except* (TypeError, KeyError):
                pass

        rest = caught(handle)
        if rest.message != group.message:  # early releases of 3.11 put what is raised again into a group
            (rest,) = rest.exceptions
    assert rest is not group and rest.exceptions[0] is group.exceptions[0]
    told = stacksplice.error_info(rest)
    assert told.language_exception is rest
    assert told.exceptions[0] == stacksplice.error_info(group.exceptions[0])
    text = report(rest)
    rules = [line for line in text.splitlines() if "+" in line]
    assert rules == [line for line in "".join(traceback.format_exception(rest)).splitlines() if "+" in line]
    assert "\n    | ValueError: second\n    | a note\n" in text
    again = stacksplice.error_info(caught(border.call, boom, rest))
    assert again.exceptions[0] == stacksplice.error_info(group.exceptions[0])


def test_shared_members_are_shown_once(border):
    member = caught(first)
    group = ExceptionGroup("g", [member, member])
    info = stacksplice.error_info(caught(border.call, boom, group))
    assert info.exceptions[0] == info.exceptions[1]
    assert (
        info.format().count("KeyError: 'first'") == 1 and "    | an error of this report\n" in info.format()
    )
    assert report(group).count("KeyError: 'first'") == 2  # as in a traceback


def test_large_and_deep_groups_are_bounded_and_say_so(border, native):
    group = ExceptionGroup("large", [ValueError(str(number)) for number in range(5000)])
    info = stacksplice.error_info(caught(border.call, boom, group))
    assert len(info.exceptions) == 256 and info.exceptions_left_out == 5000 - 256
    assert "    | and 4985 more errors\n" in info.format()
    assert "    | and 4985 more exceptions\n" in report(group)
    data = info.to_dict()
    assert len(data["exceptions"]) + data["exceptions_left_out"] == 5000
    deep = ValueError("deep")
    for _ in range(2000):
        deep = ExceptionGroup("g", [deep])
    info = stacksplice.error_info(caught(border.call, boom, deep))
    assert native.read(deep)[4] == 63
    assert " and 1 more error\n" in info.format() and "... (max_group_depth is 10)\n" in report(deep)
    assert "exceptions_left_out" in info.to_json()
    for number in range(400):  # one border each time
        deep = ExceptionGroup(str(number), [deep])
        assert caught(border.call, boom, deep) is deep
    assert native.read(deep)[4] <= 150


def test_a_group_of_c_arrives_as_a_group(border, native):
    own = caught(first)
    foreign = caught(native.fail, None, False, [], ["of C"])
    exc = caught(native.fail, None, False, [own, foreign], ["noted"])
    assert type(exc) is HResultErrorGroup and isinstance(exc, ExceptionGroup)
    assert exc.exceptions == (own, foreign) and exc.hresult == -2147467259
    assert exc.__notes__ == ["noted"] and exc.message == "in C"
    matched, rest = exc.split(KeyError)
    assert type(matched) is HResultErrorGroup and matched.exceptions == (own,)
    assert rest.exceptions == (foreign,)
    assert caught(border.call, boom, exc) is exc
    assert stacksplice.error_info(exc).exceptions[1].notes == ["of C"]
    assert type(pickle.loads(pickle.dumps(HResultErrorGroup(-1, "m", [ValueError()])))) is HResultErrorGroup


def test_an_interrupt_among_members_of_c_arrives_as_a_single_error(native):
    exc = caught(native.fail, None, False, [KeyboardInterrupt()], [])
    assert type(exc) is stacksplice.HResultError
    assert stacksplice.error_info(exc).exceptions[0].type == "KeyboardInterrupt"


def test_base_exception_groups(border):
    group = BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError("x")])
    assert caught(border.call, boom, group) is group
    info = stacksplice.error_info(group)
    assert [member.type for member in info.exceptions] == ["KeyboardInterrupt", "ValueError"]


def test_a_group_of_another_interpreter_arrives_by_value(child):
    done = child(
        INTERPRETERS
        + """
number = run('''
import stacksplice
def first():
    raise KeyError("first")
def member():
    try:
        first()
    except KeyError:
        raise ValueError("member")
def outer():
    try:
        member()
    except ValueError as exc:
        exc.add_note("a note")
        raise ExceptionGroup("outer", [exc, OSError("never")]) from exc
try:
    outer()
except ExceptionGroup as exc:
    stacksplice.originate(exc)
''')
info = stacksplice.peek_error()
try:
    stacksplice._stacksplice.raise_error(info.hresult)
except* ValueError as group:
    (exc,) = group.exceptions
    assert type(group) is stacksplice.HResultErrorGroup, type(group)
    assert group.__cause__ is exc and group.__suppress_context__
    assert isinstance(exc, stacksplice.HResultError) and exc.__notes__ == ["a note"]
    assert isinstance(exc.__context__, LookupError) and exc.__cause__ is None
    found = stacksplice.error_info(exc)
    assert found.type == "ValueError" and kinds(found.context.stack)[:3] == ["first", "member", "outer"]
    interpreters.destroy(number)
    text = "".join(stacksplice.format_exception(group))
    assert "During handling of the above exception, another" in text and "KeyError: 'first'" in text, text
    print("arrived")
except* stacksplice.HResultError:
    pass
"""
    )
    assert done.stdout == "arrived\n"


def test_what_a_pickled_report_has_no_room_for_is_counted(border):
    group = ExceptionGroup("g", [ValueError("x" * 9000) for _ in range(100)])
    for member in group.exceptions:
        member.__cause__ = KeyError("y" * 9000)
    caught(border.call, boom, group)
    found = stacksplice.error_info(pickle.loads(pickle.dumps(group)))
    assert len(found.exceptions) + found.exceptions_left_out == 100
    rest = found.exceptions_left_out
    assert rest > 0 and f" and {rest} more errors\n" in found.format()
