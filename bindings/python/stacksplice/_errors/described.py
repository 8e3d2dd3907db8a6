"""An exception as the fields that tracers and logs have names for."""

from __future__ import annotations

from .. import _stacksplice
from .._base import redaction
from .info import ErrorInfo
from .live import _message, log_text


def code_of(info: ErrorInfo) -> str:
    """The HRESULT, in hexadecimal."""
    return f"0x{info.hresult & 0xFFFFFFFF:08x}"


class Described:
    """Type, message and stack trace of an exception; INFO, if a border was crossed, is its error."""

    type: str | None
    info: ErrorInfo | None

    def __init__(self, exc: BaseException | ErrorInfo) -> None:
        if isinstance(exc, ErrorInfo):
            self.type, self.message, self.info = exc.type, redaction.text_of(exc.message), exc
            self.stack_trace = exc.format().rstrip("\n")
            return
        module, name = type(exc).__module__, type(exc).__qualname__
        self.type = name if module in (None, "builtins") else f"{module}.{name}"
        self.message = redaction.text_of(_message(exc))
        self.info = _stacksplice.error_info(exc)
        text = log_text(exc)
        if text is None:
            import traceback

            shown = traceback.TracebackException.from_exception(exc, compact=True)
            redaction.clean_traceback(shown)
            text = "".join(shown.format()).rstrip("\n")
        self.stack_trace = text
