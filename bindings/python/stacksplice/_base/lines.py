"""Stacks as lines for people."""

from __future__ import annotations

import sys
from itertools import groupby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_EQUAL_SHOWN = 3  # as Python's tracebacks and our reports show


def folded(frames: Iterable[str]) -> Iterator[str]:
    """The texts of FRAMES; of more than three equal ones in a row, the rest is counted."""
    for text, run in groupby(frames):
        count = len(list(run))
        yield from [text] * min(count, _EQUAL_SHOWN)
        more = count - _EQUAL_SHOWN
        if more > 0:
            yield f"    [Previous frame repeated {more} more time{'s' if more > 1 else ''}]\n"


def hidden(count: int) -> Iterator[str]:
    """A line that counts the frames inside of interpreters that are not shown."""
    if count:
        yield f"    ... {count} glue frame{'s' if count > 1 else ''} hidden\n"


def limit() -> int | None:
    """How many frames of a traceback are shown, the outermost (sys.tracebacklimit); None: all."""
    most = getattr(sys, "tracebacklimit", None)
    return max(most, 0) if isinstance(most, int) else None
