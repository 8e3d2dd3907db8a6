"""Groups many saved reports and writes the most frequent ones."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from ..._base.output import fail, write
from ..._base.plain import plain
from ..._base.progress import Progress
from ..._base.redaction import clean_report
from .files import Counter, File

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from .groups import Group, Place

_TITLE_MAX = 120


class _Row(NamedTuple):
    """A group as it is shown."""

    key: str
    group: Group
    first: str  # FILE:LINE
    last: str
    error: dict[str, Any]  # its first report; empty if it cannot be read any more


def _place(files: list[File], place: Place) -> str:
    file = files[place[0]]
    return f"{file.name}, report {place[3] + 1}" if file.is_document else f"{file.name}:{place[1]}"


def _row(files: list[File], key: str, group: Group) -> _Row:
    try:
        error = clean_report(files[group.first[0]].example(group.first))
    except (OSError, ValueError, LookupError, RecursionError):
        error = {}
    return _Row(key, group, _place(files, group.first), _place(files, group.last), error)


def _where(error: dict[str, Any]) -> str:
    """The innermost frame that a report shows: ", at NAME (FILE:LINE)", or nothing."""
    for frame in error.get("stack") or ():
        if frame.get("kind") == "gap" or frame.get("glue"):
            continue
        if frame.get("file"):
            place = os.path.basename(frame["file"]) + (f":{frame['line']}" if frame.get("line") else "")
        else:
            place = os.path.basename(frame.get("module") or "") or "?"
        return f", at {frame.get('function') or '???'} ({place})"
    return ""


def _title(error: dict[str, Any]) -> str:
    """One line that says what the error is."""
    if not error:
        return "(the file has changed: its first report cannot be read any more)"
    try:
        words = [str(error.get("type") or error.get("symbol") or error.get("hresult") or "")]
        message = str(error.get("message") or "").split("\n")[0]
        text = ": ".join(filter(None, [*words, message]))
        if len(text) > _TITLE_MAX:
            text = text[:_TITLE_MAX] + "..."
        text += _where(error)
    except (AttributeError, TypeError) as exc:
        text = f"(a damaged report: {exc})"
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _seen(time: str | None, place: str) -> str:
    return f"{time}, {place}" if time else place


def _text_of(row: _Row, width: int, reports: int) -> str:
    group, margin = row.group, " " * (width + 10)
    return (
        f"{group.count:>{width + 1},} {group.count / reports:>6.1%}  {_title(row.error)}\n"
        f"{margin}{row.key}\n"
        f"{margin}first {_seen(group.first_time, row.first)}\n"
        f"{margin}last  {_seen(group.last_time, row.last)}\n"
    )


def _line_of(row: _Row) -> str:
    """A line that show can read: the report is under "error"."""
    group = row.group
    values = {"count": group.count, "group": row.key, "first": row.first, "last": row.last}
    if group.first_time:
        values |= {"first_time": group.first_time, "last_time": group.last_time or ""}
    return json.dumps({**values, "error": row.error or None}) + "\n"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _about(counter: Counter, files: list[File]) -> list[str]:
    """Lines on all groups."""
    missing, without = counter.groups.missing, counter.without_loose
    groups = _counted(len(counter.groups.kept), "group")
    lines = [
        f"{_counted(counter.reports, 'report')} in {'at least ' if missing else ''}{groups}, "
        + _counted(len(files), "file")
    ]
    if missing:
        lines.append(f"Too many groups to count all: each count may be {missing:,} too small")
    if without:
        has, is_ = ("has", "is") if without == 1 else ("have", "are")
        lines.append(f"{without:,} {has} no loose fingerprint and {is_} grouped by the strict one")
    return lines


def _text(counter: Counter, rows: list[_Row], files: list[File]) -> str:
    more, most = len(counter.groups.kept) - len(rows), max((row.group.count for row in rows), default=0)
    text = "".join(line + "\n" for line in _about(counter, files))
    for row in rows:
        text += "\n" + _text_of(row, len(f"{most:,}"), counter.reports)
    return text + (f"\n... {_counted(more, 'more group')}; --limit shows more\n" if more else "")


def _write_page(counter: Counter, rows: list[_Row], files: list[File], path: str) -> int:
    from ..html.top import Row, example_of, write_groups
    from ..html.values import Look

    look = Look()
    shown = [
        Row(
            f"{row.group.count:,}",
            f"{row.group.count / counter.reports:.1%}",
            _title(row.error),
            row.first,
            row.group.first_time,
            row.last,
            row.group.last_time,
            example_of(row.error, look) if row.error else None,
        )
        for row in rows
    ]
    return write_groups(_about(counter, files), shown, look, path)


def _read(options: argparse.Namespace, files: list[File]) -> tuple[Counter, int]:
    """The counts of all files that can be read, and the exit status so far."""
    progress = Progress(0 if "-" in options.reports else sum(file.size() for file in files))
    counter, status = Counter(options.loose, progress), 0
    for file in files:
        try:
            counter.read(file)
        except OSError as exc:
            progress.end()
            status = fail(f"cannot read {file.name}: {exc.strerror}")
    progress.end()
    return counter, status


def top(options: argparse.Namespace) -> int:
    """Write the most frequent groups of the reports in the files; the exit status."""
    if options.html is not None:
        from ..html import needs

        try:
            needs.check()
        except ImportError as exc:
            return fail(str(exc))
    files = [File(number, path) for number, path in enumerate(options.reports)]
    counter, status = _read(options, files)
    rows = [_row(files, key, group) for key, group in counter.groups.most_frequent()[: options.limit]]
    if options.html is not None:
        status = _write_page(counter, rows, files, options.html) or status
    elif options.json:
        write("".join(map(_line_of, rows)))
    else:
        write(plain(_text(counter, rows, files), "\n"))
    if counter.broken:
        what = "1 line that holds" if counter.broken == 1 else f"{counter.broken:,} lines that hold"
        fail(f"passed over {what} no report; the first is {counter.first_broken}")
    return status or (1 if counter.broken else 0)
