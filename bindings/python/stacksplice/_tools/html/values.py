"""What a page shows, read from a report as plain values (docs/reference/json.md)."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ... import _stacksplice
from ..dump.text import mark_start_up
from ..saved.files import type_in
from .folding import Shown, folded
from .lanes import way_of
from .source import Lines, Piece

_REDACTED = "[redacted: "  # a text in which columns are not those of the file any more
_NAMES = {"python": "Python", "lua": "Lua", "native": "C", "c++": "C++"}
_CLASSES = {"python": "python", "lua": "lua", "native": "native", "c++": "cpp"}


def language_name(language: str) -> str:
    return _NAMES.get(language, language)


def language_class(language: str) -> str:
    """That of the stylesheet: a report can name any language."""
    return _CLASSES.get(language, "other")


@dataclass(frozen=True)
class Look:
    """How the pages are wanted."""

    newest_last: bool = True
    all_frames: bool = False
    lines: Lines = field(default_factory=Lines)


def _source_of(frame: dict[str, Any], lines: Lines) -> tuple[Piece, ...]:
    text = frame.get("source")
    if not text:
        return ()
    starts = int(frame.get("source_column") or 1)
    column, end = frame.get("column"), frame.get("end_column")
    begin = int(column) - starts if column and _REDACTED not in text else None
    if frame.get("end_line") not in (None, frame.get("line")):
        stop: int | None = len(text.encode("utf-8", "surrogatepass"))  # the statement goes on below
    else:
        stop = int(end) - starts if end else None
    suffix = os.path.splitext(str(frame.get("file") or ""))[1]
    return lines.pieces(str(text), str(frame["language"]), suffix, begin, stop)


def _around(
    frame: dict[str, Any], source: tuple[Piece, ...], lines: Lines
) -> list[tuple[int, str, tuple[Piece, ...]]]:
    """The lines around SOURCE, which is that of FRAME: the number of each, what it is indented by besides
    what all of them are, and its text."""
    file, line = str(frame.get("file") or ""), int(frame.get("line") or 0)
    near = lines.near(file, line, str(frame.get("source") or ""))
    margin = min((len(text) - len(text.lstrip()) for _, text in near if text.strip()), default=0)
    suffix, language = os.path.splitext(file)[1], str(frame["language"])
    return [
        (
            number,
            text[margin : len(text) - len(text.lstrip())],
            source if number == line else lines.pieces(text.strip(), language, suffix, None, None),
        )
        for number, text in near
    ]


def _marks_of(frame: dict[str, Any]) -> list[str]:
    inlined = "inlined" if frame.get("inlined") else ""
    inferred = "inferred" if frame.get("trust") == "inferred" else ""
    return [*filter(None, (inlined, inferred, str(frame.get("interpreter") or "")))]


def _place_in_module(frame: dict[str, Any]) -> str:
    name = os.path.basename(str(frame.get("module") or ""))
    offset = frame.get("module_offset")
    return name if offset is None else f"{name}+{int(offset):#x}"


def _variables_of(frame: dict[str, Any]) -> list[tuple[str, str]]:
    found = frame.get("locals")
    if not isinstance(found, dict):
        return []
    return [(str(name), value if isinstance(value, str) else repr(value)) for name, value in found.items()]


_TEXTS = ("kind", "language", "function", "file", "module", "build_id", "reason")


def _frame_of(frame: dict[str, Any], lines: Lines) -> Shown:
    source = _source_of(frame, lines)
    return Shown(
        **{name: str(frame.get(name) or "") for name in _TEXTS},
        line=int(frame.get("line") or 0),
        place_in_module=_place_in_module(frame),
        marks=_marks_of(frame),
        glue=bool(frame.get("glue")),
        fold=None,  # the number and the name of the line in which a brief report counts it
        asynchronous=bool(frame.get("asynchronous")),
        source=source,
        around=_around(frame, source, lines) if source else [],
        is_first=False,  # the innermost one of the user's
        variables=_variables_of(frame),
        same=(frame.get("address"), frame.get("function"), frame.get("line"), frame.get("reason")),
    )


class Error(SimpleNamespace):
    """An error, those that it was made from, and its members: what error_of() gives it."""

    @property
    def headline_message(self) -> str:
        """The first line of its message; where it has none, the system's text for its HRESULT."""
        return str(self.message.strip() or self.description).split("\n", 1)[0]

    @property
    def headline(self) -> str:
        """One line of it."""
        text = self.headline_message
        return ": ".join(filter(None, (self.title, text))) or str(self.hresult)

    def all_frames(self) -> Iterator[Shown]:
        """Those of its stack, its causes and its members."""
        yield from self.frames
        for inner in [*self.causes, *(self.members or ())]:
            yield from inner.all_frames()


def stack_of(stack: list[dict[str, Any]], look: Look) -> list[Shown]:
    """The frames of STACK, of which those below main are glue and libraries folded, as in text reports."""
    mark_start_up(stack)
    shown = [_frame_of(frame, look.lines) for frame in stack]
    for number, (begin, end, library) in enumerate(_stacksplice._folds_of(json.dumps(stack))):
        for frame in shown[begin:end]:
            if library:
                frame.fold = number, library
            else:
                frame.glue = True
    return shown


def _is_of_user(frame: Shown) -> bool:
    return (
        bool(frame.around)
        and not frame.is_hidden
        and not {"site-packages", "dist-packages"} & {*frame.file.split("/")}
    )


def _hresult_of(data: dict[str, Any]) -> str:
    if "hresult_signed" not in data:
        return ""
    symbol = data.get("symbol")
    return f"0x{int(data['hresult_signed']) & 0xFFFFFFFF:08x}" + (f" {symbol}" if symbol else "")


def error_of(data: dict[str, Any], look: Look, verb: str = "raised") -> Error:
    """The error that DATA, a report or a part of one, describes.

    VERB is what it did where it began: "raised", of a crash "crashed".
    """
    frames = stack_of(data.get("stack") or [], look)
    for frame in filter(_is_of_user, frames):
        frame.is_first = True
        break
    nodes = [
        (str(node["language"]), int(node["thread_id"]), stack_of(node.get("stack") or [], look))
        for node in data.get("propagation") or ()
    ]
    thread = int(data.get("thread_id") or 0)
    members, language = data.get("exceptions"), str(data.get("language") or "native")
    return Error(
        verb=verb,
        title=type_in(data),
        message=str(data["message"]),
        relation=str(data.get("relation") or ""),
        language=language,
        hresult=_hresult_of(data),
        description=str(data.get("description") or ""),
        notes=[str(note) for note in data.get("notes") or ()],
        thread_id=thread,
        fingerprint=str(data.get("fingerprint") or ""),
        frames=frames,
        stack=folded(frames, look.newest_last),
        way=way_of(frames, nodes, thread, language),
        causes=[error_of(cause, look) for cause in data.get("transformed") or ()],
        causes_left_out=data.get("transformed_left_out"),
        above=data.get("transformed_above"),
        members=None if members is None else [error_of(member, look) for member in members],
        members_left_out=data.get("exceptions_left_out"),
    )
