"""The pages of ``stacksplice``: of saved reports, of a process, of groups of reports."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import Any

from ..._base.output import warn, write_file
from ..dump.errors import errors_of
from ..dump.tasks import tasks_of
from ..dump.text import facts, headed_threads
from ..saved.files import DAMAGE, count_in, damaged, heading_of, read, report_of
from .page import Report, modules_of, page_of, render, shown_report
from .threads import Thread, frames_of, groups_of
from .values import Look, error_of


def write_page(options: argparse.Namespace) -> int:
    """Write the page of all files; one that cannot be shown keeps no other from being on it."""
    look = Look(not options.newest_first, options.all_frames)
    reports: list[Report] = []
    counts = 0

    def use(document: Any, items: list[Any], count: int, place: str) -> None:
        nonlocal counts
        for number, item in enumerate(items, count + 1):
            if count_in(item) is not None:
                counts += 1
                continue
            data = report_of(item).to_dict()
            try:
                heading = place if "header" in data else ", ".join(heading_of(item, place))
                reports.append(shown_report(data, look, heading))
            except DAMAGE as exc:
                raise damaged(number, exc) from exc

    status = read(options.reports, "show", use, True)
    if counts:
        warn(f"the page has whole reports: left out {counts:,} lines of counts, which show and top read")
    if not reports:
        return status
    return write_file(page_of(reports, look), options.html) or status


def write_process(document: dict[str, Any], title: str, all_frames: bool, path: str) -> int:
    """Write the page of DOCUMENT, which is of the schema stacksplice-dump/1; the exit status."""
    look = Look(all_frames=all_frames)
    threads = []
    for name, thread in headed_threads(document):
        threads.append(Thread(f"Thread {name}", thread["stack"], tuple(errors_of(thread))))
    alone = 1 if "signal" in document["process"] else 0  # the one that got it
    groups = groups_of(threads[:alone], look) + groups_of(threads[alone:], look)
    tasks = groups_of([Thread(*told) for told in tasks_of(document)], look)
    failed = error_of(document["failed"], look) if "failed" in document else None
    page = render(
        "process.html.j2",
        title=title,
        facts=list(facts(document["process"])),
        notes=document["notes"],
        failed=failed,
        threads=groups,
        tasks=tasks,
        modules=modules_of(chain(frames_of(groups), failed.all_frames() if failed else ())),
        look=look,
    )
    return write_file(page, path)


def example_of(data: dict[str, Any], look: Look) -> Report | None:
    """The report DATA as a page shows it; None if it is damaged."""
    try:
        return shown_report(report_of(data).to_dict(), look)
    except DAMAGE:
        return None
