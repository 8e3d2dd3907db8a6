"""``python -m stacksplice dump --html`` and ``core --html``: all threads of a process as one page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ..dump.errors import HEADINGS
from ..dump.text import facts, heading
from . import needs
from .command import write_file

needs.check()

from .page import modules_of, render  # noqa: E402
from .threads import Group, Thread, frames_of, groups_of  # noqa: E402
from .values import Look, error_of  # noqa: E402


def _errors_of(thread: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for told in thread.get("exceptions", ()):
        yield HEADINGS[told["state"]], told
    if "error" in thread:
        yield "Current error of this thread", thread["error"]


def _groups_of(document: dict[str, Any], look: Look) -> list[Group]:
    """The threads of DOCUMENT; one that got a signal is alone, and first."""
    threads = []
    for thread in document["threads"]:
        threads.append(Thread(heading(thread), thread["stack"], tuple(_errors_of(thread))))
    if "signal" not in document["process"] or not threads:
        return groups_of(threads, look)
    first = threads[0]._replace(text=f"{threads[0].text}, which got the signal")
    return groups_of([first], look) + groups_of(threads[1:], look)


def write_process(document: dict[str, Any], title: str, all_frames: bool, path: str) -> int:
    """Write the page of DOCUMENT, which is of the schema stacksplice-dump/1; the exit status."""
    look = Look(all_frames=all_frames)
    threads = _groups_of(document, look)
    failed = error_of(document["failed"], look) if "failed" in document else None
    page = render(
        "process.html.j2",
        title=title,
        facts=list(facts(document["process"])),
        notes=document["notes"],
        failed=failed,
        threads=threads,
        modules=modules_of(chain(frames_of(threads), failed.all_frames() if failed else ())),
        look=look,
    )
    return write_file(page, path)
