"""The text that executors and pools send in place of a traceback.

``concurrent.futures`` takes the traceback from an exception before it pickles it, and sends its text as a
cause, which has the text of the process before in front.  So what a process in between raised again, and
nothing else, stands only there: by places and functions of Python, without the number of that process.
"""

from __future__ import annotations

import re

from .._base.hints import Any

_NAMES = ("_RemoteTraceback", "RemoteTraceback")
_HEAD = "Traceback (most recent call last):\n"
_BEHIND = (
    "\n\nThe above exception was the direct cause of the following exception:\n\n",
    "\n\nDuring handling of the above exception, another exception occurred:\n\n",
)
_QUOTES = '"""\n'
# Texts: few who import this meet one, and to compile them takes as long as the import.
_BEGIN = r'(?:[\w.]+: )?\n"""\n'
_PLACE = r'  File "(.*)", line (\d+), in (.*)\n'
_REPEATED = r"  \[Previous line repeated (\d+) more times?\]\n"
_MOST_REPEATED = 1000
_ENOUGH = 0.75  # of the frames of a text are among those of the stack whose text it is

Frames = list[dict[str, Any]]


def is_stand_in(type_name: Any) -> bool:
    """Whether exceptions of that type are the text of a traceback."""
    return str(type_name).rpartition(".")[2] in _NAMES


def _omitted(count: int) -> dict[str, Any]:
    gap = f"{count} frames omitted when the error was pickled"
    return {"kind": "gap", "trust": "exact", "language": "python", "address": "0x0", "reason": gap}


def _frames_of(text: str) -> Frames:
    """The frames, the innermost first, of TEXT, which begins behind the head of a traceback.  A line of
    source is indented further, a title not at all."""
    frames: Frames = []
    for line in text.splitlines(keepends=True):
        if not line.startswith("  "):
            break
        place, repeated = re.fullmatch(_PLACE, line), re.fullmatch(_REPEATED, line)
        if place is not None:
            file, number, name = place.groups()
            frame = {"kind": "script", "trust": "traceback", "language": "python", "address": "0x0"}
            frames.append({**frame, "function": name, "file": file, "line": int(number)})
        elif repeated is not None and frames:
            more = int(repeated[1]) - _MOST_REPEATED
            frames += frames[-1:] * min(int(repeated[1]), _MOST_REPEATED)
            frames += [_omitted(more)] if more > 0 else []
        elif line.startswith("    ") and frames:
            frames[-1].setdefault("source", line.strip())
    return frames[::-1]


def _parts_of(text: str) -> list[str]:
    """The tracebacks of TEXT from the first process on; none if it has not the form that is known."""
    depth = 0
    while begin := re.match(_BEGIN, text):
        depth += 1
        text = text[begin.end() :]
    parts = text.split(_QUOTES.rstrip() + _BEHIND[0] + _HEAD)
    if len(parts) != depth:
        return []
    for behind in _BEHIND:
        parts[0] = parts[0].rpartition(behind)[2]
    return [parts[0].removeprefix(_HEAD), *parts[1:]] if parts[0].startswith(_HEAD) else []


def _is_text_of(frames: Frames, stack: Frames) -> bool:
    """Whether FRAMES are those of STACK.  Calls of other languages have other files there."""
    left = [(frame.get("file"), str(frame.get("function")).rpartition(".")[2]) for frame in stack]
    known = [(frame.get("file", ""), frame.get("function")) for frame in frames]
    known = [place for place in known if place[0].endswith(".py")]
    found = 0
    for place in known:
        if place in left:
            found += 1
            del left[: left.index(place) + 1]
    return found >= _ENOUGH * len(known)


def missing(exc: BaseException, stacks: list[Frames]) -> list[tuple[int, Frames]]:
    """What the text that stands for the traceback of EXC has, and none of STACKS, one for each process, the
    first one first: how many of them are before it, and its frames."""
    cause = exc.__cause__
    text = cause.args[0] if cause is not None and is_stand_in(type(cause).__name__) and cause.args else None
    at, found = 0, []
    for part in _parts_of(text) if type(text) is str else ():
        frames = _frames_of(part)
        same = [number for number in range(at, len(stacks)) if _is_text_of(frames, stacks[number])]
        if same:
            at = same[0] + 1
        elif frames:
            found.append((at, frames))
    return found
