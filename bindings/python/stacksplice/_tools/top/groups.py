"""Counts of fingerprints in bounded memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

MOST = 50_000  # groups kept when there are too many; up to twice as many before that

# file's number, line, offset of the line, number of the report in the line (-1: the file is one document)
Place: TypeAlias = tuple[int, int, int, int]


class Group:
    """The reports of one fingerprint."""

    __slots__ = ("count", "first", "first_time", "last", "last_time")

    def __init__(self, place: Place) -> None:
        self.count = 0
        self.first = self.last = place
        self.first_time: str | None = None
        self.last_time: str | None = None

    def seen(self, time: str) -> None:
        """One of its reports was made at TIME."""
        if self.first_time is None or time < self.first_time:
            self.first_time = time
        if self.last_time is None or time > self.last_time:
            self.last_time = time


class Groups:
    """All groups; with too many, the frequent ones.

    When there are twice MOST, the count of the one in the middle is taken from all, and those
    without a rest are dropped (the counters of Misra and Gries, many at a time).  Each count is then
    too small by at most ``missing``; a group with more reports than that is never lost.
    """

    def __init__(self, most: int = MOST) -> None:
        self.kept: dict[str, Group] = {}
        self.missing = 0
        self._most = most

    def add(self, key: str, place: Place) -> Group:
        """Count a report."""
        group = self.kept.get(key)
        if group is None:
            if len(self.kept) >= 2 * self._most:
                self._shrink()
            group = self.kept[key] = Group(place)
        group.count += 1
        group.last = place
        return group

    def _shrink(self) -> None:
        counts = sorted((group.count for group in self.kept.values()), reverse=True)
        taken = counts[self._most]
        self.missing += taken
        self.kept = {key: group for key, group in self.kept.items() if group.count > taken}
        for group in self.kept.values():
            group.count -= taken

    def most_frequent(self) -> list[tuple[str, Group]]:
        """All that are kept, the most frequent first, of equal ones that seen first."""
        return sorted(self.kept.items(), key=lambda pair: (-pair[1].count, pair[1].first))
