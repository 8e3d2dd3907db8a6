"""install() and uninstall(): combined reports of exceptions that nobody handled.

Polite: each hook calls the hook it found, unless that is the interpreter's own, and is removed only
where it is still the installed one.
"""

from __future__ import annotations

import sys

from . import _stacksplice
from ._report import print_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

# Where each hook lives, and the hook that was found there.
_found: dict[str, Callable[..., Any]] = {}


def _crossed(exc: BaseException | None) -> bool:
    return exc is not None and _stacksplice.error_info(exc) is not None


def _excepthook(
    type: type[BaseException], exc: BaseException, traceback: TracebackType | None
) -> None:
    found: Any = _found.get("excepthook", sys.__excepthook__)
    if _crossed(exc):
        print_exception(exc)
        if found is sys.__excepthook__:
            return
    found(type, exc, traceback)


def _threading_excepthook(args: threading.ExceptHookArgs) -> None:
    import threading

    found: Any = _found.get("threading", threading.__excepthook__)
    exc = args.exc_value
    if exc is not None and not isinstance(exc, SystemExit) and _crossed(exc):
        name = args.thread.name if args.thread is not None else threading.get_ident()
        if sys.stderr is not None:
            sys.stderr.write(f"Exception in thread {name}:\n")
        print_exception(exc)
        if found is threading.__excepthook__:
            return
    found(args)


def _unraisablehook(unraisable: sys.UnraisableHookArgs) -> None:
    found: Any = _found.get("unraisable", sys.__unraisablehook__)
    exc = unraisable.exc_value
    if exc is not None and _crossed(exc):
        if sys.stderr is not None:
            message = unraisable.err_msg or "Exception ignored in"
            sys.stderr.write(f"{message}: {_repr(unraisable.object)}\n")
        print_exception(exc)
        if found is sys.__unraisablehook__:
            return
    found(unraisable)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<unprintable {type(value).__name__} object>"


def install() -> None:
    """Report unhandled exceptions that crossed a border with their combined stack.

    Sets sys.excepthook, threading.excepthook and sys.unraisablehook.  Other exceptions are shown as
    before.  Calling it again changes nothing.
    """
    import threading  # not at the top: many programs never need it

    if sys.excepthook is not _excepthook:
        _found["excepthook"] = sys.excepthook
        sys.excepthook = _excepthook
    if threading.excepthook is not _threading_excepthook:
        _found["threading"] = threading.excepthook
        threading.excepthook = _threading_excepthook
    if sys.unraisablehook is not _unraisablehook:
        _found["unraisable"] = sys.unraisablehook
        sys.unraisablehook = _unraisablehook


def uninstall() -> None:
    """Put back the hooks that install() found, wherever ours is still the installed one."""
    import threading

    if sys.excepthook is _excepthook:
        sys.excepthook = _found.pop("excepthook", sys.__excepthook__)
    if threading.excepthook is _threading_excepthook:
        threading.excepthook = _found.pop("threading", threading.__excepthook__)
    if sys.unraisablehook is _unraisablehook:
        sys.unraisablehook = _found.pop("unraisable", sys.__unraisablehook__)
