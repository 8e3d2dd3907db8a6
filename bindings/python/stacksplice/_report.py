"""Reports in Python's order, newest last, under the names of the ``traceback`` module."""

from __future__ import annotations

import os
import sys
from _thread import get_native_id

from . import _stacksplice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from ._errors import ErrorInfo
    from ._frames import Stack


def _check_exception(exc: object) -> None:
    if not isinstance(exc, BaseException):
        raise TypeError(f"exc must be an exception, not {type(exc).__name__}")


def wants_color(file: TextIO) -> bool:
    """Whether colours are wanted in FILE: a terminal, and none of the usual switches says no."""
    environ = {} if sys.flags.ignore_environment else os.environ
    if environ.get("PYTHON_COLORS") in ("0", "1"):
        return environ.get("PYTHON_COLORS") == "1"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    if environ.get("TERM") == "dumb":
        return False
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):
        return False


def _raised_again(exc: BaseException) -> str:
    """Where an exception that came from another process passed in this one."""
    import traceback

    lines = traceback.format_tb(exc.__traceback__)
    thread = f"thread {get_native_id()} of process {os.getpid()}"
    return "".join([f"Raised again in {thread} (most recent call last):\n", *lines]) if lines else ""


def _text(exc: BaseException, color: bool) -> str:
    info = _stacksplice.error_info(exc)
    if info is None:
        import traceback

        return "".join(traceback.format_exception(exc))
    text: str = info.format(color=color)
    if info.process is not None:
        text += _raised_again(exc)
    elif info.thread_id != get_native_id():
        text += f"Reported by thread {get_native_id()}\n"
    try:
        notes = getattr(exc, "__notes__", None)
    except Exception:  # its own __getattribute__ failed: the report is worth more than its notes
        notes = None
    if isinstance(notes, (list, tuple)):
        text += "".join(f"{note}\n" for note in notes if isinstance(note, str))
    return text


def format_exception(exc: BaseException, /) -> list[str]:
    """The combined report of exc as lines, each ending in a newline.

    For an exception that crossed no border it equals ``traceback.format_exception(exc)``.
    Raises TypeError when exc is not an exception.
    """
    _check_exception(exc)
    return _text(exc, False).splitlines(keepends=True)


def print_exception(exc: BaseException, /, file: TextIO | None = None) -> None:
    """Write the combined report of exc to file (sys.stderr when None), in colour on a terminal.

    NO_COLOR, FORCE_COLOR and PYTHON_COLORS are honoured.  Raises TypeError when exc is not an
    exception.
    """
    _check_exception(exc)
    if file is None:
        file = sys.stderr
        if file is None:  # as in a program without a console
            return
    text = _text(exc, wants_color(file))
    try:
        file.write(text)
    except UnicodeEncodeError:
        encoding = getattr(file, "encoding", None) or "ascii"
        file.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _handled() -> BaseException | None:
    return sys.exc_info()[1]


def format_exc() -> str:
    """The combined report of the exception being handled, as ``traceback.format_exc`` has it."""
    exc = _handled()
    return "NoneType: None\n" if exc is None else _text(exc, False)


def print_exc(file: TextIO | None = None) -> None:
    """Write the combined report of the exception being handled to file (sys.stderr when None)."""
    exc = _handled()
    if exc is not None:
        print_exception(exc, file)
        return
    stream = sys.stderr if file is None else file
    if stream is not None:
        stream.write("NoneType: None\n")


# ---- Reports that were saved ---------------------------------------------------------------------


def _stack_lines(stack: Stack, newest_last: bool, indent: str) -> str:
    lines = stack.format("newest_last" if newest_last else "newest_first")
    return "".join(indent + line for line in lines)


def _place(info: ErrorInfo) -> str:
    """ " of process 4711 (ForkPoolWorker-1) on nodename", if INFO knows."""
    process = info.process
    if process is None:
        return ""
    name = f" ({process['name']})" if process.get("name") else ""
    interpreter = process.get("interpreter")
    inside = f" in interpreter {interpreter}" if interpreter else ""
    return f"{inside} of process {process['id']}{name} on {process['host']}"


def format_remote(info: ErrorInfo, *, newest_last: bool = True) -> str:
    """What an error went through in another process."""
    return "\nBefore that, in another process:\n" + format_saved(info, newest_last=newest_last)


def _one_saved(info: ErrorInfo, newest_last: bool) -> str:
    code = f"0x{info.hresult & 0xFFFFFFFF:08X}"
    name = f"{info.type}: " if info.type else ""
    title = f"{name}{info.message} ({code})\nHRESULT {code}: {info.description}\n"
    order = "last" if newest_last else "first"
    kind = "Traceback for" if newest_last else "Stack of"
    stack = f"{kind} thread {info.thread_id}{_place(info)} (most recent call {order}):\n"
    stack += _stack_lines(info.stack, newest_last, "")
    text = stack + title if newest_last else title + stack
    for number, node in enumerate(info.propagation, 1):
        if number == 1:
            text += "Propagation:\n"
        text += f"  {number}. received by {node.language} on thread {node.thread_id} at:\n"
        text += _stack_lines(node.stack, newest_last, "    ")
    return text


def format_saved(info: ErrorInfo, *, newest_last: bool = True) -> str:
    """The report of an error that was read back: every frame it has, and its causes."""
    text = _one_saved(info, newest_last)
    cause = info.transformed
    while cause is not None:
        text += "\nCaused by:\n" + _one_saved(cause, newest_last)
        cause = cause.transformed
    remote = info.remote
    return text + format_remote(remote, newest_last=newest_last) if remote is not None else text
