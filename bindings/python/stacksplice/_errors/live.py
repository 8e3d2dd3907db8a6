"""Exceptions as they are now: their causes and members, those that crossed a border and others.

Python's traceback module writes the report (traceback.py).  Where an error came from another process,
and where that fails, the core does (report_text.c); here is found out what is in it.
"""

from __future__ import annotations

import os
from _thread import get_native_id

from .. import _stacksplice
from .._base.lines import limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .info import ErrorInfo

# More than the core shows, so that it can report that there are more.
_MOST_CAUSES = 17  # in a chain
_MOST_MEMBERS = 15  # of one group
_MOST_DEPTH = 10  # groups in groups
_MOST_ERRORS = 256


# Read like C code does: a class can refuse every attribute.
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_suppresses = BaseException.__dict__["__suppress_context__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_exceptions = BaseExceptionGroup.__dict__["exceptions"].__get__
_module = type.__dict__["__module__"].__get__


def _behind(exc: BaseException) -> tuple[str, BaseException | None]:
    """What a traceback shows as the reason of EXC."""
    cause = _cause(exc)
    if cause is not None:
        return "cause", cause
    return "context", None if _suppresses(exc) else _context(exc)


def _inside(exc: BaseException) -> list[BaseException]:
    """The exceptions that a traceback shows with EXC: members of a group, and what led to it."""
    found = [*(_exceptions(exc) if issubclass(type(exc), BaseExceptionGroup) else ()), _behind(exc)[1]]
    return [inner for inner in found if isinstance(inner, BaseException)]


def all_of(exc: BaseException) -> Iterator[BaseException]:
    """EXC, then what a traceback shows with it, each once."""
    found, seen = [exc], {id(exc)}
    for one in found:  # which grows during the loop
        yield one
        for inner in _inside(one):
            if id(inner) not in seen:
                seen.add(id(inner))
                found.append(inner)


def story_of(exc: BaseException) -> ErrorInfo | None:
    """The error object of EXC, or of the first exception inside it that has one."""
    for one in all_of(exc):
        info = _stacksplice.error_info(one)
        if info is not None:
            return info
    return None


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


def _plain(exc: BaseException) -> str:
    """What a traceback says of EXC alone, but that no text of EXC looks like another line of it."""
    import traceback

    lines: list[str] = []
    if _traceback(exc) is not None:
        kind = "Exception Group Traceback" if issubclass(type(exc), BaseExceptionGroup) else "Traceback"
        lines = [f"{kind} (most recent call last):\n"]
        lines += [_own_lines(entry, "  ") for entry in traceback.format_tb(_traceback(exc))]
    try:
        alone = traceback.TracebackException(type(exc), exc, None, compact=True)
        alone.__notes__ = []
        lines += map(_own_lines, alone.format_exception_only())
    except Exception:  # it also reads causes and members, as attributes and to any depth
        lines.append(_own_lines(f"{type(exc).__qualname__}: {_message(exc)}"))
    return "".join([*lines, *[_own_lines(f"note: {note}") for note in _notes(exc)]])


def _raised_again(exc: BaseException) -> str:
    """Where an exception that came from another process passed in this one."""
    import traceback

    lines = traceback.format_tb(_traceback(exc))
    thread = f"thread {get_native_id()} of process {os.getpid()}"
    return "".join([f"Raised again in {thread} (most recent call last):\n", *lines]) if lines else ""


def _notes(exc: BaseException) -> list[str]:
    try:
        notes = getattr(exc, "__notes__", None)
    except Exception:  # its own __getattribute__ failed: the report is worth more than its notes
        return []
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, (list, tuple)) else []


def _with_later_notes(exc: BaseException, data: dict[str, Any]) -> dict[str, Any]:
    """DATA, which is of EXC, with the notes that EXC got since."""
    known = data.get("notes") or []
    later = [note for note in _notes(exc) if note not in known]
    return {**data, "notes": [*known, *later]} if later and isinstance(known, list) else data


def _type_of(exc: BaseException, info: ErrorInfo) -> str:
    """The type of EXC as a traceback names it, where others made EXC for an error of another language,
    as lupa does with LuaError; "" where the error's own type says more."""
    module = _module(type(exc))
    if info.language == "python" or not isinstance(module, str) or module.startswith("stacksplice"):
        return ""
    prefix = "" if module in ("builtins", "__main__") else f"{module}."
    return f"{prefix}{type(exc).__qualname__}"


# Of a report, what Python itself knows of the exception.
_AROUND = ("exceptions", "exceptions_left_out", "transformed", "transformed_left_out", "transformed_above")
_NOTHING: dict[str, Any] = {"hresult_signed": 0, "message": "", "stack": [], "propagation": []}


def _from_elsewhere(exc: BaseException, info: ErrorInfo) -> dict[str, Any]:
    """The report of INFO, which is of another process and has all that belongs to EXC."""
    from .remote import _errors_in

    report = _with_later_notes(exc, info.to_dict())
    for error in _errors_in(report):
        if "reference" in error:  # a number of that process
            error["reference"] = f"{id(exc)}: {error['reference']}"
    return report


class _Telling:
    """Exceptions as the core's formatter takes them, each once, in the order in which it shows them."""

    def __init__(self, color: bool, chain: bool) -> None:
        self._color = color
        self._chain = chain
        self._seen: dict[int, BaseException] = {}  # by identity, valid while this keeps them

    def error(self, exc: BaseException, depth: int, number: int) -> dict[str, Any]:
        """The report of EXC, which is in DEPTH groups, and behind NUMBER others."""
        report = {**_NOTHING, "as_text": ""}
        if id(exc) not in self._seen and len(self._seen) <= _MOST_ERRORS and number < _MOST_CAUSES:
            self._seen[id(exc)] = exc
            report = self._whole(exc, depth, number)
        return {**report, "reference": str(id(exc))}

    def _whole(self, exc: BaseException, depth: int, number: int) -> dict[str, Any]:
        info = _stacksplice.error_info(exc) if limit() is None else None  # Python's own text knows limits
        if info is not None and info.process is not None:
            passed = info._format_remote(True, False, self._color) + _raised_again(exc)
            return {**_from_elsewhere(exc, info), "passed": passed}
        around = self._cause(exc, depth, number)  # it is shown first
        around |= self._members(exc, depth)
        if info is None:
            return {**_NOTHING, "as_text": _plain(exc), **around}
        report = {name: value for name, value in info.to_dict().items() if name not in _AROUND}
        report["type"] = _type_of(exc, info) or report["type"]
        return {**report, "passed": info._format_remote(True, False, self._color), **around}

    def _members(self, exc: BaseException, depth: int) -> dict[str, Any]:
        if not issubclass(type(exc), BaseExceptionGroup):
            return {}
        shown: tuple[dict[str, Any], ...] = ()
        left_out = 0
        for member in _exceptions(exc):
            full = len(shown) == _MOST_MEMBERS or len(self._seen) >= _MOST_ERRORS
            if full or depth == _MOST_DEPTH:
                left_out += 1
            else:
                # No list: without memory, append of CPython 3.15.0 frees its argument twice.
                shown += (self.error(member, depth + 1, 0),)
        return {"exceptions": shown, "exceptions_left_out": left_out}

    def _cause(self, exc: BaseException, depth: int, number: int) -> dict[str, Any]:
        relation, found = _behind(exc)
        if not self._chain or not isinstance(found, BaseException):
            return {}
        return {"transformed": [{**self.error(found, depth, number + 1), "relation": relation}]}


def _text_by_traceback(exc: BaseException, color: bool, chain: bool) -> str | None:
    """The report with Python's own words; None where Python's traceback module cannot write it."""
    try:
        from . import traceback as _traceback

        return _traceback.text_of(exc, color, chain)
    except Exception:  # a cause that is no exception, groups that are too deep, hostile attributes
        return None


def text_of(exc: BaseException, color: bool, chain: bool = True) -> str:
    """The report of EXC in the order of tracebacks."""
    info = _stacksplice.error_info(exc)
    text = _text_by_traceback(exc, color, chain)
    if text is None:
        import json

        told = json.dumps(_Telling(color, chain).error(exc, 0, 0))
        text = _stacksplice._format_document(told, True, False, color, False)
    if limit() == 0 or info is None or info.process is not None:
        return text
    if info.thread_id != get_native_id():
        text += f"Raised on thread {info.thread_id}, reported by thread {get_native_id()}\n"
    return text


def log_text(exc: BaseException) -> str | None:
    """The combined report of EXC as logs have it, without a line end; None if nothing crossed."""
    return text_of(exc, False).rstrip("\n") if story_of(exc) is not None else None
