"""Reports of errors that were saved or came from another process."""

from __future__ import annotations

from ._frames import Stack
from ._story import Story, Teller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._errors import ErrorInfo


def _stack_lines(stack: Stack, newest_last: bool, all_frames: bool, indent: str) -> str:
    shown = [frame for frame in stack if all_frames or not frame.glue]
    lines = Stack.from_frames(shown).format("newest_last" if newest_last else "newest_first")
    hidden = len(stack) - len(shown)
    if hidden:
        lines.append(f"    ... {hidden} glue {'frame' if hidden == 1 else 'frames'} hidden\n")
    return "".join(indent + line for line in lines)


def _place(info: ErrorInfo) -> str:
    """ " of process 4711 (ForkPoolWorker-1) on nodename", if INFO knows."""
    process = info.process
    if process is None:
        return ""
    name = f" ({process['name']})" if process.get("name") else ""
    interpreter = process.get("interpreter")
    inside = f" in interpreter {interpreter}" if interpreter else ""
    return f"{inside} of process {process['id']}{name} on {process['host']}"


def format_remote(info: ErrorInfo, *, newest_last: bool = True, all_frames: bool = False) -> str:
    """What an error went through in another process."""
    text = format_saved(info, newest_last=newest_last, all_frames=all_frames)
    return "\nBefore that, in another process:\n" + text


class _SavedTeller(Teller):
    def __init__(self, newest_last: bool, all_frames: bool) -> None:
        self._newest_last = newest_last
        self._all_frames = all_frames

    def head(self, error: ErrorInfo) -> str:
        code = f"0x{error.hresult & 0xFFFFFFFF:08X}"
        name = f"{error.type}: " if error.type else ""
        title = f"{name}{error.message} ({code})\n"
        title += "".join(f"{note}\n" for note in error.notes)
        title += f"HRESULT {code}: {error.description}\n"
        order = "last" if self._newest_last else "first"
        kind = "Traceback for" if self._newest_last else "Stack of"
        if self._newest_last and error.exceptions is not None:
            kind = f"Exception Group {kind}"
        stack = f"{kind} thread {error.thread_id}{_place(error)} (most recent call {order}):\n"
        stack += _stack_lines(error.stack, self._newest_last, self._all_frames, "")
        return (stack + title if self._newest_last else title + stack) + self._nodes(error)

    def _nodes(self, error: ErrorInfo) -> str:
        text = ""
        for number, node in enumerate(error.propagation, 1):
            if number == 1:
                text += "Propagation:\n"
            text += f"  {number}. received by {node.language} on thread {node.thread_id} at:\n"
            text += _stack_lines(node.stack, self._newest_last, self._all_frames, "    ")
        return text

    def behind(self, error: ErrorInfo) -> tuple[str, Any]:
        found = error.transformed or (... if error.causes_left_out else None)
        return "context" if error.context is not None else "cause", found

    def members(self, error: ErrorInfo) -> tuple[Sequence[ErrorInfo], int] | None:
        members = error.exceptions
        return None if members is None else (members, error.exceptions_left_out)


def format_saved(
    info: ErrorInfo, *, newest_last: bool = True, all_frames: bool = False, chain: bool = True
) -> str:
    """The report of an error that was read back, with its causes."""
    teller = _SavedTeller(newest_last, all_frames)
    if not chain:
        return teller.head(info)
    story = Story(teller)
    story.put_with_causes(info)
    remote = info.remote
    if remote is None:
        return story.text()
    return story.text() + format_remote(remote, newest_last=newest_last, all_frames=all_frames)
