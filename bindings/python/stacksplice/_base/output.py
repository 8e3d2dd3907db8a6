"""What the commands print, wherever it goes."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager

from .hints import Iterator
from .plain import plain


def columns(descriptor: int) -> int:
    """How wide the terminal of DESCRIPTOR is: COLUMNS, or else what the kernel says; 80 for what is none."""
    text = os.environ.get("COLUMNS", "")
    try:
        return int(text) if text.isdigit() and int(text) else os.get_terminal_size(descriptor).columns or 80
    except (OSError, ValueError):
        return 80


def warn(message: str) -> None:
    """Say what a command does not do."""
    show_progress("")
    print(f"stacksplice: {plain(message)}", file=sys.stderr)


def fail(message: str) -> int:
    """Say why a command cannot do its work; the exit status for that."""
    warn(message)
    return 2


def interrupted(message: str = "interrupted") -> int:
    """Say that the user has ended the command; the exit status for that."""
    warn(message)
    return 130


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


def write_file(text: str, path: str) -> int:
    """Write TEXT to PATH, or to standard output if that is "-"; the exit status."""
    if path == "-":
        write(text)
        return 0
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        return fail(f"cannot write {path}: {exc.strerror}")
    return 0


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


_is_shown = False


def show_progress(text: str, part: float | None = None) -> None:
    """TEXT and a bar of the PART that is done, in a line of the terminal that the next one is written over;
    no text ends it."""
    global _is_shown
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    if not text and not _is_shown:
        return
    _is_shown = bool(text)
    width = columns(2) - 1
    room = min(width - len(text) - 3, 30)
    if text and part is not None and room > 3:
        text = f"[{'#' * int(part * room):{room}}] {text}"
    print(f"\r{text[:width]}\x1b[K", end="" if text else "\r", file=sys.stderr, flush=True)
