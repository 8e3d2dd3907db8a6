"""Notes: they leave with an error, arrive with it, and are shown."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence

import pytest
import stacksplice
from raising import boom, caught, report
from stacksplice import ErrorInfo
from test_causes import noted


def test_notes_leave_and_are_shown(border, native):
    exc = caught(border.call, noted)
    info = stacksplice.error_info(exc)
    assert info.notes == ["größe \ud800", "two\nlines"]
    assert native.read(exc)[3] == ["größe \ufffd\ufffd\ufffd", "two\nlines"]
    assert info.to_dict()["notes"] == ["größe \ufffd", "two\nlines"]
    assert "ValueError: noted\ngröße \ud800\ntwo\nlines\n" in report(exc)  # as in a traceback
    for text in (info.format(), ErrorInfo.from_dict(info.to_dict()).format()):
        title, _, rest = text.partition("ValueError: noted")[2].partition("\n")
        assert rest.startswith("note: größe") and "\nnote: two\n| lines\n" in rest


def test_notes_that_were_added_later_are_shown(border, native):
    exc = caught(border.call, boom, ValueError("x"))
    info = stacksplice.error_info(exc)
    assert info.notes == []
    exc.add_note("later")
    assert info.notes == ["later"] and "\nlater\n" in report(exc) and '"later"' in info.to_json()
    exc.add_note("later")
    assert native.read(exc)[3] == ["later", "later"]
    exc.__notes__[:] = ["changed"]
    assert native.read(exc)[3] == ["later", "later", "changed"]


def test_notes_of_native_errors_arrive(native):
    exc = caught(native.fail, None, False, [], ["from C", "twice"])
    assert exc.__notes__ == ["from C", "twice"]
    exc.add_note("from Python")
    assert native.read(exc)[3] == ["from C", "twice", "from Python"]
    own = ValueError("own")
    assert native.note(own, "by C") == 0
    assert stacksplice.error_info(own).notes == ["by C"] and "\nby C\n" in report(own)


class Unprintable:
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


class Refuses(Exception):
    @property
    def __notes__(self):
        raise OSError("no notes")


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ([1, None], ["1", "None"]),
        (("a", "tuple"), ["a", "tuple"]),
        ([Unprintable()], ["<note str() failed>"]),
        (5, ["5"]),
        ("text", ["'text'"]),
        (Unprintable(), ["<__notes__ repr() failed>"]),
        (None, []),
        ([], []),
    ],
)
def test_broken_notes_are_told_as_a_traceback_tells_them(border, notes, told):
    exc = ValueError("x")
    exc.__notes__ = notes
    info = stacksplice.error_info(caught(border.call, boom, exc))
    assert info.notes == told
    if not isinstance(notes, str):  # of which older ones show each character
        shown = "".join(traceback.format_exception_only(exc)).splitlines()
        assert shown[1:] == told


def test_another_sequence_is_one_note(border):
    exc = ValueError("x")
    exc.__notes__ = range(2)
    assert stacksplice.error_info(caught(border.call, boom, exc)).notes == ["range(0, 2)"]


def test_notes_that_cannot_be_had(border):
    info = stacksplice.error_info(caught(border.call, boom, Refuses()))
    assert info.notes == ["Ignored error getting __notes__: OSError('no notes')"]


def test_notes_are_bounded_and_say_so(border, native):
    exc = ValueError("x")
    exc.__notes__ = [str(number) for number in range(10_000)]
    notes = stacksplice.error_info(caught(border.call, boom, exc)).notes
    assert len(notes) == 150 and notes[-1] == "... 9851 more notes"
    plain = caught(border.call, boom, ValueError("y"))
    results = [native.note(plain, "again") for _ in range(200)]
    assert results == [0] * 150 + [1] * 50


class Endless(list):
    def __iter__(self):
        return map(str, itertools.count())


class EndlessSequence(Sequence):
    def __len__(self):
        return 1

    def __getitem__(self, number):
        return str(number)


@pytest.mark.parametrize("kind", [Endless, EndlessSequence])
def test_notes_without_end_have_one(border, kind):
    """Without the bound this test does not end."""
    exc = ValueError("x")
    exc.__notes__ = kind()
    for raised in (caught(boom, exc), caught(border.call, boom, exc)):
        text = report(raised)
        assert text.endswith("\n148\n149\n... more notes\n") or text.endswith("\n147\n148\n... more notes\n")
    notes = stacksplice.error_info(exc).notes
    assert len(notes) == 1 if kind is EndlessSequence else notes[148:] == ["148", "... more notes"]
