"""Which frames of a stack are folded: interpreters, libraries, repeats, the middle of long stacks."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from types import SimpleNamespace
from typing import TypeAlias

_REPEATS = 3  # of equal frames in a row that are shown, as in a text report
_PART = 100  # frames that a long stack shows at each end, and that a folded part of it has


class Shown(SimpleNamespace):
    """A frame as the page shows it; its members are those that values.py gives it."""

    @property
    def short_place(self) -> str:
        """The file's name and line, or the binary."""
        place = os.path.basename(str(self.file or self.module))
        return f"{place}:{self.line}" if self.file and self.line else place

    @property
    def is_hidden(self) -> bool:
        """Whether a brief report leaves it out or counts it in the line of a library."""
        return self.glue or self.fold is not None


@dataclass
class Part:
    """Frames in a row that are shown alike: "frames", or folded as "glue", "library", "repeat" or "middle".

    first and last number them from 1, in the order of the page; library is what a brief report calls theirs.
    """

    kind: str
    frames: list[Shown]
    first: int
    library: str = ""

    @property
    def last(self) -> int:
        return self.first + len(self.frames) - 1

    @property
    def count(self) -> int:
        """How many frames a line says that it hides: of a library, only its own."""
        return len([frame for frame in self.frames if self.kind != "library" or not frame.glue])


# What is shown alike: a kind of Part, and the number and name of the library's line, if it is one.
_Kind: TypeAlias = tuple[str, tuple[int, str] | None]


def _kinds(frames: list[Shown]) -> Iterator[_Kind]:
    rounds = 0
    for above, frame in zip([None, *frames], frames):
        rounds = rounds + 1 if above and above.same == frame.same else 1
        if frame.fold is not None:
            yield "library", frame.fold
        else:
            yield "glue" if frame.glue else "repeat" if rounds > _REPEATS else "frames", None


def _cut(part: Part) -> list[Part]:
    """PART in parts of a length that a browser lays out at once."""
    if len(part.frames) <= 2 * _PART:
        return [part]
    cuts = range(0, len(part.frames), _PART)
    pieces = [Part(part.kind, part.frames[cut : cut + _PART], part.first + cut, part.library) for cut in cuts]
    if part.kind == "frames":
        for piece in pieces[1:-1]:
            piece.kind = "middle"
    return pieces


def folded(frames: list[Shown], newest_last: bool) -> list[Part]:
    """The parts of a stack, whose innermost frame comes first in FRAMES, in the order of the page."""
    ordered = frames[::-1] if newest_last else frames
    parts: list[Part] = []
    at = 1
    for (kind, fold), run in groupby(zip(_kinds(ordered), ordered), key=lambda pair: pair[0]):
        part = Part(kind, [frame for _, frame in run], at, fold[1] if fold else "")
        at += len(part.frames)
        parts += _cut(part)
    return parts
