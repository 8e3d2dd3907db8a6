"""Exceptions as they are now: their causes and members, those that crossed a border and others."""

from __future__ import annotations

import os
from _thread import get_native_id

from . import _stacksplice
from ._story import Story, Teller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._errors import ErrorInfo


# As C code reads them: a class can refuse every attribute.
_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_suppresses = BaseException.__dict__["__suppress_context__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_exceptions = BaseExceptionGroup.__dict__["exceptions"].__get__


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


def story_of(exc: BaseException) -> ErrorInfo | None:
    """The error object of EXC, or of the first exception inside it that has one."""
    waiting, seen = [exc], {id(exc)}
    for one in waiting:  # which grows meanwhile
        info = _stacksplice.error_info(one)
        if info is not None:
            return info
        for inner in _inside(one):
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)
    return None


def _message(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:
        return f"<unprintable {type(exc).__qualname__} object>"


def _plain(exc: BaseException) -> str:
    """What a traceback says of EXC alone."""
    import traceback

    lines: list[str] = []
    if _traceback(exc) is not None:
        kind = "Exception Group Traceback" if issubclass(type(exc), BaseExceptionGroup) else "Traceback"
        lines = [f"{kind} (most recent call last):\n", *traceback.format_tb(_traceback(exc))]
    try:
        lines += traceback.format_exception_only(exc)
    except Exception:  # it reads causes and members, too, as attributes and to any depth
        lines.append(f"{type(exc).__qualname__}: {_message(exc)}\n")
    return "".join(lines)


def _raised_again(exc: BaseException) -> str:
    """Where an exception that came from another process passed in this one."""
    import traceback

    lines = traceback.format_tb(_traceback(exc))
    thread = f"thread {get_native_id()} of process {os.getpid()}"
    return "".join([f"Raised again in {thread} (most recent call last):\n", *lines]) if lines else ""


def _later_notes(exc: BaseException, info: ErrorInfo) -> str:
    """The notes of EXC that INFO does not have."""
    try:
        notes = getattr(exc, "__notes__", None)
    except Exception:  # its own __getattribute__ failed: the report is worth more than its notes
        return ""
    known = info.notes
    texts = [note for note in notes if isinstance(note, str)] if isinstance(notes, (list, tuple)) else []
    return "".join(f"{note}\n" for note in texts if note not in known)


class _LiveTeller(Teller):
    def __init__(self, color: bool) -> None:
        self._color = color

    def head(self, error: BaseException) -> str:
        info = _stacksplice.error_info(error)
        if info is None:
            return _plain(error)
        if info.process is not None:
            return info.format(color=self._color) + _later_notes(error, info) + _raised_again(error)
        return info.format(color=self._color, chain=False)

    def behind(self, error: BaseException) -> tuple[str, BaseException | None]:
        relation, found = _behind(error)
        return relation, found if isinstance(found, BaseException) and not _is_remote(error) else None

    def members(self, error: BaseException) -> tuple[Sequence[BaseException], int] | None:
        if issubclass(type(error), BaseExceptionGroup) and not _is_remote(error):
            return _exceptions(error), 0
        return None


def _is_remote(exc: BaseException) -> bool:
    """Whether the report from another process tells all there is of EXC."""
    info = _stacksplice.error_info(exc)
    return info is not None and info.process is not None


def text_of(exc: BaseException, color: bool, chain: bool = True) -> str:
    """The report of EXC; the traceback module's where nothing in it crossed a border."""
    info = _stacksplice.error_info(exc)
    if (info or (chain and story_of(exc))) is None:
        import traceback

        try:
            return "".join(traceback.format_exception(exc, chain=chain))
        except Exception:  # a cause that is no exception, groups that are too deep
            pass
    story = Story(_LiveTeller(color))
    if chain:
        story.put_with_causes(exc)
    else:
        story.put_alone(exc)
    if info is not None and info.process is None and info.thread_id != get_native_id():
        story.put(f"Reported by thread {get_native_id()}\n")
    return story.text()
