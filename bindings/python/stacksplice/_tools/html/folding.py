"""Which frames of a stack are folded: the inside of interpreters, repeats, the middle of long stacks."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from types import SimpleNamespace

_REPEATS = 3  # of equal frames in a row that are shown, as in a text report
_PART = 100  # frames that a long stack shows at each end, and that a folded part of it has


class Shown(SimpleNamespace):
    """A frame as the page shows it; its members are those that values.py gives it."""

    @property
    def short_place(self) -> str:
        """The file's name and line, or the binary."""
        place = os.path.basename(str(self.file or self.module))
        return f"{place}:{self.line}" if self.file and self.line else place


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


def _kinds(frames: list[Shown]) -> Iterator[str]:
    rounds = 0
    for above, frame in zip([None, *frames], frames):
        rounds = rounds + 1 if above and above.same == frame.same else 1
        yield "glue" if frame.glue else "repeat" if rounds > _REPEATS else "frames"


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
    parts: list[Part] = []
    at = 1
    for kind, run in groupby(zip(_kinds(ordered), ordered), key=lambda pair: pair[0]):
        part = Part(kind, [frame for _, frame in run], at)
        at += len(part.frames)
        parts += _cut(part)
    return parts
