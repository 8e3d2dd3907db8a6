"""How often a value changes rooms on the way of an error: prints it, and fails where it became more often.

A room is a .c file with the headers of its name; a header of another name is one, too.  The walk begins
with a parameter of a function and follows the calls that pass it on, by its own name or by a cast, in the
order in which the code is written, branches one after the other.  A function that was walked before is
visited again and not walked again.  Each time that the walk enters another room, or returns to one, is a
stay.  What is called through a pointer, or defined twice outside of static functions, is not followed.

MOST has what the last change left.  A change may lower a number, and then lowers it here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from check_layers import ATTRIBUTE, COMMENT_OR_TEXT, HEAD, sources

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "core/",
    "crash/",
    "bindings/python/src/",
    "bindings/lua/src/",
    "bindings/lupa/",
    "bindings/shared/",
)
# (function, parameter) -> the stays of its walk.
MOST = {("sspy_raise", "state"): 23, ("stacksplice_lua_raise", "L"): 53}

CALL = re.compile(r"\b(\w+)\s*\(")
CAST = re.compile(r"^\(\s*(?:const\s+|struct\s+)*\w+\s*\**\s*\)\s*")


class Function(NamedTuple):
    room: str
    name: str
    is_own: bool  # nothing outside of its room can call it
    parameters: list[str]
    body: str


def room_of(path: str) -> str:
    return path.rsplit(".", 1)[0]


def split(text: str) -> list[str]:
    """The arguments in TEXT, which is what stands between two parentheses."""
    parts, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()]


def inside(text: str, begin: int) -> str:
    """What stands behind the parenthesis before BEGIN, to the one that closes it."""
    depth, at = 1, begin
    while depth and at < len(text):
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return text[begin : at - 1]


def read() -> dict[str, list[Function]]:
    """The functions of the project by name."""
    found: dict[str, list[Function]] = {}
    for path in sources():
        if not path.startswith(FOLDERS) or not path.endswith((".c", ".h")):
            continue
        text = ATTRIBUTE.sub("", COMMENT_OR_TEXT.sub("", (ROOT / path).read_text(encoding="utf-8")))
        for head in HEAD.finditer(text):
            if not (name := re.search(r"(\w+)\s*\(", head[1])):
                continue
            parameters = [
                (re.findall(r"\w+", part) or [""])[-1] for part in split(inside(head[1], name.end()))
            ]
            end = text.find("\n}", head.end())
            found.setdefault(name[1], []).append(
                Function(
                    room_of(path),
                    name[1],
                    path.endswith(".c") and "static" in head[1].split(),
                    parameters,
                    text[head.end() : end],
                )
            )
    return found


def called_from(functions: dict[str, list[Function]], room: str, name: str) -> Function | None:
    """The function that NAME is in ROOM, or None where that cannot be known."""
    named = functions.get(name, [])
    own = [one for one in named if one.room == room]
    others = [one for one in named if not one.is_own]
    return own[0] if own else others[0] if len({one.room for one in others}) == 1 else None


def passes(argument: str, value: str) -> bool:
    while CAST.match(argument):
        argument = CAST.sub("", argument, count=1)
    return argument == value


def walk(
    functions: dict[str, list[Function]], function: Function, value: str, walked: set[tuple[str, str, str]]
) -> list[str]:
    """The rooms of the walk of FUNCTION's parameter VALUE, each as often as it is entered."""
    rooms = [function.room]
    if (key := (function.room, function.name, value)) in walked:
        return rooms
    walked.add(key)
    for call in CALL.finditer(function.body):
        called = called_from(functions, function.room, call[1])
        if not called:
            continue
        for argument, parameter in zip(split(inside(function.body, call.end())), called.parameters):
            if passes(argument, value):
                rooms += [*walk(functions, called, parameter, walked), function.room]
    return [room for at, room in enumerate(rooms) if not at or room != rooms[at - 1]]


def main() -> int:
    functions, more = read(), 0
    for (name, parameter), most in MOST.items():
        (function,) = functions[name]
        rooms = walk(functions, function, parameter, set())
        if "--verbose" in sys.argv:
            print(*rooms, sep="\n")
        print(f"{parameter} of {name}: {len(rooms)} stays in {len(set(rooms))} rooms; at most {most}")
        more += len(rooms) > most
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
