"""install() and uninstall(): combined reports of exceptions that nobody handled, stacks at the raise.

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


def _excepthook(type: type[BaseException], exc: BaseException, traceback: TracebackType | None) -> None:
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


# The tool id of sys.monitoring that is ours, while captures at the raise are on.
_tool: int | None = None
_TOOL_NAME = "stacksplice"
# Those that have no name of their own come first; debuggers, coverage and profilers keep theirs.
_TOOLS = (4, 3, 5)


def _capture_at_raise() -> None:
    """Have the stack of each exception taken where it is raised."""
    global _tool
    if sys.version_info < (3, 12):
        version = sys.version.partition(" ")[0]
        raise NotImplementedError(
            f"capture_at_raise needs sys.monitoring of CPython 3.12 or newer; this is {version}"
        )
    monitoring = sys.monitoring
    if _tool is not None and monitoring.get_tool(_tool) == _TOOL_NAME:
        return
    for tool in _TOOLS:
        try:
            monitoring.use_tool_id(tool, _TOOL_NAME)
        except ValueError:  # somebody's
            continue
        monitoring.register_callback(tool, monitoring.events.RAISE, _stacksplice._raised)
        monitoring.set_events(tool, monitoring.events.RAISE)
        _tool = tool
        return
    holders = ", ".join(f"{tool} by {monitoring.get_tool(tool)!r}" for tool in sorted(_TOOLS))
    raise RuntimeError(f"capture_at_raise needs a tool id of sys.monitoring; held are {holders}")


def _no_capture_at_raise() -> None:
    global _tool
    tool, _tool = _tool, None
    if sys.version_info < (3, 12) or tool is None:
        return
    monitoring = sys.monitoring
    if monitoring.get_tool(tool) == _TOOL_NAME:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.RAISE, None)
        monitoring.free_tool_id(tool)


def install(*, capture_at_raise: bool = False) -> None:
    """Report unhandled exceptions that crossed a border with their combined stack.

    Sets sys.excepthook, threading.excepthook and sys.unraisablehook.  Other exceptions are shown as
    before.  Calling it again changes nothing but what capture_at_raise adds.

    With capture_at_raise the stack of every exception but StopIteration, StopAsyncIteration and
    GeneratorExit is taken where this interpreter first sees it, in the Python frame that raises it
    or that calls the C function which does, native frames outside of it included; without, it is
    put together from __traceback__ when the exception crosses a border, and a gap "unwound" says
    what is missing.  It costs each raise about a capture.  Needs CPython 3.12 (NotImplementedError)
    and one of the tool ids 3, 4 and 5 of sys.monitoring (RuntimeError when others hold them).
    """
    import threading  # not at the top: many programs never need it

    if capture_at_raise:
        _capture_at_raise()
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
    """Put back the hooks that install() found, wherever ours is still the installed one; captures
    at the raise end."""
    import threading

    _no_capture_at_raise()
    if sys.excepthook is _excepthook:
        sys.excepthook = _found.pop("excepthook", sys.__excepthook__)
    if threading.excepthook is _threading_excepthook:
        threading.excepthook = _found.pop("threading", threading.__excepthook__)
    if sys.unraisablehook is _unraisablehook:
        sys.unraisablehook = _found.pop("unraisable", sys.__unraisablehook__)
