"""``stacksplice show``: saved JSON reports as text, as JSON or as an HTML page."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..._base.output import write
from ..._base.redaction import clean_report
from ..._errors.counts import text_of_count
from ..._errors.report import wants_color
from .files import DAMAGE, count_in, damaged, heading_of, read, report_of


def _text_of(item: Any, number: int, options: argparse.Namespace, place: str) -> str:
    counts = count_in(item)
    if counts is not None:
        return text_of_count(counts) + "\n"
    report, last = report_of(item), not options.newest_first
    color = options.color == "always" or options.color == "auto" and wants_color(sys.stdout)
    try:
        text = report.format(
            newest_last=last, all_frames=options.all_frames, color=color, shorten=sys.stdout.isatty()
        )
    except DAMAGE as exc:
        raise damaged(number, exc) from exc
    heading = heading_of(item, place)
    if heading:
        heading[0] = f"==== {heading[0]} ===="
    return "".join([f"{line}\n" for line in heading]) + text


def _line_of(item: Any) -> str:
    if count_in(item) is None:
        report_of(item)  # refuses what is none
    return json.dumps(clean_report(item)) + "\n"


def _print(options: argparse.Namespace) -> int:
    """Print the reports of each file; one that cannot be shown keeps no other from being shown."""
    between = ""

    def use(document: Any, items: list[Any], count: int, place: str) -> None:
        nonlocal between
        for number, item in enumerate(items, count + 1):
            write(_line_of(item) if options.json else between + _text_of(item, number, options, place))
            between = "\n"

    return read(options.reports, "show", use, not sys.stdout.isatty())


def show(options: argparse.Namespace) -> int:
    """Show the reports as the options say; the exit status."""
    if options.html is None:
        return _print(options)
    from ..html.command import write_page

    return write_page(options)
