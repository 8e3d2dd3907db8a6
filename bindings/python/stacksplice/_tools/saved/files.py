"""Files of saved reports: one report, a list of them, or one on each line, such as a log's."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, nullcontext

from ..._base.output import fail
from ..._base.redaction import clean
from ..._errors.info import ErrorInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, TypeVar

    _Made = TypeVar("_Made")

_OF_A_LOG = ("@timestamp", "log.level", "log.logger", "message")  # what a heading says of a line
_REPORT_FILE = "stacksplice-report/1"  # what a process that failed fast wrote


def _lines_of(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines of FILE with their numbers.  U+2028 in a message ends no line, as for str.splitlines()."""
    start = 0
    for number, line in enumerate(file, 1):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as exc:
            exc.start += start
            raise
        start += len(line)


def _documents_of(file: BinaryIO) -> Iterator[Any]:
    lines, before = _lines_of(file), ""
    for _, line in lines:
        before += line
        if line.strip():
            break
    else:
        raise ValueError("the file is empty")
    try:
        document = json.loads(line)
    except ValueError:
        document = json.loads(before + "".join(line for _, line in lines))
    yield document
    for number, line in lines:
        if line.strip():
            try:
                document = json.loads(line.removesuffix("\n"))
            except ValueError as exc:
                raise ValueError(f"on line {number}: {exc}") from exc
            yield document


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


def tells_of_no_error(item: Any) -> bool:
    """Whether it is a line of a log with another event than an error that crossed a border."""
    return _is_log(item) and not _wrapper_of(item)


def _is_log(item: Any) -> bool:
    """Whether it is a line of a log with the names of the Elastic Common Schema."""
    return isinstance(item, dict) and "ecs.version" in item


def _wrapper_of(item: Any) -> str | None:
    """The member under which the report stands in an object that has data of its own."""
    name = "stacksplice" if _is_log(item) else "error"
    return name if isinstance(item, dict) and isinstance(item.get(name), dict) else None


def _with_reports(items: list[Any]) -> list[Any]:
    """ITEMS without the lines of a log that tell of no error."""
    found = [item for item in items if not tells_of_no_error(item)]
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


def documents_of(path: str) -> Iterator[Any]:
    """The JSON of that file: one document, or one on each line, which is read when it is asked for."""
    with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
        yield from _documents_of(file)


@contextmanager
def saying_why_not(path: str, verb: str) -> Iterator[None]:
    """Say what goes wrong with that file in the block, and end the block: cannot VERB it."""
    name = name_of(path)
    try:
        yield
    except BrokenPipeError:
        raise  # of standard output
    except OSError as exc:
        fail(f"cannot read {name}: {exc.strerror}")
    except UnicodeDecodeError as exc:
        if exc.object.startswith(b"\x7fELF"):
            fail(f"cannot {verb} {name}: it is no report; stacksplice core reads core files")
        else:
            fail(f"cannot {verb} {name}: it is not UTF-8 (byte {exc.start})")
    except MemoryError:
        fail(f"cannot {verb} {name}: out of memory")
    except (ValueError, RecursionError) as exc:
        fail(f"cannot {verb} {name}: {exc}")


def name_of(path: str) -> str:
    """What messages call the file of that path."""
    return "standard input" if path == "-" else path


def read_file(path: str, make: Callable[[list[Any], str], _Made]) -> _Made | None:
    """What MAKE makes of the items and the name of that file, "-" for standard input; None after saying
    why nothing can be made."""
    with saying_why_not(path, "show"):
        return make(_with_reports(items_of(list(documents_of(path)))), name_of(path))
    return None


def damaged(number: int, exc: Exception) -> ValueError:
    """That report NUMBER of a file has values which it may not have."""
    return ValueError(f"report {number} is damaged: {type(exc).__name__}: {exc}")


DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # how it is met
