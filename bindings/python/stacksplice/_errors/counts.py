"""Storms: the first of equal errors is shown whole, those that follow are counted."""

from __future__ import annotations

from time import monotonic

from .. import _stacksplice
from .._base.redaction import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

_MOST = 0xFFFFFFFF / 1000  # seconds, which the core has in milliseconds
_TICK = 1.0


class Counts:
    """Equal exceptions within a window of SECONDS, which NAME names in errors: stacksplice/dedup.h."""

    __slots__ = ("_next", "_table", "_tick")

    def __init__(self, seconds: float, name: str) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"{name} must be a number of seconds, not {type(seconds).__name__}")
        if not 0 < seconds <= _MOST:
            raise ValueError(f"{name} must be more than 0 and at most {int(_MOST)}, not {seconds}")
        self._table = _stacksplice._new_counts(max(1, int(seconds * 1000)))
        self._tick = min(seconds, _TICK)
        self._next = monotonic() + self._tick

    def is_counted(self, exc: BaseException) -> bool:
        """Whether an equal one was new within the window, so that this one is told later."""
        return _stacksplice._count(self._table, exc)

    def tell(self, take: Callable[[dict[str, Any]], object]) -> None:
        """Have TAKE each line of counts, and count from 0 again."""
        self._tell(True, take)

    def tell_ended(self, take: Callable[[dict[str, Any]], object]) -> None:
        """The same for windows that have ended; looks for them no more than once a second."""
        now = monotonic()
        if now >= self._next:
            self._next = now + self._tick
            self._tell(False, take)

    def _tell(self, all: bool, take: Callable[[dict[str, Any]], object]) -> None:
        from json import loads

        _stacksplice._tell_counts(self._table, all, lambda line: take(loads(line)))


def is_count(item: Any) -> bool:
    """Whether it is no report but says how often one came again: a line of stacksplice/dedup.h."""
    return (
        isinstance(item, dict)
        and item.get("schema") == "stacksplice-repeats/1"
        and type(item.get("count")) is int
        and item["count"] > 0
    )


def time_of_count(item: dict[str, Any], name: str) -> datetime | None:
    """The time under NAME in a line of counts; None if it has none that can be."""
    from datetime import datetime, timezone

    try:
        return datetime.fromtimestamp(item[name] / 1e9, timezone.utc) if item[name] else None
    except (LookupError, TypeError, ValueError, OverflowError, OSError):
        return None


def one_line(value: object) -> str:
    """A value of a file's as one line that cannot look like another one."""
    from json import dumps

    text = value if isinstance(value, str) else dumps(value)
    return text if text.isprintable() else dumps(text)


def text_of_count(item: dict[str, Any]) -> str:
    """A line of counts for people."""
    times = [time_of_count(item, name) for name in ("first_ns", "last_ns")]
    told = [f"{time:%Y-%m-%d %H:%M:%S}" for time in times if time is not None]
    name = item.get("type") or item.get("hresult") or ""
    words = ": ".join([one_line(clean(value)) for value in (name, item.get("message")) if value])
    text = f"... {item['count']:,} more of {one_line(item.get('fingerprint'))}"
    return text + (f", {' to '.join(told)} UTC" if told else "") + (f", the last: {words}" if words else "")
