"""Reports in Python's order, newest last, under the names of the ``traceback`` module."""

from __future__ import annotations

import os
import sys

from .._base.hints import Any
from .behind import set_traceback, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_NO_EXCEPTION = "NoneType: None\n"  # as the traceback module says it


class _Implicit:
    """Stands for an argument that was not given, under the name that the traceback module has for it."""

    def __repr__(self) -> str:
        return "<implicit>"


_implicit = _Implicit()


def _text_of(exc: BaseException, shown: tuple[int | None, bool], chain: bool, **style: bool) -> str:
    from .live import Shown, text_of  # many programs never report

    return text_of(exc, chain, Shown(*shown), **style)


def _is_file(value: object) -> bool:
    return hasattr(value, "write")


def _checked(exc: object) -> BaseException | None:
    if exc is None or isinstance(exc, BaseException):
        return exc
    raise TypeError(f"exc must be an exception, not {type(exc).__name__}")


def _exception_of(exc: Any, value: Any, tb: Any) -> tuple[BaseException | None, Any]:
    """The exception that is meant, and its traceback: by one argument or, as before Python 3.10, by three."""
    if (value is _implicit) != (tb is _implicit):
        raise ValueError("Both or neither of value and tb must be given")
    if value is _implicit:
        found = _checked(exc)
        return found, traceback_of(found) if found is not None else None
    return _checked(value), tb


def _text_with(exc: BaseException | None, tb: Any, limit: int | None, chain: bool, **style: bool) -> str:
    """The report of EXC with the traceback TB."""
    if limit is not None:
        from operator import index  # many programs never limit

        limit = index(limit)
    if exc is None:
        return _NO_EXCEPTION
    whole = traceback_of(exc)
    if tb is whole:
        return _text_of(exc, (limit, False), chain, **style)
    set_traceback(exc, tb)
    try:
        return _text_of(exc, (limit, True), chain, **style)
    finally:
        set_traceback(exc, whole)


def wants_color(file: TextIO) -> bool:
    """Whether colours are wanted in FILE: a terminal, and none of the usual switches says no."""
    environ = {} if sys.flags.ignore_environment else os.environ
    if environ.get("PYTHON_COLORS") in ("0", "1"):
        return environ.get("PYTHON_COLORS") == "1"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return environ.get("TERM") != "dumb" and is_terminal(file)


def is_terminal(file: TextIO) -> bool:
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):
        return False


def style_of(file: TextIO) -> dict[str, bool]:
    """How ErrorInfo.format writes for FILE."""
    return {"color": wants_color(file), "shorten": is_terminal(file)}


def write(file: TextIO, text: str) -> None:
    """TEXT to FILE, whatever that can encode."""
    try:
        file.write(text)
    except UnicodeEncodeError:
        encoding = getattr(file, "encoding", None) or "ascii"
        file.write(text.encode(encoding, "backslashreplace").decode(encoding))


def format_exception(
    exc: Any,
    /,
    value: Any = _implicit,
    tb: Any = _implicit,
    limit: int | None = None,
    chain: bool = True,
    *,
    colorize: bool = False,
) -> list[str]:
    """The combined report of an exception as lines, each ending in a newline.

    Parameters and results are those of ``traceback.format_exception``: either exc, or its type, value and
    traceback.  Where neither the exception nor one of its causes and members crossed a border the text is
    the same, too.  A traceback other than the exception's own is what is shown of its stack.

    limit: how many of Python's frames are shown of each exception, the outermost or, if it is less than 0,
    the innermost ones; None: all, or as sys.tracebacklimit says.  Those of other languages are shown where
    they are between two of these, and inside of the innermost one if none of Python's is left out there.
    Without chain causes are left out, members of a group are not.

    Raises TypeError for what is no exception, ValueError when only one of value and tb is given.
    """
    found, traceback = _exception_of(exc, value, tb)
    return _text_with(found, traceback, limit, chain, color=colorize).splitlines(keepends=True)


def print_exception(
    exc: Any,
    /,
    value: Any = _implicit,
    tb: Any = _implicit,
    limit: int | None = None,
    file: TextIO | None = None,
    chain: bool = True,
    *,
    colorize: bool | None = None,
) -> None:
    """Write the combined report of an exception to file (sys.stderr when None), in colour on a terminal.

    The parameters are those of ``traceback.print_exception``: see `format_exception`.  A file may also stand
    alone behind the exception: ``print_exception(exc, file)``.

    A terminal gets the ends of a long stack, a file all of it.  NO_COLOR, FORCE_COLOR and PYTHON_COLORS are
    honoured where colorize is None.
    """
    if tb is _implicit and (value is None or _is_file(value)):
        value, file = _implicit, value if file is None else file
    found, traceback = _exception_of(exc, value, tb)
    _print(found, traceback, limit, file, chain, colorize)


def _print(
    exc: BaseException | None,
    tb: Any,
    limit: int | None,
    file: TextIO | None,
    chain: bool,
    colorize: bool | None,
) -> None:
    if file is None:
        file = sys.stderr
        if file is None:  # a program without a console
            return
    style = style_of(file)
    if colorize is not None:
        style["color"] = colorize
    write(file, _text_with(exc, tb, limit, chain, **style))


def format_exc(limit: int | None = None, chain: bool = True) -> str:
    """The combined report of the exception being handled, as ``traceback.format_exc`` has it."""
    return _text_with(*_exception_of(sys.exception(), _implicit, _implicit), limit, chain)


def print_exc(
    limit: Any = None,
    file: TextIO | None = None,
    chain: bool = True,
    *,
    colorize: bool | None = None,
) -> None:
    """Write the combined report of the exception being handled, as ``traceback.print_exc`` does.

    A file may also come first: ``print_exc(file)``.  Else parameters are as of `print_exception`.
    """
    if _is_file(limit):
        limit, file = None, limit
    found, traceback = _exception_of(sys.exception(), _implicit, _implicit)
    _print(found, traceback, limit, file, chain, colorize)
