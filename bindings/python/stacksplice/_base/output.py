"""What the commands print, wherever it goes."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager

from .plain import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def warn(message: str) -> None:
    """Say what a command does not do."""
    print(f"stacksplice: {plain(message)}", file=sys.stderr)


def fail(message: str) -> int:
    """Say why a command cannot do its work; the exit status for that."""
    warn(message)
    return 2


def _write_no_more() -> None:
    """The interpreter would flush standard output again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str) -> None:
    """TEXT to standard output, whatever it can encode; ends the command if that cannot be written."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as exc:
        _write_no_more()
        sys.exit(fail(f"cannot write to standard output: {exc.strerror}"))


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Whoever reads standard output may go before its end, as `head` does: that is no failure."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more()
