"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import os
import sys
import time

_EVERY = 0.1  # seconds
_WIDTH = 30


class Progress:
    """How much of WHOLE bytes was read; WHOLE is 0 if nobody knows it."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._next = 0.0
        self._shown = 0  # characters
        self._is_on = (
            sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        )

    def show(self, done: int, reports: int) -> None:
        """Draw it, unless that was done a moment ago."""
        if not self._is_on or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        text = f"{reports:,} reports"
        if self._whole:
            part = min(done / self._whole, 1.0)
            bar = ("#" * int(part * _WIDTH)).ljust(_WIDTH)
            text = f"[{bar}] {part:4.0%}  {text}"
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def end(self) -> None:
        """Remove it."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0
