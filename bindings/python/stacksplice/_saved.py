"""Files of saved reports: one report, a list of them, or one on each line, such as a log's."""

from __future__ import annotations

import json
import sys

from ._errors import ErrorInfo
from ._output import fail
from ._redaction import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Made = TypeVar("_Made")

_OF_A_LOG = ("@timestamp", "log.level", "log.logger", "message")  # what a heading says of a line
_REPORT_FILE = "stacksplice-report/1"  # what a process that failed fast wrote


def documents_of(text: str) -> list[Any]:
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


def items_of(documents: list[Any]) -> list[Any]:
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


def _is_log(item: Any) -> bool:
    """Whether it is a line of a log with the names of the Elastic Common Schema."""
    return isinstance(item, dict) and "ecs.version" in item


def _wrapper_of(item: Any) -> str | None:
    """The member under which the report stands in an object that has data of its own."""
    name = "stacksplice" if _is_log(item) else "error"
    return name if isinstance(item, dict) and isinstance(item.get(name), dict) else None


def _with_reports(items: list[Any]) -> list[Any]:
    """ITEMS without the lines of a log that tell of no error, or of one that crossed no border."""
    found = [item for item in items if not _is_log(item) or _wrapper_of(item)]
    if not found:
        raise ValueError('no line of this log has a report, the member "stacksplice" of JsonFormatter')
    return found


def _value(value: object) -> str:
    """A value of the file's as one line that cannot look like another one."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() else json.dumps(text)


def heading_of(item: Any, place: str) -> str:
    """What the object around a report says of it, such as "order: O-25150"; PLACE is the file."""
    data = dict(item) if _wrapper_of(item) else {}
    if _is_log(item):
        data = {name: data[name] for name in _OF_A_LOG if name in data}
    if data.get("schema") == _REPORT_FILE and isinstance(data.get("header"), dict):
        data = data["header"]
    words = [_value(place)] if place else []
    words += [
        f"{_value(name)}: {_value(clean(value, name))}"
        for name, value in data.items()
        if name != "schema" and isinstance(value, (str, int, float))
    ]
    return ", ".join(words)


def report_of(item: Any) -> ErrorInfo:
    """The error of an item; ValueError if it is none."""
    name = _wrapper_of(item)
    if name is None and isinstance(item, dict) and item.get("error", item) is None:
        raise ValueError('"error" is null: the file changed while top read it; run top again')
    return ErrorInfo._from_json_values(item[name] if name else item)


def read_file(path: str, make: Callable[[list[Any], str], _Made]) -> _Made | None:
    """What MAKE makes of the items and the name of that file, "-" for standard input; None after saying
    why nothing can be made."""
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        return make(_with_reports(items_of(documents_of(data.decode("utf-8-sig")))), name)
    except OSError as exc:
        fail(f"cannot read {name}: {exc.strerror}")
    except UnicodeDecodeError as exc:
        fail(f"cannot show {name}: it is not UTF-8 (byte {exc.start})")
    except (ValueError, RecursionError) as exc:
        fail(f"cannot show {name}: {exc}")
    return None


def damaged(number: int, exc: Exception) -> ValueError:
    """That report NUMBER of a file has values which it may not have."""
    return ValueError(f"report {number} is damaged: {type(exc).__name__}: {exc}")


DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # how it is met
