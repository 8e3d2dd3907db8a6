"""Annotations on GitHub: failing tests are shown at the line that raised, in whatever language."""

from __future__ import annotations

import os
from pathlib import Path

from .._base.redaction import text_of
from .info import ErrorInfo


def is_host() -> bool:
    """Whether a workflow of GitHub runs this."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def place_of(info: ErrorInfo, root: Path) -> str | None:
    """FILE:LINE, relative to ROOT, of the innermost frame whose file is below that, where it began."""
    while info.transformed is not None:
        info = info.transformed
    for frame in info.stack:
        if frame.file is None or frame.line is None or frame.glue:
            continue
        file = Path(os.path.abspath(root / frame.file))
        if file.is_relative_to(root) and not {"site-packages", "dist-packages"} & set(file.parts):
            if file.is_file():
                return f"{file.relative_to(root).as_posix()}:{frame.line}"
    return None


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def command(place: str, title: str, message: str) -> str:
    """The line by which a program asks for an annotation: no text of an error ends it."""
    file, _, line = place.rpartition(":")
    title, message = text_of(title), text_of(message)
    return f"::error file={_property(file)},line={line},title={_property(title)}::{_data(message)}"
