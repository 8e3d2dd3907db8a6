"""Stacks of other processes: what the program stacksplice-inspect reads, with symbols, as text or JSON."""

from __future__ import annotations

import json
import os
import subprocess

from . import _stacksplice
from ._frames import Frame, Stack
from ._output import fail, write
from ._symbolize import _Symbolizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stacksplice-inspect")


class Refused(Exception):
    """It cannot be inspected; str() is the reason with the next step, in one line."""


def inspect(*arguments: str) -> dict[str, Any]:
    """What stacksplice-inspect says."""
    try:
        done = subprocess.run(
            [_PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError:
        raise Refused("this build has no stacksplice-inspect: it is for Linux on x86-64 only") from None
    except OSError as exc:
        raise Refused(f"cannot run {_PROGRAM}: {exc.strerror}") from None
    if done.returncode < 0:
        raise Refused(f"stacksplice-inspect was ended by signal {-done.returncode}: please report this")
    if done.returncode:
        raise Refused(done.stderr.decode(errors="replace").strip())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def add_symbols(document: dict[str, Any], folders: list[str]) -> None:
    """Give the native frames of DOCUMENT functions, files and lines."""
    missing = _stacksplice._lines_missing()
    if missing:
        document["notes"].append(f"cannot look up symbols: {missing}")
        return
    symbolizer = _Symbolizer(folders)
    for thread in document["threads"]:
        thread["stack"] = symbolizer.stack(thread["stack"])


def _heading(process: dict[str, Any]) -> str:
    words = [f"process {process['id']}"]
    if "executable" in process:
        words.append(process["executable"])
    if "stopped_microseconds" in process:
        words.append(f"stopped for {process['stopped_microseconds'] / 1000:.1f} ms")
    return ", ".join(words) + "\n"


def text_of(document: dict[str, Any], all_frames: bool) -> str:
    """DOCUMENT for people: the newest frame of each thread is the last, as in tracebacks."""
    parts = [_heading(document["process"])]
    parts += [f"note: {note}\n" for note in document["notes"]]
    for thread in document["threads"]:
        name = f" ({thread['name']})" if "name" in thread else ""
        stack = Stack.from_frames(Frame.from_dict(frame) for frame in thread["stack"])
        parts += [f"\nthread {thread['thread_id']}{name}\n", *stack.format(all_frames=all_frames)]
    return "".join(parts)


def dump(options: argparse.Namespace) -> int:
    """Write the stacks of a process."""
    try:
        document = inspect("--pid", str(options.process))
    except Refused as exc:
        return fail(str(exc))
    add_symbols(document, [])
    write(json.dumps(document) + "\n" if options.json else text_of(document, options.all_frames))
    return 0
