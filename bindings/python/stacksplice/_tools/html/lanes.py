"""How an error travelled, as a picture: the calls to where it began, then the languages that received it.

Each language has a lane, and time goes down.  The template way.svg.j2 draws it.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from itertools import dropwhile, groupby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .values import Shown

LANE = 52  # pixels between two lanes
ROW = 46  # between two steps; style.css has the same
HEAD = 28  # for the names of the lanes
_C_LIBRARY = ("libc.so", "libc-", "libpthread", "ld-")  # names of its binaries begin so
_ENDS = 8  # runs of calls that are drawn at each end of a long way


@dataclass
class Step:
    """Something that happened in a lane: "call", "raised", "received", or "more" for calls left out."""

    kind: str
    language: str
    text: str
    place: str
    lane: int = 0
    row: int = 0

    @property
    def x(self) -> int:
        return LANE // 2 + self.lane * LANE

    @property
    def y(self) -> int:
        return HEAD + ROW // 2 + self.row * ROW


@dataclass
class Way:
    """The steps, and the languages in the order of their lanes."""

    steps: list[Step]
    lanes: list[str]

    @property
    def width(self) -> int:
        return LANE * len(self.lanes)

    @property
    def height(self) -> int:
        return HEAD + ROW * len(self.steps)

    @property
    def hops(self) -> list[tuple[Step, Step]]:
        return list(zip(self.steps, self.steps[1:]))


def _name(frame: Shown) -> str:
    return frame.function or frame.short_place or "???"


def _where(stack: list[Shown], language: str) -> Shown | None:
    """Where LANGUAGE received the error that has STACK: its innermost frame, else that of any."""
    shown = [frame for frame in stack if frame.kind != "gap" and not frame.glue]
    return next((frame for frame in shown if frame.language == language), shown[0] if shown else None)


def _is_nameless(frame: Shown, libraries: tuple[str, ...] = ("",)) -> bool:
    is_unknown = frame.kind == "native" and not frame.function and not frame.file
    return is_unknown and os.path.basename(frame.module).startswith(libraries)


def _without_start_up(shown: list[Shown]) -> list[Shown]:
    """SHOWN, the outermost first, without what calls main or a thread's function, as text reports are."""
    if len(shown) > 2 and _is_nameless(shown[0]) and _is_nameless(shown[1], _C_LIBRARY):
        shown = shown[1:]  # the program's _start
    return list(dropwhile(lambda frame: _is_nameless(frame, _C_LIBRARY), shown)) or shown


def _calls(frames: list[Shown]) -> list[Step]:
    """FRAMES, the innermost first, as one step for each run of a language, the outermost first."""
    shown = [frame for frame in reversed(frames) if frame.kind != "gap" and not frame.glue]
    steps = []
    for language, run in groupby(_without_start_up(shown), key=lambda frame: frame.language):
        calls = list(run)
        first, last = _name(calls[0]), _name(calls[-1])
        between = " → … → " if len(calls) > 2 else " → "
        text = first if len(calls) == 1 else f"{first}{between}{last}"
        steps.append(Step("call", language, text, calls[-1].short_place))
    if len(steps) > 2 * _ENDS + 1:
        left = len(steps) - 2 * _ENDS
        steps[_ENDS:-_ENDS] = [Step("more", steps[_ENDS].language, f"{left} more changes of language", "")]
    return steps


def _received(language: str, thread: int, stack: list[Shown], home: int) -> Step:
    frame = _where(stack, language)
    text = f"received it in {_name(frame)}" if frame else "received it"
    if thread != home:
        text += f" on thread {thread}"
    return Step("received", language, text, frame.short_place if frame else "")


def way_of(frames: list[Shown], nodes: list[tuple[str, int, list[Shown]]], thread: int, language: str) -> Way:
    """The way of an error with the stack FRAMES, which began on THREAD and was received by NODES."""
    steps = _calls(frames)
    if steps:
        steps[-1].kind = "raised"
    else:
        steps = [Step("raised", language, "", "")]
    steps += [_received(receiver, on, stack, thread) for receiver, on, stack in nodes]
    lanes = list(dict.fromkeys(step.language for step in steps))
    for row, step in enumerate(steps):
        step.lane, step.row = lanes.index(step.language), row
    return Way(steps, lanes)
