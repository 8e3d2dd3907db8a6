"""Writes saved reports with functions, files and lines of their native frames."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from ... import _stacksplice
from ..._base.output import fail, warn, write
from ..._base.redaction import clean_report
from ..._errors.remote import stacks_in
from ..symbols.symbolizer import Symbolizer
from .files import count_in, read, report_of
from .show import _text_of


def _remove_sources(stack: list[Any]) -> None:
    for frame in stack:
        if isinstance(frame, dict):
            frame.pop("source", None)
            frame.pop("source_column", None)


def _refuse_others(items: list[Any], number: int) -> None:
    """Raise ValueError if one of these, of which there were NUMBER before, is no report."""
    for at, item in enumerate(items, number + 1):
        if count_in(item) is not None:
            continue
        try:
            report_of(item)
        except ValueError as exc:
            raise ValueError(f"report {at}: {exc}") from exc


def symbolize(options: argparse.Namespace) -> int:
    """Write the reports of each file with symbols."""
    missing = _stacksplice._lines_missing()
    if missing:
        return fail(f"cannot look up symbols: {missing}")
    for folder in options.symbols:
        if not os.path.isdir(folder):
            return fail(f"--symbols: {folder} is not a folder")
    symbolizer, between = Symbolizer(options.symbols), ""

    def use(document: Any, items: list[Any], count: int, place: str) -> None:
        nonlocal between
        _refuse_others(items, count)
        for holder in stacks_in(document):
            holder["stack"] = symbolizer.stack(holder["stack"])
            if options.no_source:
                _remove_sources(holder["stack"])
        if not options.text:
            write(json.dumps(clean_report(document)) + "\n")
            return
        for number, item in enumerate(items, count + 1):
            write(between + _text_of(item, number, options, place))
            between = "\n"

    status = read(options.reports, "symbolize", use)
    for text in symbolizer.complaints():
        warn(text)
    return status
