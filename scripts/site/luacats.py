"""The reference of a Lua module, as directives of sphinxcontrib-luadomain, from its LuaCATS annotations.

Reads the annotations that bindings/lua/library has, and refuses any other, so that nothing is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

FUNCTION = re.compile(r"function ([\w.:]+)\((.*)\) end")
NOT_SHOWN = ("meta", "operator")


def split_type(text: str) -> tuple[str, str]:
    """A type and what is said of it: the type ends at the first blank that is in no bracket of it."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "([{<") - (char in ")]}>")
        if char == " " and not depth and text[at - 1] not in ":,|":
            return text[:at], text[at + 1 :]
    return text, ""


def optional(name: str) -> tuple[str, str]:
    return name.rstrip("?"), " or nil" if name.endswith("?") else ""


def literal(kind: str) -> str:
    return f"``{kind}``"


def prose(lines: list[str]) -> str:
    """Code has one backquote in LuaCATS, two in a document."""
    return re.sub(r"`([^`]+)`", r"``\1``", "\n".join(lines))


def fields(tags: list[tuple[str, str]]) -> list[str]:
    """The parameters and the results of a function."""
    written = [f"Also ``{text}``.\n" for tag, text in tags if tag == "overload"]
    results = []
    for tag, text in tags:
        if tag == "param":
            name, rest = text.split(" ", 1)
            name, nil = optional(name)
            kind, said = split_type(rest)
            written.append(f":param {name}: {literal(kind)}{nil}{', ' * bool(said)}{prose([said])}")
        elif tag == "return":
            kind, said = split_type(text)
            name, _, about = said.partition(" ")
            results.append(f"{literal(kind)}{f' *{name}*' * bool(name)}{', ' * bool(about)}{prose([about])}")
    return written + [f":return: {', then '.join(results)}"] * bool(results)


def class_of(tags: list[tuple[str, str]], said: list[str], current: str) -> str:
    """A class and its fields."""
    written = [f".. lua:class:: {current}", "", indent(prose(said), "   "), ""]
    for tag, text in tags:
        if tag != "field":
            continue
        name, rest = text.split(" ", 1)
        if name.startswith("["):  # what an index gives
            kind, about = split_type(rest)
            written += [f"   An index gives a {literal(kind)}, {prose([about])}.", ""]
            continue
        name, nil = optional(name)
        kind, about = split_type(rest)
        written += [f"   .. lua:attribute:: {name}: {kind}{nil}", "", f"      {prose([about])}", ""]
    return "\n".join(written)


def reference(source: Path) -> str:
    """The directives for the annotations of SOURCE."""
    written: list[str] = []
    said: list[str] = []
    tags: list[tuple[str, str]] = []
    for line in source.read_text(encoding="utf-8").splitlines():
        if line.startswith("---@"):
            tag, _, text = line[4:].partition(" ")
            if tag not in (*NOT_SHOWN, "class", "field", "param", "return", "overload"):
                raise ValueError(f"{source}: @{tag} is not known here")
            tags.append((tag, text))
        elif line.startswith("---"):
            said.append(line[3:])
        elif not line.startswith("--"):
            function = FUNCTION.match(line)
            if function:
                name, parameters = function.groups()
                name = name.replace("host.", "stacksplice.host.").replace("Error:", "stacksplice.Error:")
                kind = "method" if ":" in name else "function"
                body = "\n".join([prose(said), "", *fields(tags), ""])
                name = name.replace(":", ".")
                written.append(f".. lua:{kind}:: {name}({parameters})\n\n{indent(body, '   ')}")
            elif tags and tags[0][0] != "meta":
                current = next(text.partition(":")[0] for tag, text in tags if tag == "class")
                written.append(class_of(tags, said, current))
            elif line and not re.match(r"local \w+ = \{\}|return \w+", line):
                raise ValueError(f"{source}: {line}")
            said, tags = [], []
    module, *names = written
    return "\n".join([module, *sorted(names, key=lambda name: not name.startswith(".. lua:function"))])
