"""Local variables of another process: what stacksplice-inspect read of values, as texts of reports."""

from __future__ import annotations

import itertools

from ... import _stacksplice
from .lua_values import value_text as lua_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_large = itertools.count()


def _typed(name: str) -> object:
    """A value that reports show as <NAME>."""
    return type(name, (), {})()


def _other(told: dict[str, Any]) -> object:
    if told["type"] is None:
        return _typed("...")  # it was left out
    name = bytes.fromhex(told["type"]).decode(errors="replace") or "unreadable"
    return _typed(f"{name} object at {told['address']:#x}")


def _key(told: Any) -> Any:
    """A value that containers look up.  In damaged memory it may be any."""
    value = _value(told)
    try:
        hash(value)
    except TypeError:
        return _typed(type(value).__name__)
    return value


def _int(digits: list[int] | None) -> int:
    """The sign and the digits to the base 2^30; without them it is larger than what is shown."""
    if digits is None:
        return (1 << 400) + next(_large)  # keys of one dict stay different
    return digits[0] * sum(digit << 30 * at for at, digit in enumerate(digits[1:]))


def _value(told: Any) -> Any:
    """The value that was told: itself, or an object whose first member says its type."""
    if not isinstance(told, dict):
        return told
    kind, content = next(iter(told.items()))
    match kind:
        case "int":
            return _int(content)
        case "float":
            return float.fromhex(content)
        case "bytes":
            return bytes.fromhex(content)
        case "list":
            return [_value(item) for item in content]
        case "tuple":
            return tuple([_value(item) for item in content])
        case "set":
            return {_key(item) for item in content}
        case "frozenset":
            return frozenset([_key(item) for item in content])
        case "dict":
            return {_key(key): _value(value) for key, value in content}
    return _other(told)


def _text(told: Any, language: str) -> str:
    return lua_text(told) if language == "lua" else _stacksplice._value_text(_value(told))


def write_values(document: dict[str, Any]) -> None:
    """Make texts of the local variables in DOCUMENT."""
    for thread in document["threads"]:
        for frame in thread["stack"]:
            told = frame.get("locals")
            if told is not None:
                frame["locals"] = {name: _text(told[name], frame["language"]) for name in sorted(told)}
