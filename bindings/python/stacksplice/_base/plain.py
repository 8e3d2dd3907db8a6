"""Texts of others for terminals.  Debuggers have a copy of this module."""

from __future__ import annotations

import json


def plain(text: str, keep: str = "") -> str:
    """TEXT with escapes in the place of what would control a terminal, end a line or turn the direction
    of what follows; characters of KEEP stay."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() or each in keep else json.dumps(each)[1:-1] for each in text])
