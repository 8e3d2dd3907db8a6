"""Frames that were made to stand in a traceback and called nothing: of them no seam is told."""

from __future__ import annotations

import _thread
import ctypes
import threading
import types

import pytest
import stacksplice
from gap_reasons import KEPT
from raising import caught, fail

new_frame = ctypes.pythonapi.PyFrame_New
new_frame.restype = ctypes.py_object
new_frame.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p]
new_code = ctypes.pythonapi.PyCode_NewEmpty
new_code.restype = ctypes.py_object
new_code.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
thread_state = ctypes.pythonapi.PyThreadState_Get
thread_state.restype = ctypes.c_void_p


def by_c(name: str) -> types.FrameType:
    """As Cython and PyO3 make one: it never runs."""
    return new_frame(thread_state(), new_code(b"made.pyx", name.encode(), 7), {}, None)


def by_python(name: str, **names: str) -> types.FrameType:
    """As jinja2 and tblib make one: the body of a module of another name, which only raises."""
    code = compile("raise LookupError", "made.html", "exec").replace(co_name=name, **names)
    try:
        exec(code, {}, {})
    except LookupError as exc:
        return exc.__traceback__.tb_next.tb_frame
    raise AssertionError("no error")


def by_python_throughout(name: str) -> types.FrameType:
    return by_python(name, co_qualname=name)


def put_before(traceback, *frames):
    for frame in frames:
        traceback = types.TracebackType(traceback, frame, frame.f_lasti, 7)
    return traceback


def told(exc) -> list[str]:
    """Functions of this file and fail(), "made", and the reasons of seams; innermost first."""
    files = (__file__, fail.__code__.co_filename)
    words = []
    for frame in stacksplice.originate(exc).stack:
        if frame.asynchronous:
            words.append(frame.reason)
        elif frame.file in ("made.pyx", "made.html"):
            words.append("made")
        elif frame.file in files:
            words.append(frame.function.rpartition(".")[2])
    return words


@pytest.mark.parametrize("make", [by_c, by_python, by_python_throughout])
def test_made_frames_have_no_seam_around_them(make):
    def through():
        try:
            fail()
        except ValueError as exc:
            inner = exc.__traceback__.tb_next
            raise exc.with_traceback(put_before(inner, make("inner"), make("outer"))) from None

    assert told(caught(through))[:5] == ["fail", "made", "made", "through", "caught"]


@pytest.mark.parametrize("make", [by_c, by_python])
def test_seams_elsewhere_in_the_traceback_stay(make):
    def again(kept):
        raise kept

    exc = caught(again, caught(fail))
    exc.with_traceback(put_before(exc.__traceback__, make("made")))
    assert told(exc)[:4] == ["fail", "caught", KEPT, "again"]


def test_the_outermost_frame_of_a_thread_has_a_seam():
    """It has no caller, as one that never ran; but it ran."""
    kept = []

    done = threading.Event()

    def outermost():
        try:
            fail()
        except ValueError as exc:
            kept.append(exc)
        done.set()

    def again():
        raise kept[0]

    _thread.start_new_thread(outermost, ())
    assert done.wait(60)
    assert kept[0].__traceback__.tb_frame.f_back is None
    assert told(caught(again))[:4] == ["fail", "outermost", KEPT, "again"]


def test_a_class_body_is_called_as_others_are():
    def define():
        class Broken:
            fail()

        return Broken

    assert told(caught(define))[:4] == ["fail", "Broken", "define", "caught"]
