"""Local variables of another process's Lua: texts of values in the form that Lua's own reports have.

Debuggers have a copy of this module; as their own commands, it leaves out no secrets there.
"""

from __future__ import annotations

import re

if __package__:
    from ... import _stacksplice
    from ..._base.redaction import LOCAL, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# docs/reports.md
_BYTES, _ITEMS, _DEPTH, _TABLE = 200, 10, 3, 500
_CLOSING = 8  # bytes to leave for what closes a table
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in '"\\':
        return "\\" + character
    return "\\n" if character == "\n" else f"\\{ord(character):03}"


def _string(content: bytes) -> str:
    text = content.decode(errors="replace")
    if len(content) <= _BYTES:
        return '"' + _ESCAPED.sub(_escape, text) + '"'
    shown = (text_of(text, LOCAL) if __package__ else text).encode()[:_BYTES].decode(errors="ignore")
    return '"' + _ESCAPED.sub(_escape, shown) + '"...'


def _float(value: float) -> str:
    text = f"{value:.14g}"
    return text + ".0" if text.lstrip("-").isdigit() else text


class _Table:
    """The text of a table while its pairs are added."""

    def __init__(self, before: int, depth: int, most: int) -> None:
        """BEFORE: the bytes in front of it; DEPTH: of its pairs; MOST: bytes before their end."""
        self.text = "{"
        self._before, self._depth, self._most = before, depth, most - _CLOSING
        self._count = self._in_sequence = 0

    def _length(self) -> int:
        return self._before + len(self.text.encode())

    def _put(self, told: Any) -> None:
        self.text += _value(told, self._length(), self._depth, self._most)

    def _put_key(self, key: Any) -> str | None:
        """Write it; what its name says of the value, if that is a secret."""
        if key == self._in_sequence + 1 and type(key) is int:
            self._in_sequence += 1
            return None
        content = key.get("bytes") if isinstance(key, dict) else None
        name = bytes.fromhex(content).decode(errors="replace") if content else ""
        if _NAME.fullmatch(name):
            self.text += name
        else:
            self.text += "["
            self._put(key)
            self.text += "]"
        self.text += " = "
        return _stacksplice._redact_name(name) if __package__ else None

    def add(self, key: Any, value: Any) -> bool:
        """False if this one and all others are left out."""
        back = self.text
        if self._depth > _DEPTH:
            self.text += "..."
            return False
        if self._count:
            self.text += ", "
        if self._count < _ITEMS:
            marker = self._put_key(key)
            if marker is not None:
                self.text += f'"[redacted: {marker}]"'
            else:
                self._put(value)
            self._count += 1
            if self._length() <= self._most:
                return True
            self.text = back + (", " if self._count > 1 else "")
        self.text += "..."
        return False


def _value(told: Any, before: int, depth: int, most: int) -> str:
    if not isinstance(told, dict):
        return "nil" if told is None else str(told).lower()
    kind, content = next(iter(told.items()))
    if kind == "float":
        return _float(float.fromhex(content))
    if kind == "bytes":
        return _string(bytes.fromhex(content))
    if kind == "table":
        table = _Table(before, depth + 1, most)
        all(table.add(key, value) for key, value in content)
        return table.text + "}"
    if content is None:
        return "<...>"
    return f"<{bytes.fromhex(content).decode(errors='replace') or 'unreadable'}: {told['address']:#x}>"


def value_text(told: Any) -> str:
    """The text of a value that stacksplice-inspect told."""
    return _value(told, 0, 0, _TABLE)
