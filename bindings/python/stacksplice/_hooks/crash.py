"""install(crash=True): reports of crashes, and alternate signal stacks for Python's threads."""

from __future__ import annotations

import threading
from functools import wraps

from .. import _stacksplice
from .._base.hints import Any, Callable
from .lock import lock

_is_ours = False  # the handler: install() put it there, not the host
_thread: Any = threading.Thread  # whose _set_native_id is exchanged
_method: Any = None  # for this one


def _with_alternate_stack(first: Callable[[Any], None]) -> Callable[[Any], None]:
    """FIRST, a method that each thread calls on itself before anything else, and a stack for the thread."""

    @wraps(first)
    def method(self: Any) -> None:
        first(self)
        if _is_ours:
            _stacksplice._crash_thread()

    return method


def _watch_threads() -> None:
    # No hook of threading is called in each new thread but those of profilers.  Wrapping this method
    # leaves no frame on the thread's stack.
    global _method

    first = getattr(_thread, "_set_native_id", None)
    if first is not None and first is not _method:
        _method = _thread._set_native_id = _with_alternate_stack(first)


def _leave_threads() -> None:
    if getattr(_thread, "_set_native_id", None) is _method is not None:
        _thread._set_native_id = _method.__wrapped__


def begin(others_first: bool) -> None:
    global _is_ours

    with lock:
        _is_ours = _stacksplice._install_crash_handler(others_first) or _is_ours
        if _is_ours:
            _watch_threads()


def end() -> None:
    global _is_ours

    with lock:
        if _is_ours:
            _stacksplice._remove_crash_handler()
            _leave_threads()
        _is_ours = False
