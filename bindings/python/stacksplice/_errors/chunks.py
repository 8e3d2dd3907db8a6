"""Lines of chunks that are no file, for tools that ask linecache: traceback, IPython, pytest, Sentry.

What a line of a chunk is, is known where its frame becomes an entry of a traceback.  Two chunks may have
one name.  A line in which they differ is in neither's frames then: no tool can tell them apart.
"""

from __future__ import annotations

import linecache
import re

from .. import _stacksplice

_MOST = 64  # names
_LARGEST = 1 << 18  # characters of the lines of one name
_ENDS = re.compile("\r\n|\n\r|\n|\r")  # of lines in Lua, as it counts them

_Entry = tuple[int, None, list[str], str]
# What linecache has of ours, the oldest first; and the numbers of lines of which there may be two.
_offered: dict[str, tuple[_Entry, set[int]]] = {}


def _is_ours_to_give(name: str) -> bool:
    """Whether no code of Python has the NAME: nothing of <string> or <stdin> is ours."""
    return name.startswith("[") or ("." in name and not name.startswith("<frozen ")) or "/" in name


def _known_lines(file: str, line: int, source: str) -> list[str]:
    """The text that has SOURCE as its LINE, or as much as is known of it."""
    text = _stacksplice._lupa_chunk(file, line, source)
    if text is not None and len(text) <= _LARGEST:
        return _ENDS.split(text)
    return [""] * (line - 1) + [source] if line <= _LARGEST >> 4 else []


def _merge(lines: list[str], others: list[str], unsure: set[int]) -> list[str]:
    """What is the same in both, or in one of them alone."""
    merged = []
    for number in range(max(len(lines), len(others))):
        one = lines[number] if number < len(lines) else ""
        other = others[number] if number < len(others) else ""
        if one.strip() and other.strip() and one.strip() != other.strip():
            unsure.add(number)
        merged.append("" if number in unsure else one if one.strip() else other)
    return merged


def offer(name: str, file: str, line: int, source: str | None) -> None:
    """LINE of the chunk FILE, which tracebacks call NAME, is SOURCE; None: it is not known."""
    found = linecache.cache.get(name)
    entry, unsure = _offered.get(name, (None, set[int]()))
    if not _is_ours_to_give(name) or (found is not None and found is not entry):
        return
    lines = [one.removesuffix("\n") for one in entry[2]] if entry is not None and found is entry else []
    if source is not None:
        lines = _merge(lines, _known_lines(file, line, source), unsure)
    elif lines:
        unsure.add(line - 1)
        lines[line - 1 : line] = [""]
    else:
        return
    _offered.pop(name, None)
    while len(_offered) >= _MOST:
        oldest = next(iter(_offered))
        if linecache.cache.get(oldest) is _offered.pop(oldest)[0]:
            del linecache.cache[oldest]
    entry = (sum(map(len, lines)), None, [one + "\n" for one in lines], name)
    linecache.cache[name] = entry
    _offered[name] = entry, unsure
