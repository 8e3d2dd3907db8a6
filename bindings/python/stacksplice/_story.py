"""An error, what it was made from, and the members of groups, in the order of Python's tracebacks.

The same text as core/src/report/text_chain.c writes of an error object, made here for live exceptions,
which may have crossed a border or not, and for reports that were read back.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_MOST_CAUSES = 16  # one behind the other
_MOST_MEMBERS = 15  # of one group
_MOST_DEPTH = 10  # groups in groups
_MOST_ERRORS = 256

_WORDS = {"cause": "Caused by", "context": "Raised while handling"}
_MORE = "\nCaused by more errors that are not shown.\n"


class Teller:
    """What a story asks of its errors."""

    def head(self, error: Any) -> str:
        """The text of ERROR alone, ending in a line feed."""
        raise NotImplementedError

    def behind(self, error: Any) -> tuple[str, Any]:
        """("cause" or "context", the error that ERROR was made from); None where there is none, and
        ... where it is not known."""
        raise NotImplementedError

    def members(self, error: Any) -> tuple[Sequence[Any], int] | None:
        """The members of a group, and how many more it had; None for any other error."""
        raise NotImplementedError


class Story:
    """One text, written in parts."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._parts: list[str] = []
        self._depth = 0  # of the margin: groups that this is in
        self._first = "|"  # in the margin of the next line
        self._closed = False  # the last line is one that closes a group
        self._seen: dict[int, Any] = {}  # by identity, which lasts while it is here

    def text(self) -> str:
        return "".join(self._parts)

    def put(self, text: str) -> None:
        """TEXT, which ends in a line feed, with the margin before each line."""
        if not self._depth:
            self._parts.append(text)
            return
        for line in text.removesuffix("\n").split("\n"):
            blank = " " if line else ""
            self._parts.append("  " * self._depth + self._first + blank + line + "\n")
            self._first = "|"

    def _rule(self, number: int, title: str) -> None:
        corner = "+-" if number == 1 else "  "
        self._parts.append(f"{'  ' * self._depth}{corner}+---------------- {title} ----------------\n")

    def _put_members(self, members: Sequence[Any], left_out: int) -> None:
        if self._depth > _MOST_DEPTH:
            self.put(_rest(len(members) + left_out))
            return
        shown = members[:_MOST_MEMBERS]
        left_out += len(members) - len(shown)
        for number, member in enumerate(shown, 1):
            self._rule(number, str(number))
            self._put_inside(self._put_member, member)
        if left_out:
            self._rule(len(shown) + 1, "...")
            self._put_inside(self.put, _rest(left_out))
        if not self._closed:
            self._parts.append("  " * (self._depth + 1) + "+------------------------------------\n")
        self._closed = True

    def _put_inside(self, put: Callable[[Any], None], what: Any) -> None:
        self._depth += 1
        self._closed = False
        put(what)
        self._depth -= 1

    def _put_member(self, member: Any) -> None:
        if id(member) in self._seen:
            self.put("an error above\n")
        else:
            self.put_with_causes(member)

    def put_alone(self, error: Any) -> None:
        """ERROR and its members."""
        self._closed = False
        self._seen[id(error)] = error
        group = self._teller.members(error)
        if group is None or not (group[0] or group[1]):
            self.put(self._teller.head(error))
            return
        outermost = not self._depth
        if outermost:
            self._depth = 1
            self._first = "+"
        self.put(self._teller.head(error))
        self._put_members(*group)
        if outermost:
            self._depth = 0

    def put_with_causes(self, error: Any) -> None:
        """ERROR, its members, and what it was made from."""
        self.put_alone(error)
        for number in range(_MOST_CAUSES + 1):
            relation, error = self._teller.behind(error)
            if error is None:
                return
            self._closed = False
            if id(error) in self._seen:
                self.put(f"\n{_WORDS[relation]} an error above.\n")
                return
            if error is ... or number == _MOST_CAUSES or len(self._seen) >= _MOST_ERRORS:
                self.put(_MORE)
                return
            self.put(f"\n{_WORDS[relation]}:\n")
            self.put_alone(error)


def _rest(count: int) -> str:
    return f"and {count} more {'error' if count == 1 else 'errors'}\n"
