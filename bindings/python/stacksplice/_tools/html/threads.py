"""The threads of a process as a page shows them: those that have the same stack are one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .folding import Part, Shown, folded
from .values import Error, Look, error_of, stack_of


class Thread(NamedTuple):
    """A thread as its file has it; TEXT is what names it."""

    text: str
    stack: list[dict[str, Any]]
    errors: tuple[tuple[str, dict[str, Any]], ...] = ()  # each with its heading


@dataclass
class Group:
    """Threads or tasks with the same stack.  One that has errors is alone."""

    threads: list[str]
    frames: list[Shown]
    stack: list[Part]
    errors: list[tuple[str, Error]]

    @property
    def heading(self) -> str:
        more = len(self.threads) - 1
        return f"{self.threads[0]} and {more} more with the same stack" if more else self.threads[0]

    @property
    def place(self) -> str:
        """Where they are: the innermost frame of a script, else that of any language."""
        shown = [frame for frame in self.frames if frame.kind != "gap" and not frame.is_hidden]
        where = next((frame for frame in shown if frame.kind == "script"), shown[0] if shown else None)
        if where is None:
            return ""
        return " ".join(filter(None, (where.function, where.short_place)))


def _key(frame: Shown) -> object:
    return frame.same, frame.file, tuple(frame.marks), tuple(frame.variables)


def groups_of(threads: list[Thread], look: Look) -> list[Group]:
    """THREADS in the order of the first of each group."""
    groups: dict[object, Group] = {}
    for text, stack, errors in threads:
        frames = stack_of(stack, look)
        is_like = tuple(map(_key, frames)) if frames and not errors else text  # a text is like no other
        if is_like in groups:
            groups[is_like].threads.append(text)
        else:
            own = [(heading, error_of(error, look)) for heading, error in errors]
            groups[is_like] = Group([text], frames, folded(frames, look.newest_last), own)
    return list(groups.values())


def frames_of(groups: list[Group]) -> Iterator[Shown]:
    """The frames of all GROUPS."""
    for group in groups:
        yield from group.frames
        for _, error in group.errors:
            yield from error.all_frames()
