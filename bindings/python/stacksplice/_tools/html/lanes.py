"""How an error travelled, as a picture: the calls to where it began, then the languages that received it.

Each language has a lane, and time goes down.  The template way.html.j2 draws it.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from .folding import Shown

_ENDS = 8  # runs of calls that are drawn at each end of a long way


class Step(NamedTuple):
    """Something that happened in a lane: "call", "raised", "received", or "more" for calls left out."""

    kind: str
    language: str
    text: str
    place: str


def _name(frame: Shown) -> str:
    return frame.function or frame.short_place or "???"


def _calls(frames: list[Shown]) -> list[Step]:
    """FRAMES, the innermost first, as one step for each run of a language, the outermost first."""
    shown = [frame for frame in reversed(frames) if frame.kind != "gap" and not frame.is_hidden]
    steps = []
    for language, run in groupby(shown, key=lambda frame: frame.language):
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
    shown = [frame for frame in stack if frame.kind != "gap" and not frame.is_hidden]
    frame = next((frame for frame in shown if frame.language == language), shown[0] if shown else None)
    text = f"received it in {_name(frame)}" if frame else "received it"
    if thread != home:
        text += f" on thread {thread}"
    return Step("received", language, text, frame.short_place if frame else "")


def way_of(
    frames: list[Shown], nodes: list[tuple[str, int, list[Shown]]], thread: int, language: str
) -> list[Step]:
    """The way of an error with the stack FRAMES, which began on THREAD and was received by NODES."""
    calls = _calls(frames) or [Step("call", language, "", "")]
    received = [_received(receiver, on, stack, thread) for receiver, on, stack in nodes]
    return [*calls[:-1], calls[-1]._replace(kind="raised"), *received]
