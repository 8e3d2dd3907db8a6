"""Files of saved reports: one report, a list of them, or one on each line, such as a log's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..._base.output import fail
from ..._base.redaction import clean
from ..._errors.counts import is_count, one_line
from ..._errors.info import FILE_SCHEMA, ErrorInfo
from .source import Source, check_depth, decoded

# Takes a document, its reports, how many its file has had before it, and that file's name if a heading
# is to have it.
_Use: TypeAlias = Callable[[Any, list[Any], int, str], None]

_OF_A_LOG = ("@timestamp", "log.level", "log.logger", "message")  # what a heading says of a line
_WHEN, _WHICH = ("time",), ("process", "pid", "thread_id", "cwd")
_NOT_OF_AN_EVENT = {*_WHEN, *_WHICH, "core_version", "host", "arch", "platform", "platform_release"}


# How the names of files of reports end; in a folder the others are left alone.
_ENDINGS = (".json", ".jsonl", ".ndjson")


def files_in(paths: Sequence[str]) -> tuple[list[str], int]:
    """PATHS, and in the place of each folder its files of reports by their names; the exit status, after
    saying which folder has none or cannot be read.  What is written into a folder later is not read."""
    found, status = [], 0
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            found.append(path)
            continue
        try:
            with os.scandir(path) as entries:
                inside = [each.path for each in entries if each.name.endswith(_ENDINGS) and each.is_file()]
        except OSError as exc:
            status = fail(f"cannot read {path}: {exc.strerror}")
            continue
        if not inside:
            status = fail(f"cannot read {path}: the folder has no file that ends with {', '.join(_ENDINGS)}")
        found += sorted(inside)
    return found, status


def items_of(document: Any) -> list[Any]:
    """One report, or a list of them."""
    items = document if isinstance(document, list) else [document]
    if not items:
        raise ValueError("the list of errors is empty")
    return items


def is_log(item: Any) -> bool:
    """Whether it is a line of a log with the names of the Elastic Common Schema."""
    return isinstance(item, dict) and "ecs.version" in item


def wrapper_of(item: Any) -> str | None:
    """The member under which the report stands in an object that has data of its own."""
    name = "stacksplice" if is_log(item) else "error"
    return name if isinstance(item, dict) and isinstance(item.get(name), dict) else None


def count_in(item: Any) -> dict[str, Any] | None:
    """The line of counts that ITEM is, or has as a log's line; None if it has none."""
    name = wrapper_of(item)
    told = item[name] if name else item
    return told if is_count(told) else None


# What Lua has: a value that was thrown has the name of its kind where an exception has a type.
_KINDS_OF_VALUES = {
    "lua": frozenset(
        ("nil", "boolean", "number", "string", "table", "function", "userdata", "light userdata", "thread")
    )
}


def type_in(report: dict[str, Any]) -> str:
    """The type that reports show of an error: "" if there is none, or only the kind of the value."""
    kind = report.get("type")
    kinds = _KINDS_OF_VALUES.get(str(report.get("language")), ())
    return "" if kind is None or kind in kinds else str(kind)


def _words_of(data: dict[Any, Any]) -> list[str]:
    return [
        f"{one_line(name)}: {one_line(clean(value, name))}"
        for name, value in data.items()
        if name != "schema" and isinstance(value, (str, int, float))
    ]


def heading_of(item: Any, place: str) -> list[str]:
    """What the object around a report says of it, such as "order: O-25150"; PLACE is the file.  Of the file
    of a process a line each says what happened, when, and to which process."""
    data = dict(item) if wrapper_of(item) else {}
    parts = [data]
    if is_log(item):
        parts = [{name: data[name] for name in _OF_A_LOG if name in data}]
    elif data.get("schema") == FILE_SCHEMA and isinstance(data.get("header"), dict):
        data = data["header"]
        parts = [{name: data[name] for name in data if name not in _NOT_OF_AN_EVENT}]
        parts += [{name: data[name] for name in names if name in data} for names in (_WHEN, _WHICH)]
    lines = [_words_of(part) for part in parts]
    lines[0][:0] = [one_line(place)] if place else []
    return [", ".join(words) for words in lines if words]


def report_of(item: Any) -> ErrorInfo:
    """The error of an item; ValueError if it is none."""
    name = wrapper_of(item)
    if name is None and isinstance(item, dict) and item.get("error", item) is None:
        raise ValueError('"error" is null: the file changed while top read it; run top again')
    check_depth(item[name] if name else item)
    return ErrorInfo._from_json_values(item[name] if name and item.get("schema") != FILE_SCHEMA else item)


def _why(exc: ValueError, line: int, offset: int) -> str:
    """What is wrong with the text of that LINE, which is at OFFSET."""
    why = str(exc)
    if isinstance(exc, UnicodeDecodeError):
        why = f"it is not UTF-8 (byte {offset + exc.start})"
        if exc.object.startswith(b"\x7fELF"):
            why = "it is not a report; stacksplice core reads core files"
    return f"on line {line}: {why}" if line > 1 else why


def _read(source: Source, use: _Use, place: str, shows_progress: bool) -> None:
    count, line, wrong = 0, 0, []
    for line, offset, text in source.texts(shows_progress):
        try:
            document = decoded(text)
            items = [item for item in items_of(document) if wrapper_of(item) or not is_log(item)]
            use(document, items, count, place)
            count += len(items)
        except ValueError as exc:
            wrong.append(_why(exc, line, offset))
            if not count:
                break
    if wrong:
        more = len(wrong) - 1
        raise ValueError(wrong[0] + (f", and {more:,} more line{'s' if more > 1 else ''}" if more else ""))
    if not line:
        raise ValueError("the file is empty")
    if not count:
        raise ValueError('no line of this log has a report, the member "stacksplice" of JsonFormatter')


def read(paths: Sequence[str], verb: str, use: _Use, shows_progress: bool = False) -> int:
    """Have USE take each document of those files as it is read; the exit status, after saying which file, or
    line of it, it "cannot VERB" and why.  Of a file that begins wrong the rest is not read."""
    files, status = files_in(paths)
    for path in files:
        source = Source(path)
        try:
            _read(source, use, source.name if len(files) > 1 else "", shows_progress)
        except BrokenPipeError:
            raise  # of standard output
        except OSError as exc:
            status = fail(f"cannot read {source.name}: {exc.strerror}")
        except MemoryError:
            status = fail(f"cannot {verb} {source.name}: out of memory")
        except (ValueError, RecursionError) as exc:
            status = fail(f"cannot {verb} {source.name}: {exc}")
    return status


def damaged(number: int, exc: Exception) -> ValueError:
    """That report NUMBER of a file has values which it may not have."""
    return ValueError(f"report {number} is damaged: {type(exc).__name__}: {exc}")


DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # how it is met
