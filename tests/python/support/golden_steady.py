"""Reports without what differs from run to run and from build to build."""

from __future__ import annotations

import json
import zlib
from typing import Any

from building import ROOT

# What stands for all native frames in a row: their number and names depend on the compiler.
NATIVE = {
    "kind": "native",
    "trust": "exact",
    "language": "native",
    "function": "native_code",
    "function_offset": 16,
    "file": "/srv/native.c",
    "line": 1,
    "module": "/srv/native.so",
    "module_offset": 4096,
    "build_id": "000102030405060708090a0b0c0d0e0f10111213",
    "inlined": False,
    "address": "0x7f0000001000",
}
# What stands for a value of the member with this name.
INSTEAD = {
    "thread_id": 4711,
    "reference": "0000000000000000-0000000000000001",
    "fingerprint": "0123456789abcdef0123456789abcdef",
    "loose_fingerprint": "fedcba9876543210fedcba9876543210",
    "event_id": "0123456789abcdef0123456789abcdef",
    "timestamp": 1700000000,
}


def steady(value: Any) -> Any:
    """VALUE, of a report, with INSTEAD, NATIVE, addresses by content, and /srv for our sources' folder."""
    if isinstance(value, str):
        return value.replace(str(ROOT), "/srv")
    if isinstance(value, list):
        kept: list[Any] = []
        for item in value:
            item = dict(NATIVE) if isinstance(item, dict) and item.get("kind") == "native" else steady(item)
            if item != NATIVE or kept[-1:] != [item]:
                kept.append(item)
        return kept
    if isinstance(value, dict):
        kept_members = {name: _member(name, each) for name, each in value.items()}
        return with_address(kept_members) if "kind" in value else kept_members
    return value


def _member(name: str, value: Any) -> Any:
    instead = INSTEAD.get(name)
    return instead if instead is not None and isinstance(value, type(instead)) else steady(value)


def with_address(frame: dict[str, Any]) -> dict[str, Any]:
    """FRAME, of a script or a gap, with an address that only equal frames have: so it is with tokens."""
    rest = {name: value for name, value in frame.items() if name != "address"}
    return {**rest, "address": f"0x53530000{zlib.crc32(json.dumps(rest).encode()):08x}"}


def lines_of(value: Any, margin: str = "") -> str:
    """VALUE as JSON, in which what holds more than plain values has lines of its own."""
    inner = margin + " "
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(part, (dict, list)) and part for part in parts) and (margin or not parts):
        return json.dumps(value)
    if isinstance(value, list):
        items = [lines_of(item, inner) for item in value]
    else:
        items = [f"{json.dumps(name)}: {lines_of(item, inner)}" for name, item in value.items()]
    first, last = ("[", "]") if isinstance(value, list) else ("{", "}")
    return first + "\n" + ",\n".join(inner + item for item in items) + "\n" + margin + last
