"""Exceptions as they are now: their causes and members, those that crossed a border and others.

Python's traceback module writes the report (traceback.py).  Where that fails, the core writes what it knows.
"""

from __future__ import annotations

from _thread import get_native_id
from itertools import islice

from .. import _stacksplice
from .._base import redaction
from .._base.lines import limit, limits
from .behind import inside, traceback_of
from .info import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_MOST_ERRORS, _MOST_NOTES = 256, 150
_is_newest_first = False  # the order that reports have, but those with a limit


def set_newest_first(on: bool) -> None:
    """Have reports begin with the innermost frame, or end with it as Python's tracebacks."""
    global _is_newest_first

    _is_newest_first = on


class Shown:
    """How much of a traceback a report shows: MOST frames, as `limit` has them; IS PART: it is that of a
    caller, who left out some."""

    __slots__ = ("is_part", "most")

    def __init__(self, most: int | None = None, is_part: bool = False) -> None:
        self.most = limit(most)
        self.is_part = is_part


def _message(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:
        return f"<unprintable {type(exc).__qualname__} object>"


def _own_lines(text: str, inner: str = "") -> str:
    """TEXT, one line of a traceback: what would begin a further one, unless with INNER, is marked."""
    first, *rest = text.removesuffix("\n").split("\n")
    marked = [line if inner and line.startswith(inner) else f"| {line}" for line in rest]
    return "".join([f"{line}\n" for line in (first, *marked)])


def _plain(exc: BaseException, most: int | None) -> str:
    """What a traceback of MOST frames says of EXC alone, but that no text of EXC looks like another line of
    it."""
    import traceback

    from .kept import Bounded

    lines: list[str] = []
    if traceback_of(exc) is not None:
        kind = "Exception Group Traceback" if issubclass(type(exc), BaseExceptionGroup) else "Traceback"
        lines = [f"{kind} (most recent call last):\n"]
        with Bounded(traceback_of(exc)):
            lines += [_own_lines(entry, "  ") for entry in traceback.format_tb(traceback_of(exc), most)]
    try:
        alone = traceback.TracebackException(type(exc), exc, None, compact=True)
        alone.__notes__ = []
        lines += map(_own_lines, alone.format_exception_only())
    except Exception:  # it also reads causes and members, as attributes and to any depth
        lines.append(_own_lines(f"{type(exc).__qualname__}: {_message(exc)}"))
    return "".join([*lines, *[_own_lines(f"note: {note}") for note in _notes(exc)]])


def _notes(exc: BaseException) -> list[str]:
    try:
        notes = getattr(exc, "__notes__", None)
    except Exception:  # its own __getattribute__ failed: the report is worth more than its notes
        return []
    if not isinstance(notes, (list, tuple)):
        return []
    found = [note for note in islice(notes, _MOST_NOTES + 1) if isinstance(note, str)]
    return [*found[:_MOST_NOTES], *(["... more notes"] if len(found) > _MOST_NOTES else [])]


# No generator, and no append: without memory CPython 3.12 and 3.13 release the function of one twice, and
# 3.15.0 its argument.
def _text_by_core(exc: BaseException, chain: bool, shown: Shown, style: dict[str, bool]) -> str:
    """The same without that module: each exception by itself, those that led to EXC first."""
    text, found, seen, more = "", [exc], {id(exc)}, ""
    for one in found:  # which grows during the loop
        is_cut = limits(traceback_of(one), shown.most) or (shown.is_part and one is exc)
        info = None if is_cut else _stacksplice._own_info(one)
        part = _plain(one, shown.most) if info is None else info.format(chain=False, **style)
        text = part + (text and "\n") + text
        for inner in inside(one) if chain else ():
            if id(inner) in seen:
                continue
            if len(found) >= _MOST_ERRORS:
                more = "... more errors that are not shown\n\n"
                continue
            seen.add(id(inner))
            found += [inner]
    return more + text


def _text_by_traceback(exc: BaseException, chain: bool, shown: Shown, style: dict[str, bool]) -> str | None:
    """The report with Python's own words; None where Python's traceback module cannot write it."""
    try:
        from . import traceback as _traceback

        return _traceback.text_of(exc, chain, shown, style)
    except Exception:  # a cause that is no exception, groups that are too deep, hostile attributes
        return None


def text_of(exc: BaseException, chain: bool = True, shown: Shown | None = None, **style: bool) -> str:
    """The report of EXC, as much as is SHOWN, in the order of tracebacks and the STYLE that ErrorInfo.format
    takes."""
    info = _stacksplice._own_info(exc)
    came = info is not None and info._came_from_elsewhere
    shown = shown or Shown()
    if _is_newest_first and not shown.is_part and not limits(traceback_of(exc), shown.most):
        try:
            whole = _stacksplice.error_info(exc)
        except MemoryError:  # what follows needs less
            whole = None
        if whole is not None:  # the core's text: Python's traceback module knows one order
            return _with_thread(whole.format(newest_last=False, chain=chain, **style), info, came)
    if info is not None and came and not shown.is_part and not limits(traceback_of(exc), shown.most):
        return info.format(chain=chain, **style)
    text = _text_by_traceback(exc, chain, shown, style)
    if text is None:
        text = _text_by_core(exc, chain, shown, style)
    return text if shown.most == 0 else _with_thread(text, info, came)


def _with_thread(text: str, info: ErrorInfo | None, came: bool) -> str:
    """TEXT, after a line that names the thread of INFO's error if it is another one; none if it CAME from
    elsewhere."""
    if info is None or came:
        return text
    if info.thread_id != get_native_id():
        text = f"Raised on thread {info.thread_id}, reported by thread {get_native_id()}:\n{text}"
    return text


def log_text(exc: BaseException) -> str | None:
    """The combined report of EXC as logs have it, without a line end; None if nothing crossed."""
    return text_of(exc).rstrip("\n") if _stacksplice._crossed(exc) else None


def code_of(info: ErrorInfo) -> str:
    """The HRESULT, in hexadecimal."""
    return f"0x{info.hresult & 0xFFFFFFFF:08x}"


def _type_of(exc: BaseException) -> str:
    module, name = type(exc).__module__, type(exc).__qualname__
    return name if module in (None, "builtins") else f"{module}.{name}"


def report_of(exc: BaseException, info: ErrorInfo, brief: bool) -> dict[str, Any]:
    """The report of INFO, the error of EXC, in full or BRIEF, for a record that will lose EXC.

    Where the error's own words are those of another language "raised_as" has those of EXC: of lupa's
    LuaError the one has the type "table".
    """
    report = info.to_dict(brief=brief)
    told = {"type": _type_of(exc), "message": redaction.text_of(_message(exc))}
    if told != {"type": info.type, "message": report["message"]}:
        report["raised_as"] = told
    return report


def _raised_as(info: ErrorInfo) -> Mapping[str, Any]:
    told = (info._data or {}).get("raised_as")
    return told if isinstance(told, dict) else {"type": info.type, "message": info.message}


class Described:
    """Type, message and stack trace of an exception; INFO, if a border was crossed, is its error."""

    type: str | None
    info: ErrorInfo | None

    def __init__(self, exc: BaseException | ErrorInfo) -> None:
        if isinstance(exc, ErrorInfo):
            told, self.info = _raised_as(exc), exc
            self.type, message = told.get("type"), str(told.get("message") or "")
            self.stack_trace = exc.format().rstrip("\n")
        else:
            self.type, message, self.info = _type_of(exc), _message(exc), _stacksplice.error_info(exc)
            self.stack_trace = text_of(exc).rstrip("\n")
        if not message.strip() and self.info is not None:  # such as lupa's for a table
            message = self.info.message.strip() or self.info.description
        self.message = redaction.text_of(message)
