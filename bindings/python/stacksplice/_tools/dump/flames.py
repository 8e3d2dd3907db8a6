"""``dump --repeat``: what a process does over some seconds, as a flame graph (SVG)."""

from __future__ import annotations

import json
import time
from html import escape

from ..._base.output import fail, write
from ..._base.redaction import clean_report
from .files import files_of
from .process import Refused, add_files, deleted_files, inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

_PAUSE = 0.05  # between two looks at the process
_WIDTH, _ROW, _HEAD = 1200, 17, 42
_LETTER = 6.6  # the width of one, in _STYLE
_STYLE = "text{font:11px ui-monospace,monospace;fill:#1b1b1b}rect{stroke:#fff;stroke-width:.6}"
_COLORS = {"python": "#8fc7a6", "lua": "#8fb5e8", "native": "#e3c48b", "thread": "#cfcfcf", "gap": "#e6e6e6"}
_OTHER = "#d6a8d8"


class _Row:
    """A place in the stacks, how often it was seen, and the places that it called."""

    def __init__(self, label: str, title: str, color: str) -> None:
        self.label, self.title, self.color = label, title, color
        self.count = 0
        self.called: dict[tuple[str, str], _Row] = {}

    def row(self, label: str, title: str, color: str) -> _Row:
        """The called place of that name."""
        return self.called.setdefault((label, title), _Row(label, title, color))

    def depth(self) -> int:
        """How many rows are above, with this one."""
        # A stack can be deeper than Python may recurse.
        deepest, level = 0, [self]
        while level:
            deepest += 1
            level = [inner for row in level for inner in row.called.values()]
        return deepest


def _named(frame: dict[str, Any]) -> tuple[str, str, str]:
    """Label, title and colour of a frame."""
    if frame["kind"] == "gap":
        return "...", frame["reason"], _COLORS["gap"]
    module = frame.get("module", "")
    name = frame.get("function") or f"{module.rpartition('/')[2] or '?'}+{frame.get('module_offset', 0):#x}"
    if frame["kind"] == "script" and "line" in frame:
        name += f":{frame['line']}"
    place = frame.get("file") or module
    return name, f"{name} {place}".strip(), _COLORS.get(frame["language"], _OTHER)


def _tree(threads: list[dict[str, Any]], all_frames: bool) -> _Row:
    root = _Row("all", "all threads", _COLORS["thread"])
    for thread in threads:
        root.count += thread["count"]
        name = f"thread {thread['thread_id']} {thread.get('name', '')}".rstrip()
        row = root.row(name, name, _COLORS["thread"])
        row.count += thread["count"]
        for frame in reversed(thread["stack"]):
            if all_frames or not frame.get("glue"):
                row = row.row(*_named(frame))
                row.count += thread["count"]
    return root


def _printable(text: str) -> str:
    """TEXT for XML, which has no form for some characters."""
    return escape("".join(c if c.isprintable() else "�" for c in text))


def _box(row: _Row, x: float, y: float, width: float, total: int) -> str:
    title = _printable(f"{row.title} ({row.count} of {total}, {row.count / total:.1%})")
    room = int((width - 6) / _LETTER)
    label = row.label if len(row.label) <= room else row.label[: max(room - 1, 0)] + "…" if room > 2 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 12}">{_printable(label)}</text>' if label else ""
    shape = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}" rx="2" fill="{row.color}"/>'
    return f"<g><title>{title}</title>{shape}{text}</g>\n"


def _boxes(root: _Row) -> Iterator[str]:
    left: list[tuple[_Row, float, int]] = [(root, 0.0, _HEAD)]
    while left:
        row, x, y = left.pop()
        width = _WIDTH * row.count / root.count
        if width < 0.3:
            continue
        yield _box(row, x, y, width, root.count)
        for inner in sorted(row.called.values(), key=lambda each: each.label):
            left.append((inner, x, y + _ROW))
            x += _WIDTH * inner.count / root.count


def svg_of(threads: list[dict[str, Any]], heading: str, all_frames: bool) -> str:
    """The picture of stacks, each with its "count"; the outermost frames are at the top."""
    root = _tree(threads, all_frames)
    height = _HEAD + root.depth() * _ROW + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">\n<style>{_STYLE}</style>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>\n'
        f'<text x="4" y="16">{_printable(heading)}</text>\n'
        '<text x="4" y="32">outermost at the top, as wide as often seen; point at one for its place</text>\n'
        f"{''.join(_boxes(root))}</svg>\n"
    )


def _watch(process: int, seconds: float) -> tuple[dict[str, Any], int, int]:
    """A document with the distinct stacks, how often the process was looked at, and its longest stop."""
    seen: dict[str, dict[str, Any]] = {}
    notes: set[str] = set()
    looks = longest = 0
    end = time.monotonic() + seconds
    while not looks or time.monotonic() < end:
        try:
            document = inspect("--pid", str(process))
        except Refused:
            if not looks:
                raise
            break  # the process has ended
        told = document["process"]
        looks += 1
        longest = max(longest, told["stopped_microseconds"])
        notes.update(document["notes"])
        for thread in document["threads"]:
            seen.setdefault(json.dumps(thread), {**thread, "count": 0})["count"] += 1
        time.sleep(_PAUSE)
    return {"process": told, "notes": sorted(notes), "threads": list(seen.values())}, looks, longest


def record(options: argparse.Namespace) -> int:
    """Write the picture of a process to standard output."""
    (process,) = options.processes
    with files_of(process) as files:
        try:
            document, looks, longest = _watch(process, options.repeat)
        except Refused as exc:
            return fail(str(exc))
        add_files(document, files, [], deleted_files(process), False, options.all_frames)
    document = clean_report(document)
    for note in document["notes"]:
        fail(note)
    heading = f"process {process}, seen {looks} times, stopped for at most {longest / 1000:.1f} ms"
    write(svg_of(document["threads"], heading, options.all_frames))
    return 0
