"""Exceptions behind an exception, read as C code does: a class can refuse every attribute."""

from __future__ import annotations

_cause = BaseException.__dict__["__cause__"].__get__
_context = BaseException.__dict__["__context__"].__get__
_suppresses = BaseException.__dict__["__suppress_context__"].__get__
_exceptions = BaseExceptionGroup.__dict__["exceptions"].__get__
set_traceback = BaseException.__dict__["__traceback__"].__set__
traceback_of = BaseException.__dict__["__traceback__"].__get__


def behind(exc: BaseException) -> tuple[str, BaseException | None]:
    """What a traceback shows as the reason of EXC."""
    cause = _cause(exc)
    if cause is not None:
        return "cause", cause
    return "context", None if _suppresses(exc) else _context(exc)


def members_of(exc: BaseException) -> tuple[BaseException, ...]:
    """The members of a group; none of any other."""
    members: tuple[BaseException, ...] = ()
    if issubclass(type(exc), BaseExceptionGroup):
        members = _exceptions(exc)
    return members


def inside(exc: BaseException) -> list[BaseException]:
    """The exceptions that a traceback shows with EXC: members of a group, and what led to it."""
    found = [*members_of(exc), behind(exc)[1]]
    return [inner for inner in found if isinstance(inner, BaseException)]
