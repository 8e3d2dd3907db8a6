"""Lines of source of other processes, from the files that their scripts were read from."""

from __future__ import annotations

from .errors import with_stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .files import Files


def _stacks(document: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    for owner in with_stacks(document):
        yield owner["stack"]
    for thread in document["threads"]:
        for exception in thread.get("exceptions", ()):
            yield exception["stack"]
            yield from (cause["stack"] for cause in exception["transformed"])


def add_sources(document: dict[str, Any], files: Files) -> None:
    """Give the script frames of DOCUMENT their lines of source."""
    for stack in _stacks(document):
        for frame in stack:
            files.add_source(frame)
