"""What Python's traceback module says of an exception, and what reports have of Python: equal texts."""

from __future__ import annotations

import re
import traceback

MARGIN = re.compile(r" *[|+] |")
# Lines of a report that tell of other languages.
OURS = re.compile(
    r"  \(\w+\) |  \[(gap|async): |  \.\.\. \d+ |Propagation:$|  \d+\. .+ received it |HRESULT |Raised on "
)
# Entries of __traceback__ that stand for frames of other languages.
FOREIGN = re.compile(r'  File "[^"]*(?:\.lua|\.c|\.pyx|<chunk>)", line ')


def _without(text: str, entry: re.Pattern[str]) -> str:
    """TEXT without the lines that ENTRY matches, and the source below them."""
    kept, below = [], False
    for line in text.splitlines(keepends=True):
        content = line[len(MARGIN.match(line).group()) :]
        below = bool(entry.match(content)) or below and content.startswith("    ")
        if not below:
            kept.append(line)
    return "".join(kept)


def of_python(text: str) -> str:
    """TEXT, a report, without what it says of other languages."""
    return _without(text, OURS)


def by_python(exc: BaseException, chain: bool = True) -> str:
    """What Python's traceback module says of EXC and its own frames."""
    return _without("".join(traceback.format_exception(exc, chain=chain)), FOREIGN)
