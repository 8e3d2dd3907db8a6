"""Errors and threads: the exception carries its error, the slots are the threads' own."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import pickle
import threading

import pytest
import stacksplice
import stacksplice.logging
from gap_reasons import KEPT
from racing import race
from raising import caught, fail, in_file, report
from stacksplice import winrt

E_INVALIDARG = -2147024809


def here(stack) -> list[str]:
    return in_file(__file__, stack)


def in_thread(function, *arguments):
    """What FUNCTION returns in a thread of its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    thread.join()
    return results[0]


# ---- The exception carries its error -------------------------------------------------------------


def test_future_of_a_thread_pool(border):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(border.call, fail)
        kept = future.exception()
        info = stacksplice.error_info(kept)
        exc = caught(future.result)
    assert exc is kept and stacksplice.error_info(exc) == info
    assert here(info.stack) == ["fail", KEPT, "caught"] and len(info.propagation) == 1
    assert info.thread_id not in (None, threading.get_native_id())


def test_every_reader_has_who_asked_for_the_result(border):
    opentelemetry = pytest.importorskip("stacksplice.opentelemetry")
    sentry = pytest.importorskip("stacksplice.sentry")

    def ask_for_it():
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(border.call, fail).result()

    def wrap():
        try:
            ask_for_it()
        except ValueError as exc:
            raise ExceptionGroup("group", [exc])

    exc, group = caught(ask_for_it), caught(wrap)
    info = stacksplice.error_info(exc)
    record = logging.makeLogRecord({"exc_info": (type(exc), exc, exc.__traceback__)})
    texts = {
        "report": report(exc),
        "info": info.format(),
        "stack": str(info.stack),
        "JSON": info.to_json(),
        "pickle": stacksplice.error_info(pickle.loads(pickle.dumps(exc))).format(),
        "Sentry": json.dumps(sentry.event(info)),
        "OpenTelemetry": opentelemetry.exception_attributes(exc)["exception.stacktrace"],
        "logging": stacksplice.logging.Formatter().format(record),
        "member": report(group),
        "JSON of the member": stacksplice.originate(group).to_json(),
    }
    stacksplice.take_error()
    assert [name for name, text in texts.items() if "ask_for_it" not in text] == []
    assert [name for name, text in texts.items() if KEPT not in text] == []


def test_the_report_names_both_threads(border):
    exc = in_thread(caught, border.call, fail)
    info = stacksplice.error_info(exc)
    text = "".join(stacksplice.format_exception(exc))
    first = f"Raised on thread {info.thread_id}, reported by thread {threading.get_native_id()}:\n"
    assert text.startswith(f"{first}Traceback (most recent call last):\n")
    assert "reported by thread" not in "".join(in_thread(own_report, border))


def own_report(border):
    return stacksplice.format_exception(caught(border.call, fail))


# ---- The slots are the threads' own --------------------------------------------------------------


def test_a_slot_is_its_threads(border):
    mine = stacksplice.originate(ValueError("mine"))
    assert in_thread(stacksplice.peek_error) is None
    assert in_thread(stacksplice.take_error) is None
    theirs = in_thread(caught, border.raise_error, E_INVALIDARG)
    assert isinstance(theirs, stacksplice.HResultError) and "mine" not in str(theirs)
    in_thread(stacksplice.originate, ValueError("theirs"))
    in_thread(winrt.RoClearError)
    assert stacksplice.take_error() == mine


def test_threads_that_originate_and_raise_at_once(border):
    """One HRESULT for all: each thread gets its own exception back."""
    wrong = []
    start = threading.Barrier(8)

    def work(number):
        start.wait()
        for turn in range(200):
            exc = ValueError(number, turn)
            hresult = border.originate(exc)
            if caught(border.raise_error, hresult) is not exc:
                wrong.append((number, turn))
        if stacksplice.peek_error() is not None:
            wrong.append(number)

    race(work, [(number,) for number in range(8)])
    assert wrong == []


def test_a_pool_thread_does_not_keep_the_last_job_s_error(border):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        caught(pool.submit(border.call, fail).result)
        assert pool.submit(stacksplice.peek_error).result() is None
        pool.submit(stacksplice.originate, ValueError("left behind")).result()
        left = pool.submit(caught, border.raise_error, -2147467259).result()  # of another HRESULT
        assert "left behind" not in str(left)
        assert pool.submit(stacksplice.peek_error).result() is None


def test_saved_error_is_this_threads(border):
    info = stacksplice.originate(ValueError("mine"))
    with stacksplice.saved_error():
        in_thread(stacksplice.originate, ValueError("theirs"))
        assert stacksplice.peek_error() is None
    assert stacksplice.take_error() == info


SMALL_STACK = """
import sys, threading
import border, stacksplice

def report():
    try:
        border.call(lambda: 1 / 0)
    except ZeroDivisionError as exc:
        info = stacksplice.originate(exc)
        assert "ZeroDivisionError" in str(info)
        assert info.to_json() and info.fingerprint
        done.append(True)

done = []
threading.stack_size(int(sys.argv[1]) << 10)
thread = threading.Thread(target=report)
thread.start()
thread.join()
assert done
"""


@pytest.mark.parametrize("kilobytes", [64, 128, 256])
def test_reports_in_a_thread_with_a_small_stack(child, kilobytes):
    """In a process of its own, where no native frame was looked up before."""
    child(SMALL_STACK, str(kilobytes))
