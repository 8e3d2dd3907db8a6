"""``python -m stacksplice top --html``: the groups as one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..saved.files import DAMAGE, report_of
from . import needs
from .command import write_file

needs.check()

from .page import Report, render, shown_report  # noqa: E402
from .values import Look  # noqa: E402


@dataclass
class Row:
    """A group; its example, or None where that cannot be read."""

    count: str
    share: str
    title: str
    first: str
    first_time: str | None
    last: str
    last_time: str | None
    report: Report | None


def example_of(data: dict[str, Any], look: Look) -> Report | None:
    """The report DATA as a page shows it; None if it is damaged."""
    try:
        return shown_report(report_of(data).to_dict(), look)
    except DAMAGE:
        return None


def write_groups(about: list[str], rows: list[Row], look: Look, path: str) -> int:
    """Write the page of ROWS, with the lines ABOUT all of them above; the exit status."""
    return write_file(render("top.html.j2", about=about, rows=rows, look=look), path)
