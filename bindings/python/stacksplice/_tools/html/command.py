"""``python -m stacksplice show --html``: saved reports as one page."""

from __future__ import annotations

from ..._base.output import fail, write
from ..saved.crash import crash_of
from ..saved.files import DAMAGE, damaged, heading_of, read_file, report_of
from . import needs

needs.check()

from .page import Report, page_of, shown_report  # noqa: E402
from .values import Look  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def write_file(text: str, path: str) -> int:
    """Write a page to PATH, or to standard output; the exit status."""
    if path == "-":
        write(text)
        return 0
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        return fail(f"cannot write {path}: {exc.strerror}")
    return 0


def write_page(options: argparse.Namespace) -> int:
    """Write the page of all files; one that cannot be shown keeps no other from being on it."""
    look = Look(not options.newest_first, options.all_frames)
    status, reports = 0, []

    def shown(items: list[Any], name: str) -> list[Report]:
        place = name if len(options.reports) > 1 else ""
        made = []
        for number, item in enumerate(items, 1):
            data = report_of(item).to_dict()
            try:
                made.append(shown_report(data, look, heading_of(item, place), crash_of(item)))
            except DAMAGE as exc:
                raise damaged(number, exc) from exc
        return made

    for path in options.reports:
        found = read_file(path, shown)
        if found is None:
            status = 2
        else:
            reports += found
    if not reports:
        return status
    return write_file(page_of(reports, look), options.html) or status
