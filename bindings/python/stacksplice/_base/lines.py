"""Stacks as lines for people."""

from __future__ import annotations

import sys
from _collections_abc import Iterable, Iterator  # loaded at every start of Python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_MOST_ROUNDS, _LONGEST_ROUND = 3, 8  # as our reports show


def folded(frames: Iterable[str]) -> Iterator[str]:
    """The texts of FRAMES; of a cycle of up to eight, what comes after three rounds is counted."""
    texts, at = list(frames), 0
    while at < len(texts):
        for period in range(1, _LONGEST_ROUND + 1):
            end = at
            while end + period < len(texts) and texts[end] == texts[end + period]:
                end += 1
            rounds = (end - at) // period + 1
            if rounds > _MOST_ROUNDS:
                break
        else:
            period = rounds = 1
        yield from texts[at : at + period * min(rounds, _MOST_ROUNDS)]
        at += period * rounds
        if rounds > _MOST_ROUNDS:
            which, more = "line" if period == 1 else f"{period} frames", rounds - _MOST_ROUNDS
            yield f"    [Previous {which} repeated {more} more time{'s' if more > 1 else ''}]\n"


def limits(entry: TracebackType | None, most: int | None) -> bool:
    """Whether a limit of MOST leaves out any of a traceback that begins with ENTRY, which may be None."""
    if most is None:
        return False
    more = abs(most)
    while entry is not None and more >= 0:
        entry, more = entry.tb_next, more - 1
    return more < 0


def limit(given: int | None = None) -> int | None:
    """How many frames of a traceback are shown, the outermost or, if less than 0, the innermost: as many as
    GIVEN, else as sys.tracebacklimit says; None: all."""
    if given is not None:
        return given
    most = getattr(sys, "tracebacklimit", None)
    return max(most, 0) if isinstance(most, int) else None
