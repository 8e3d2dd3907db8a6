"""Groups many saved reports and writes the most frequent ones."""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import sys
import tempfile
import textwrap
from datetime import datetime, timezone
from typing import IO, Any, NamedTuple, TypeAlias

from ..._base.output import columns, fail, warn, write, write_file
from ..._base.plain import plain
from ..._base.redaction import clean_report
from ..._errors.counts import time_of_count
from ..saved.files import count_in, files_in, is_log, items_of, type_in, wrapper_of
from ..saved.source import Source, check_depth, decoded, may_be_deep

MOST = 50_000  # groups kept when there are too many; up to twice as many before that

# A fingerprint, and the values of the fields by which reports are counted apart.
Key: TypeAlias = tuple[str, tuple[str, ...]]

# file's number, line, offset of the line, number of the report in the line (-1: the file is one document)
Place: TypeAlias = tuple[int, int, int, int]


class Group:
    """The reports of one key."""

    __slots__ = ("count", "first", "first_time", "has_report", "last", "last_time")

    def __init__(self, place: Place) -> None:
        self.count = 0
        self.has_report = False  # FIRST is a whole report, no line of counts
        self.first = self.last = place
        self.first_time: str | None = None
        self.last_time: str | None = None

    def seen(self, time: str) -> None:
        """One of its reports was made at TIME."""
        self.first_time = min(self.first_time or time, time)
        self.last_time = max(self.last_time or time, time)


class Groups:
    """All groups; with too many, the frequent ones.

    When there are twice MOST, the count of the one in the middle is taken from all, and those
    without a rest are dropped (the counters of Misra and Gries, many at a time).  Each count is then
    too small by at most ``missing``; a group with more reports than that is never lost.
    """

    def __init__(self, most: int = MOST) -> None:
        self.kept: dict[Key, Group] = {}
        self.missing = 0
        self._most = most

    def add(self, key: Key, place: Place, count: int = 1) -> Group:
        """Count a report, or COUNT of them that stand in one place."""
        group = self.kept.get(key)
        if group is None:
            if len(self.kept) >= 2 * self._most:
                self._shrink()
            group = self.kept[key] = Group(place)
        group.count += count
        group.last = place
        return group

    def _shrink(self) -> None:
        counts = sorted((group.count for group in self.kept.values()), reverse=True)
        taken = counts[self._most]
        self.missing += taken
        self.kept = {key: group for key, group in self.kept.items() if group.count > taken}
        for group in self.kept.values():
            group.count -= taken

    def most_frequent(self) -> list[tuple[Key, Group]]:
        """All that are kept, the most frequent first, of equal ones that seen first."""
        return sorted(self.kept.items(), key=lambda pair: (-pair[1].count, pair[1].first))


# A report as the core writes it begins and ends so, with or without spaces.  In JSON no text has a
# quotation mark without a backslash, so these are its own members, not those of a cause or a member.
_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_HEAD = (
    r'\s*\{"schema": ?"stacksplice-error/1", ?"hresult": ?"0x[0-9a-f]{8}", ?"hresult_signed": ?-?\d+, ?'
    rf'(?:"symbol": ?{_TEXT}, ?)?"description": ?{_TEXT}, ?"message": ?{_TEXT}, ?'
    rf'(?:"type": ?(?:null|{_TEXT}), ?)?"language": ?{_TEXT}, ?'
    rf'(?:"notes": ?\[(?:{_TEXT}(?:, ?)?)*\], ?)?"thread_id": ?\d+, ?'
    rf'(?:"reference": ?(?:null|{_TEXT}), ?)?"fingerprint": ?"([0-9a-f]{{32}})"'
)
_ends = re.compile(rb'"transformed_above": ?(?:null|"cause"|"context")\}\s*\Z').search
_STRICT = re.compile(_HEAD.encode()).match
_LOOSE = re.compile((_HEAD + r', ?"loose_fingerprint": ?"([0-9a-f]{32})"').encode()).match
_TAIL = 64  # bytes that hold the end

# An object that has such a report under one of its names, beside others whose values are plain, or maps of
# plain values.
_PLAIN = rf"(?:{_TEXT}|-?[0-9][0-9.eE+-]*|true|false|null)"
_VALUE = rf"(?:{_PLAIN}|\{{(?:{_TEXT}: ?{_PLAIN}(?:, ?)?)*\}})"
_before = re.compile(
    rf'\s*\{{(?:{_TEXT}: ?{_VALUE}, ?)*?("error"|"stacksplice"): ?(?=\{{"schema")'.encode()
).match
_behind = re.compile(
    r'"transformed_left_out": ?\d+, ?"transformed_above": ?(?:null|"cause"|"context")\}'
    rf"((?:, ?{_TEXT}: ?{_VALUE})*\}}\s*)\Z".encode()
).match
_LAST = b'"transformed_left_out"'  # which a report has once, near its end
_FINGERPRINT = re.compile("[0-9a-f]{32}").fullmatch


class Found(NamedTuple):
    """A report: its fingerprint, when it was made if that is known, itself if that was read, and the object
    in which it stands; or a line that says how many came again."""

    key: str
    is_strict: bool
    time: str | None
    report: dict[str, Any]
    around: dict[str, Any]
    times: int = 1
    last_time: str | None = None  # of a line that counts reports; "" if that has none


def quick_reports_of(line: bytes, is_loose: bool) -> list[Found]:
    """The report of a line that is one as the core writes it, read from its beginning; none if the line is
    something else, or was cut off."""
    head = (is_loose and _LOOSE(line)) or _STRICT(line)
    if not head or _ends(line, max(0, len(line) - _TAIL)) is None or may_be_deep(line):
        return []
    return [Found(head[head.lastindex or 0].decode("ascii"), head.lastindex == 1, None, {}, {})]


def quick_report_in(line: bytes, is_loose: bool) -> list[Found]:
    """The same where the report stands in an object that has data of its own, which is read."""
    before = _before(line)
    head = before and ((is_loose and _LOOSE(line, before.end())) or _STRICT(line, before.end()))
    behind = head and _behind(line, line.rfind(_LAST))
    if not before or not head or not behind or may_be_deep(line):
        return []
    around = decoded(line[: before.end()] + b"{}" + behind[1])
    if wrapper_of(around) != before[1].decode("ascii").strip('"'):
        return []
    key = head[head.lastindex or 0].decode("ascii")
    return [Found(key, head.lastindex == 1, _time_in(around), {}, around)]


def _time_of(text: Any) -> str | None:
    """A time in UTC, in a form whose order as text is that of time."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (TypeError, ValueError, OverflowError):
        return None


def _time_in(item: dict[str, Any]) -> str | None:
    """When the report was made: by a log line, a failed process, or any object with data of its own."""
    header = item.get("header")
    if isinstance(header, dict):
        return _time_of(header.get("time"))
    return _time_of(item.get("@timestamp") or item.get("time"))


_NO_VALUE = "(none)"


def _field(around: dict[str, Any], name: str) -> str:
    """The value of the field NAME beside a report, "host.name" also in a map "host"; in the file of a failed
    process that of its header, too."""
    for members in (around, around.get("header")):
        value: Any = members
        for part in [name] if isinstance(members, dict) and name in members else name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            return value if isinstance(value, str) else json.dumps(value)
    return _NO_VALUE


def _counted_by(item: dict[str, Any], key: str, is_strict: bool) -> Found:
    """What a line of counts says."""
    first, last = [
        _time_of(str(time)) if time else None
        for time in (time_of_count(item, "first_ns"), time_of_count(item, "last_ns"))
    ]
    return Found(key, is_strict, first, item, {}, item["count"], last or "")


def reports_of(text: bytes, is_loose: bool) -> list[Found]:
    """The reports of a JSON document; a log line without an error has none.

    Raises ValueError for something else, or RecursionError.
    """
    found = []
    for item in items_of(decoded(text)):
        name = wrapper_of(item)
        report = item[name] if name else item
        members = report if isinstance(report, dict) else {}
        loose = members.get("loose_fingerprint") if is_loose else None
        key = loose or members.get("fingerprint")
        counts = count_in(item)
        if counts is not None and isinstance(key, str) and _FINGERPRINT(key):
            found.append(_counted_by(counts, key, not loose))
            continue
        if isinstance(key, str) and _FINGERPRINT(key) and "hresult_signed" in members:
            check_depth(members)
            found.append(Found(key, not loose, _time_in(item), members, item if name else {}))
        elif name or not is_log(item):
            raise ValueError("there is no report")
    return found


class File(Source):
    """A file; of one that cannot be read again, such as a pipe, the first line of each group is kept."""

    skips_damage = True

    def __init__(self, number: int, path: str) -> None:
        super().__init__(path)
        self.number = number
        self._kept: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        """Its bytes.  Raises OSError."""
        file = super().open()
        if self.path == "-" or not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            self._kept = tempfile.TemporaryFile()
        return file

    def keep(self, place: Place, text: bytes) -> Place:
        """Where TEXT, which is at PLACE, can be read again."""
        if self._kept is None:
            return place
        offset = self._kept.seek(0, os.SEEK_END)
        if self.is_document and offset:  # it is there already
            return place
        self._kept.write(text)
        return (place[0], place[1], offset, place[3])

    def example(self, place: Place) -> dict[str, Any]:
        """The report at PLACE.  Raises OSError, or ValueError or LookupError if the file has changed."""
        file = self._kept or open(self.path, "rb")
        try:
            file.seek(place[2])
            text = file.read() if self.is_document else file.readline()
        finally:
            if file is not self._kept:
                file.close()
        return reports_of(text, False)[place[3]].report


class Counter:
    """Counts the reports of files."""

    files = reports = without_loose = broken = 0  # FILES: those that were read
    first_broken = ""

    def __init__(self, is_loose: bool, by: list[str]) -> None:
        self.groups = Groups()
        self._is_loose = is_loose
        self._by = by
        # Else members of reports are asked for.
        self._reads_around = not any(name.split(".")[0] in ("error", "stacksplice") for name in by)

    def read(self, source: File) -> None:
        """Count those of SOURCE.  Raises OSError."""
        for at, offset, text in source.texts(True):
            try:
                found = (
                    quick_reports_of(text, self._is_loose)
                    or (self._reads_around and quick_report_in(text, self._is_loose))
                    or reports_of(text, self._is_loose)
                )
            except (ValueError, RecursionError):
                self.broken += 1
                self.first_broken = self.first_broken or f"{source.name}:{at}"
                continue
            for index, one in enumerate(found):
                self._count(source, one, (source.number, at, offset, index), text)
        self.files += 1

    def _count(self, source: File, found: Found, place: Place, text: bytes) -> None:
        values = tuple([_field(found.around, name) for name in self._by])
        group = self.groups.add((found.key, values), place, found.times)
        self.reports += found.times
        self.without_loose += found.times if found.is_strict and self._is_loose else 0
        is_report = found.last_time is None
        if group.first == place or (is_report and not group.has_report):
            group.first = source.keep(place, text)
            group.has_report = is_report
        for time in (found.time, found.last_time):
            if time:
                group.seen(time)


_TITLE_MAX = 120
_NARROWEST = 20  # characters of a line beside its margin


_Frame: TypeAlias = tuple[str, str, str]  # its function, its file or module, and ":LINE"


class _Row(NamedTuple):
    key: str
    beside: dict[str, str]  # the fields by which it was counted apart, and its values
    group: Group
    reports: str
    share: str
    first: str  # FILE:LINE
    last: str
    error: dict[str, Any]  # its first report; empty if it cannot be read any more
    title: str
    frames: list[_Frame]  # those that a report shows, the innermost first


def _place(files: list[File], place: Place) -> str:
    file = files[place[0]]
    return f"{file.name}, report {place[3] + 1}" if file.is_document else f"{file.name}:{place[1]}"


def _row(files: list[File], key: Key, by: list[str], group: Group, reports: int) -> _Row:
    try:
        error = clean_report(files[group.first[0]].example(group.first))
    except (OSError, ValueError, LookupError, RecursionError):
        error = {}
    first, last = _place(files, group.first), _place(files, group.last)
    share, beside = f"{group.count / reports:.1%}", dict(zip(by, key[1], strict=True))
    title, frames = _shown(error)
    return _Row(key[0], beside, group, f"{group.count:,}", share, first, last, error, title, frames)


def _frames_of(error: dict[str, Any]) -> list[_Frame]:
    found = []
    for frame in error.get("stack") or ():
        if frame.get("kind") != "gap" and not frame.get("glue"):
            file, line = frame.get("file"), frame.get("line")
            place = os.path.basename(file or frame.get("module") or "?")
            found.append((frame.get("function") or "???", place, f":{line}" if file and line else ""))
    return found


def _words_of(frame: _Frame) -> str:
    function, place, line = frame
    return f"{function} ({place}{line})"


def _begin_of(text: str) -> str:
    """TEXT as a title, cut between words if it is too long; inside of a word that takes half of the room."""
    if len(text) <= _TITLE_MAX:
        return text
    begin = text[: _TITLE_MAX + 1].rpartition(" ")[0].rstrip()
    return (begin if len(begin) > _TITLE_MAX // 2 else text[:_TITLE_MAX]) + "..."


def _shown(error: dict[str, Any]) -> tuple[str, list[_Frame]]:
    """The title of a row, and its frames."""
    if not error:
        return "(the file has changed: its first report cannot be read any more)", []
    try:
        message = str(error.get("message") or "").split("\n")[0]
        name = type_in(error)
        if not name and not (error.get("type") and message):
            name = error.get("symbol") or error.get("hresult") or ""
        text = ": ".join(filter(None, (str(name), message)))
        text, frames = _begin_of(text), _frames_of(error)
    except (AttributeError, TypeError) as exc:
        return plain(f"(a damaged report: {exc})"), []
    return plain(text + "".join([f", at {_words_of(frame)}" for frame in frames[:1]])), frames


def _names_at(row: _Row, depth: int) -> tuple[str, str] | None:
    """What a fingerprint has of a frame: no line, which moves with every edit."""
    return row.frames[depth][:2] if depth < len(row.frames) else None


def _apart(rows: list[_Row]) -> list[_Row]:
    """ROWS; where titles are equal, with the nearest frame in which they differ."""
    same: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        same.setdefault((row.title, *row.beside.values()), []).append(index)
    waiting = [(indices, 1) for indices in same.values() if len(indices) > 1]
    for indices, depth in waiting:  # which grows during the loop
        parts: dict[tuple[str, str] | None, list[int]] = {}
        for index in indices:
            parts.setdefault(_names_at(rows[index], depth), []).append(index)
        has_ended = parts.pop(None, None)
        for part in parts.values():
            if len(parts) > 1 or has_ended:
                for index in part:
                    words = plain(_words_of(rows[index].frames[depth]))
                    rows[index] = rows[index]._replace(title=f"{rows[index].title}, via {words}")
            if len(part) > 1:
                waiting.append((part, depth + 1))
    return rows


def _text_of(row: _Row, width: int) -> str:
    group, margin = row.group, " " * (width + 10)
    beside = ", ".join([f"{name}: {value}" for name, value in row.beside.items()])
    return (
        f"{row.reports:>{width + 1}} {row.share:>6}  {row.title}\n"
        + (f"{margin}{plain(beside)}\n" if beside else "")
        + f"{margin}{row.key}\n"
        f"{margin}first {', '.join(filter(None, (group.first_time, row.first)))}\n"
        f"{margin}last  {', '.join(filter(None, (group.last_time, row.last)))}\n"
    )


def _line_of(row: _Row) -> str:
    """A line that show can read: the report is under "error"."""
    group = row.group
    values: dict[str, Any] = {"count": group.count, "group": row.key}
    if row.beside:
        values["by"] = row.beside
    values |= {"first": row.first, "last": row.last}
    if group.first_time:
        values |= {"first_time": group.first_time, "last_time": group.last_time or ""}
    return json.dumps({**values, "error": row.error or None}) + "\n"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _about(counter: Counter) -> list[str]:
    missing, without = counter.groups.missing, counter.without_loose
    groups = _counted(len(counter.groups.kept), "group")
    files = _counted(counter.files, "file")
    if not counter.reports:
        return [f"no report in {files}"]
    lines = [f"{_counted(counter.reports, 'report')} in {'at least ' if missing else ''}{groups}, {files}"]
    if missing:
        lines.append(f"Too many groups to count all: each count may be {missing:,} too small")
    if without:
        has, is_ = ("has", "is") if without == 1 else ("have", "are")
        lines.append(f"{without:,} {has} no loose fingerprint and {is_} grouped by the strict one")
    return lines


def _wrapped(text: str, margin: int, room: int) -> str:
    """TEXT in lines of ROOM characters at most, which end between words and begin behind a MARGIN.
    A longer word, as a path may be, is not cut."""
    lines = []
    for line in text.splitlines():
        inside = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line,
            max(room, margin + _NARROWEST),
            subsequent_indent=inside or " " * margin,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "".join([f"{line}\n" for line in lines])


def _text(counter: Counter, rows: list[_Row], room: int | None) -> str:
    """The rows as text, for a terminal of ROOM characters; None: for none."""
    more, width = len(counter.groups.kept) - len(rows), max((len(row.reports) for row in rows), default=0)
    text = "".join(line + "\n" for line in _about(counter))
    for row in rows:
        shown = plain(_text_of(row, width), "\n")
        text += "\n" + (shown if room is None else _wrapped(shown, width + 10, room))
    return text + (f"\n... {_counted(more, 'more group')}; --limit shows more\n" if more else "")


def _write_page(counter: Counter, rows: list[_Row], path: str) -> int:
    from ..html.command import example_of
    from ..html.page import render
    from ..html.values import Look

    look = Look()
    shown = [(row, example_of(row.error, look) if row.error else None) for row in rows]
    return write_file(render("top.html.j2", about=_about(counter), rows=shown, look=look), path)


def _read(options: argparse.Namespace, files: list[File]) -> tuple[Counter, int]:
    """The counts of all files that can be read, and the exit status so far."""
    counter, status = Counter(options.loose, options.by), 0
    for file in files:
        try:
            counter.read(file)
        except OSError as exc:
            status = fail(f"cannot read {file.name}: {exc.strerror}")
    return counter, status


def top(options: argparse.Namespace) -> int:
    """Write the most frequent groups of the reports in the files; the exit status."""
    paths, missing = files_in(options.reports)
    files = [File(number, path) for number, path in enumerate(paths)]
    counter, status = _read(options, files)
    status = status or missing
    if not counter.files:
        return status
    most = counter.groups.most_frequent()[: options.limit]
    rows = _apart([_row(files, key, options.by, group, counter.reports) for key, group in most])
    if options.html is not None:
        status = _write_page(counter, rows, options.html) or status
    elif options.json:
        write("".join(map(_line_of, rows)))
    else:
        write(_text(counter, rows, columns(1) if sys.stdout.isatty() else None))
    if counter.broken:
        without = _counted(counter.broken, "line") + " without a report"
        warn(f"skipped {without} (first: {counter.first_broken})")
    elif not counter.reports and (options.json or options.html is not None):
        warn(*_about(counter))
    return status or (1 if counter.broken else 0)
