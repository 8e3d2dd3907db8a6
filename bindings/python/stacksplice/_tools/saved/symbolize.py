"""Writes saved reports with functions, files and lines of their native frames."""

from __future__ import annotations

import json
import os

from ... import _stacksplice
from ..._base.output import fail, write
from ..._base.redaction import clean_report
from ..symbols.symbolizer import Symbolizer
from .files import documents_of, items_of, name_of, report_of, saying_why_not, tells_of_no_error
from .show import _text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any


def _stacks(document: Any) -> Iterator[dict[str, Any]]:
    """Each object in DOCUMENT that has a stack."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if isinstance(value.get("stack"), list):
                yield value
            left += [part for name, part in value.items() if name != "stack"]
        elif isinstance(value, list):
            left += value


def _remove_sources(stack: list[Any]) -> None:
    for frame in stack:
        if isinstance(frame, dict):
            frame.pop("source", None)
            frame.pop("source_column", None)


def _refuse_others(items: list[Any], number: int) -> None:
    """Raise ValueError if one of these, of which there were NUMBER before, is no report."""
    for at, item in enumerate(items, number + 1):
        try:
            report_of(item)
        except ValueError as exc:
            raise ValueError(f"report {at}: {exc}") from exc


class _Command:
    """Writes the reports of all files, one document after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.symbolizer = Symbolizer(options.symbols)
        self._options = options
        self._between = ""

    def _texts_of(self, items: list[Any], place: str, number: int) -> Iterator[str]:
        for item in items:
            number += 1
            yield self._between + _text_of(item, number, self._options, place)
            self._between = "\n"

    def write_file(self, path: str) -> bool:
        """Write the reports of that file; False after saying why not, or not all of them."""
        place, number = name_of(path) if len(self._options.reports) > 1 else "", 0
        with saying_why_not(path, "symbolize"):
            for document in documents_of(path):
                items = [item for item in items_of([document]) if not tells_of_no_error(item)]
                _refuse_others(items, number)
                for holder in _stacks(document):
                    holder["stack"] = self.symbolizer.stack(holder["stack"])
                    if self._options.no_source:
                        _remove_sources(holder["stack"])
                if self._options.text:
                    write("".join(self._texts_of(items, place, number)))
                else:
                    write(json.dumps(clean_report(document)) + "\n")
                number += len(items)
            return True
        return False


def symbolize(options: argparse.Namespace) -> int:
    """Write the reports of each file with symbols."""
    missing = _stacksplice._lines_missing()
    if missing:
        return fail(f"cannot look up symbols: {missing}")
    for folder in options.symbols:
        if not os.path.isdir(folder):
            return fail(f"--symbols: {folder} is no folder")
    command = _Command(options)
    status = 0
    for path in options.reports:
        if not command.write_file(path):
            status = 2
    for text in command.symbolizer.complaints():
        fail(text)
    return status
