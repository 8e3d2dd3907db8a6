"""Reports in Python's order, newest last, under the names of the ``traceback`` module."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def _text_of(exc: BaseException, chain: bool, **style: bool) -> str:
    from .live import text_of  # many programs never report

    return text_of(exc, chain, **style)


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


def format_exception(exc: BaseException, /, *, chain: bool = True) -> list[str]:
    """The combined report of exc as lines, each ending in a newline.

    Where neither exc nor one of its causes and members crossed a border it equals
    ``traceback.format_exception(exc)``.  Without chain causes are left out, members of a group are
    not.  Raises TypeError when exc is not an exception.
    """
    _check_exception(exc)
    return _text_of(exc, chain).splitlines(keepends=True)


def print_exception(exc: BaseException, /, file: TextIO | None = None, *, chain: bool = True) -> None:
    """Write the combined report of exc to file (sys.stderr when None), in colour on a terminal.

    A terminal gets the ends of a long stack, a file all of it.  Without chain causes are left out.
    NO_COLOR, FORCE_COLOR and PYTHON_COLORS are honoured.  Raises TypeError when exc is not an exception.
    """
    _check_exception(exc)
    if file is None:
        file = sys.stderr
        if file is None:  # a program without a console
            return
    write(file, _text_of(exc, chain, **style_of(file)))


def format_exc(*, chain: bool = True) -> str:
    """The combined report of the exception being handled, as ``traceback.format_exc`` has it."""
    exc = sys.exception()
    return "NoneType: None\n" if exc is None else _text_of(exc, chain)


def print_exc(file: TextIO | None = None, *, chain: bool = True) -> None:
    """Write the combined report of the exception being handled to file (sys.stderr when None)."""
    exc = sys.exception()
    if exc is not None:
        print_exception(exc, file, chain=chain)
        return
    stream = sys.stderr if file is None else file
    if stream is not None:
        stream.write("NoneType: None\n")
