"""A process for people: what is known of it and of each of its threads, and stacks.

Debuggers have a copy of this module.
"""

from __future__ import annotations

import json
import os
import re
from itertools import takewhile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

try:
    from ..._base.lines import folded
    from ..._base.plain import plain
except ImportError:  # in a debugger
    from stacksplice_lines import folded  # type: ignore[import-not-found, no-redef]
    from stacksplice_plain import plain  # type: ignore[import-not-found, no-redef]

_GIL = {"held": "holds the GIL", "waiting": "waits for the GIL"}


def _signal(number: int) -> str:
    import signal  # for what a signal ended alone

    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _origin(process: dict[str, Any]) -> str:
    """From where its signal came."""
    if "fault_address" in process:
        return f" at address {process['fault_address']}"
    if "sender" not in process:
        return ""
    sender = process["sender"]["process"]
    return " that it sent itself" if sender == process["id"] else f" from process {sender}"


def title(process: dict[str, Any]) -> str:
    """One line about PROCESS."""
    words = [f"process {process['id']}"]
    if "executable" in process:
        words.append(plain(process["executable"]))
    if "stopped_microseconds" in process:
        words.append(f"paused for {process['stopped_microseconds'] / 1000:.1f} ms")
    if "signal" in process:
        words.append(f"ended by {_signal(process['signal'])}{_origin(process)}")
    return ", ".join(words)


def interpreter_of(interpreter: int) -> str:
    """What names an INTERPRETER that is not the main one."""
    return f" of interpreter {interpreter}" if interpreter else ""


def facts(process: dict[str, Any]) -> Iterator[str]:
    """More lines about PROCESS."""
    if "command_line" in process:
        yield f"command line: {plain(process['command_line'])}"
    copies: dict[tuple[str, str], list[str]] = {}
    for each in process.get("pythons", ()):
        words = copies.setdefault((each.get("version", ""), each.get("file", "")), [])
        if each["interpreter"]:
            words.append(f"interpreter {each['interpreter']}")
        if each.get("collecting"):
            words.append("collects garbage")
    for (version, file), words in copies.items():
        yield plain(", ".join([f"Python {version} ({file})", *words]))


def heading(thread: dict[str, Any]) -> str:
    """THREAD in a line: its number, and its names and what it does in parentheses."""
    roles = thread.get("python", ())
    words = [plain(thread["name"])] if "name" in thread else []
    for role in roles:
        if role.get("name", thread.get("name")) != thread.get("name"):
            words.append(
                plain(json.dumps(role["name"], ensure_ascii=False)) + interpreter_of(role["interpreter"])
            )
    if "state" in thread and not any(role.get("gil") == "waiting" for role in roles):
        words.append(thread["state"])
    for role in roles:
        if "task" in role:
            words.append(f"runs task {plain(json.dumps(role['task'], ensure_ascii=False))}")
        if "gil" in role:
            words.append(_GIL[role["gil"]] + interpreter_of(role["interpreter"]))
        if role.get("collecting"):
            words.append("collects garbage" + interpreter_of(role["interpreter"]))
    return f"{thread['thread_id']}{' (' + ', '.join(words) + ')' if words else ''}"


def headed_threads(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The threads of DOCUMENT, each with its heading; the first may have got a signal."""
    more = ", which got the signal" if "signal" in document["process"] else ""
    for thread in document["threads"]:
        yield heading(thread) + more, thread
        more = ""


# What glibc and musl call the files of the C library and of its loader, whatever folder these are in.  In
# glibc before 2.34 these are links to names with its version, which mappings have.
_C_LIBRARY = re.compile(
    r"(?:ld|ld64|ld-linux[\w-]*|ld-musl-\w+|lib(?:c|m|mvec|pthread|rt|dl|resolv))(?:-2\.\d+\.so|\.so\.\d+)|libc\.so"
)


def is_c_library(module: str) -> bool:
    """Whether MODULE, the path of a binary, is a part of the C library, which also calls main and starts
    threads."""
    return _C_LIBRARY.fullmatch(os.path.basename(module.removesuffix(" (deleted)"))) is not None


def _may_start(frame: dict[str, Any], anywhere: bool) -> bool:
    if frame.get("function") or not frame.get("module"):
        return bool(frame.get("glue"))
    return anywhere or is_c_library(frame["module"])


def mark_start_up(stack: list[dict[str, Any]]) -> None:
    """In a C library without symbols, the code below main has no name that tells what it is."""
    stack = [*takewhile(lambda frame: "asynchronous" not in frame, stack)]  # tasks that await are behind it
    outermost = len(stack)
    # _start itself is in the program, whose names may be unknown, too.
    if outermost > 2 and _may_start(stack[-1], True) and _may_start(stack[-2], False):
        outermost -= 1
    while outermost > 1 and _may_start(stack[outermost - 1], False):
        outermost -= 1
    for frame in stack[outermost:]:
        frame["glue"] = True


def _text_of_frame(frame: dict[str, Any], line: str) -> str:
    text = f"    {line}\n"
    if "source" in frame:
        text += "      " + plain(frame["source"], "\t") + "\n"
    return text + "".join(
        f"        {plain(name)} = {plain(value)}\n" for name, value in frame.get("locals", {}).items()
    )


def _counted(hidden: list[dict[str, Any]], name: str) -> str:
    """The line for HIDDEN frames of a program of that NAME."""
    count = len([frame for frame in hidden if not frame.get("glue")])
    return f"    ... {count} frame{'s' if count != 1 else ''} of {plain(name)} hidden\n"


def lines_of(
    stack: list[dict[str, Any]],
    all_frames: bool,
    line_of: Callable[[dict[str, Any]], str],
    folds_of: Callable[[list[dict[str, Any]]], list[tuple[int, int, str]]] | None = None,
) -> Iterator[str]:
    """STACK, its newest frame last; LINE_OF gives the line of a frame, FOLDS_OF what brief reports count in
    one line: from where to where, and whose frames these are; "": what they leave out."""
    folds = (
        {} if all_frames or folds_of is None else {end: (begin, name) for begin, end, name in folds_of(stack)}
    )
    lines, at = [], len(stack)
    while at:
        begin, name = folds.get(at, (at - 1, ""))
        if name:
            lines.append(_counted(stack[begin:at], name))
        elif at not in folds and (all_frames or not stack[begin].get("glue")):
            lines.append(_text_of_frame(stack[begin], line_of(stack[begin])))
        at = begin
    return folded(lines)
