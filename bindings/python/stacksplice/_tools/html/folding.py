"""Which frames of a stack are folded: the inside of interpreters, repeats, the middle of long stacks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .values import Shown

_REPEATS = 3  # of equal frames in a row that are shown, as in a text report
_PART = 100  # frames that a long stack shows at each end, and that a folded part of it has


@dataclass
class Part:
    """Frames in a row that are shown alike: "frames", or folded as "glue", "repeat" or "middle".

    first and last number them from 1, in the order of the page.
    """

    kind: str
    frames: list[Shown]
    first: int

    @property
    def last(self) -> int:
        return self.first + len(self.frames) - 1


def _runs(frames: list[Shown]) -> list[Part]:
    """FRAMES by what they are: glue, others, and equal ones in a row."""
    parts: list[Part] = []
    at = 1
    for glue, run in groupby(frames, key=lambda frame: frame.glue):
        if glue:
            parts.append(Part("glue", list(run), at))
            at = parts[-1].last + 1
            continue
        for _, equal in groupby(run, key=lambda frame: frame.same):
            same = list(equal)
            parts.append(Part("frames", same[:_REPEATS], at))
            if same[_REPEATS:]:
                parts.append(Part("repeat", same[_REPEATS:], parts[-1].last + 1))
            at = parts[-1].last + 1
    return parts


def _joined(parts: list[Part]) -> list[Part]:
    """PARTS, where those that are not folded and follow each other are one."""
    joined: list[Part] = []
    for part in parts:
        if joined and joined[-1].kind == part.kind == "frames":
            joined[-1].frames += part.frames
        else:
            joined.append(part)
    return joined


def _cut(part: Part) -> list[Part]:
    """PART in parts of a length that a browser lays out at once."""
    if len(part.frames) <= 2 * _PART:
        return [part]
    cuts = range(0, len(part.frames), _PART)
    pieces = [Part(part.kind, part.frames[cut : cut + _PART], part.first + cut) for cut in cuts]
    if part.kind == "frames":
        for piece in pieces[1:-1]:
            piece.kind = "middle"
    return pieces


def folded(frames: list[Shown], newest_last: bool) -> list[Part]:
    """The parts of a stack, whose innermost frame comes first in FRAMES, in the order of the page."""
    ordered = frames[::-1] if newest_last else frames
    return [piece for part in _joined(_runs(ordered)) for piece in _cut(part)]
