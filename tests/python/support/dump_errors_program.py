"""A program that tests inspect from outside: three threads that have an error each.

It prints one line of JSON, the threads' own reports by their numbers, and does what its argument says:
"wait" until its standard input ends, or "abort".
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Callable

import stacksplice

core = ctypes.CDLL(os.path.join(os.path.dirname(stacksplice.__file__), "libstacksplice.so.0"))
reports: dict[int, dict] = {}


def fail() -> None:
    try:
        raise KeyError("a ключ, \U0001f511")
    except KeyError as exc:
        error = ValueError("password=hunter2")
        error.add_note("while the order was read")
        raise error from exc


def fail_together() -> None:
    members = [TypeError("first"), ExceptionGroup("inner", [OSError(2, "No such file or directory")])]
    raise ExceptionGroup("group", members)


def fail_often() -> None:
    error: Exception = LookupError("the first")
    for number in range(100):
        try:
            raise ValueError(number) from error
        except ValueError as exc:
            error = exc
    raise error


def hold(raising: Callable[[], None], receivers: int) -> None:
    """Make what RAISING raises the error of this thread, which RECEIVERS received since."""
    try:
        raising()
    except Exception as exc:
        error = stacksplice.originate(exc)
        for _ in range(receivers):
            core.stacksplice_propagate(error.hresult, None)
    current = stacksplice.peek_error()
    assert current is not None
    reports[threading.get_native_id()] = current.to_dict()


def other(raising: Callable[[], None]) -> None:
    hold(raising, 0)
    ready.wait()
    threading.Event().wait()


ready = threading.Barrier(3)
for function in (fail_together, fail_often):
    threading.Thread(target=other, args=(function,), daemon=True).start()
ready.wait()
hold(fail, 2)
print(json.dumps(reports), flush=True)
if sys.argv[1] == "abort":
    os.abort()
sys.stdin.read()
