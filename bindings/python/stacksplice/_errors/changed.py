"""Lines of source that are not of the code that ran: reports leave them out, and say why."""

from __future__ import annotations

import linecache
import traceback

from .._stacksplice import ErrorHandle

BEGIN = "  ... no lines of "  # of what the core says, and of what is said here


def _reason(file: str, handle: ErrorHandle) -> str | None:
    """Why no line of FILE is shown with the error of HANDLE."""
    known = linecache.cache.get(file, ())
    if len(known) != 4 or known[1] is None:  # of no file: what was typed, or what a loader has
        return None
    return handle.source_reason(file) or handle.source_reason(known[3])


def _without_line(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    bare = traceback.FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False, line="")
    bare.locals = frame.locals
    return bare


def remove_lines(stack: traceback.StackSummary, handle: ErrorHandle) -> list[str]:
    """Take the lines from STACK that did not run, as the time of HANDLE's error tells: no frame is younger.
    What a report then says, each a line."""
    reasons: dict[str, str | None] = {}
    for number, frame in enumerate(stack):
        file = frame.filename
        if file not in reasons:
            reasons[file] = _reason(file, handle)
        if reasons[file] is not None:
            stack[number] = _without_line(frame)
    return [f"  ... {reason}\n" for reason in dict.fromkeys(reasons.values()) if reason is not None]
