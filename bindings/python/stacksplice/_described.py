"""An exception as the fields that tracers and logs have names for."""

from __future__ import annotations

from . import _redaction
from ._live import _message, story_of
from ._unhandled import log_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._errors import ErrorInfo


def code_of(info: ErrorInfo) -> str:
    """The HRESULT, in hexadecimal."""
    return f"0x{info.hresult & 0xFFFFFFFF:08x}"


class Described:
    """Type, message and stack trace of an exception; INFO is its error, if it crossed a border."""

    def __init__(self, exc: BaseException) -> None:
        module, name = type(exc).__module__, type(exc).__qualname__
        self.type = name if module in (None, "builtins") else f"{module}.{name}"
        self.message = _redaction.text_of(_message(exc))
        self.info: ErrorInfo | None = story_of(exc)
        text = log_text(exc)
        if text is None:
            import traceback

            shown = traceback.TracebackException.from_exception(exc, compact=True)
            _redaction.clean_traceback(shown)
            text = "".join(shown.format()).rstrip("\n")
        self.stack_trace = text
