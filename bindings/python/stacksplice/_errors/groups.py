"""HResultErrorGroup: a group of errors that Python did not originate."""

from __future__ import annotations

from _collections_abc import Sequence

from .._stacksplice import HResultError


class HResultErrorGroup(HResultError, ExceptionGroup[Exception]):
    """A group of errors that was not born in this interpreter: in C, or in another interpreter.

    hresult is its HRESULT as a signed int, message its message.  Its members are the exceptions that
    stand for its errors here, those that were born here themselves.
    """

    __module__ = "stacksplice"

    def __new__(cls, hresult: int, message: str, exceptions: Sequence[Exception]) -> HResultErrorGroup:
        return ExceptionGroup.__new__(cls, message, exceptions)

    def __init__(self, hresult: int, message: str, exceptions: Sequence[Exception]) -> None:
        self.hresult: int = HResultError(hresult, message).hresult  # message is the group's own

    def derive(self, excs: Sequence[Exception]) -> HResultErrorGroup:  # type: ignore[override]
        return type(self)(self.hresult, self.message, excs)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.hresult, self.message, self.exceptions), self.__dict__
