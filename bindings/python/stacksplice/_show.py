"""``python -m stacksplice show``: saved JSON reports as text."""

from __future__ import annotations

import json
import sys

from ._errors import ErrorInfo
from ._output import fail, write
from ._report import wants_color

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_REPORT_FILE = "stacksplice-report/1"  # what a process that failed fast wrote


def _documents(text: str) -> list[Any]:
    """The JSON of TEXT: one document, or one on each line."""
    if not text.strip():
        raise ValueError("the file is empty")
    try:
        return [json.loads(text)]
    except ValueError:
        # A message may hold what else str.splitlines() takes for the end of a line, such as U+2028.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        try:
            documents = [json.loads(line) for _, line in lines[:1]]
        except ValueError:
            documents = []
        if len(lines) < 2 or not documents:
            raise
    for number, line in lines[1:]:
        try:
            documents.append(json.loads(line))
        except ValueError as exc:
            raise ValueError(f"on line {number}: {exc}") from exc
    return documents


def _items(documents: list[Any]) -> list[Any]:
    """One report, a list of them, or one on each line."""
    items = documents
    if len(items) == 1:
        whole = items[0]
        if isinstance(whole, dict) and isinstance(whole.get("errors"), list):
            whole = whole["errors"]
        if isinstance(whole, list):
            items = whole
    if not items:
        raise ValueError("the list of errors is empty")
    return items


def _wrapped(item: Any) -> bool:
    """Whether the report stands under "error" in an object that has data of its own."""
    return isinstance(item, dict) and isinstance(item.get("error"), dict)


def _value(value: object) -> str:
    """A value of the file's as one line that cannot look like another one."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() else json.dumps(text)


def _heading(item: Any, place: str) -> str:
    """What the object around a report says of it, such as "order: O-25150"; PLACE is the file."""
    data = dict(item) if _wrapped(item) else {}
    if data.get("schema") == _REPORT_FILE and isinstance(data.get("header"), dict):
        data.update(data["header"])
    words = [_value(place)] if place else []
    words += [
        f"{_value(name)}: {_value(value)}"
        for name, value in data.items()
        if name != "schema" and isinstance(value, (str, int, float))
    ]
    return f"==== {', '.join(words)} ====\n" if words else ""


def _text_of(item: Any, number: int, options: argparse.Namespace, place: str) -> str:
    report = ErrorInfo._from_json_values(item["error"] if _wrapped(item) else item)
    try:
        text = report.format(
            newest_last=not options.newest_first,
            all_frames=options.all_frames,
            color=options.color == "always" or options.color == "auto" and wants_color(sys.stdout),
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
        raise ValueError(f"report {number} is damaged: {type(exc).__name__}: {exc}") from exc
    return _heading(item, place) + text


def _line_of(item: Any) -> str:
    ErrorInfo._from_json_values(item["error"] if _wrapped(item) else item)  # refuses what is none
    return json.dumps(item) + "\n"


def _text_of_file(path: str, options: argparse.Namespace) -> str | None:
    """What is to be printed of that file; None after saying why nothing can be."""
    name = "standard input" if path == "-" else path
    place = name if len(options.reports) > 1 else ""
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        items = _items(_documents(data.decode("utf-8-sig")))
        if options.json:
            return "".join(map(_line_of, items))
        return "\n".join(_text_of(item, number, options, place) for number, item in enumerate(items, 1))
    except OSError as exc:
        fail(f"cannot read {name}: {exc.strerror}")
    except UnicodeDecodeError as exc:
        fail(f"cannot show {name}: it is not UTF-8 (byte {exc.start})")
    except (ValueError, RecursionError) as exc:
        fail(f"cannot show {name}: {exc}")
    return None


def show(options: argparse.Namespace) -> int:
    """Print the reports of each file; one that cannot be shown keeps no other from being shown."""
    status, between = 0, ""
    for path in options.reports:
        text = _text_of_file(path, options)
        if text is None:
            status = 2
        else:
            write(between + text)
            between = "" if options.json else "\n"
    return status
