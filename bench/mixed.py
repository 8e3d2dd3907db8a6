"""Captures on stacks of Python, C and Lua; run by the program that embeds both.

The stacks are made of numbered ways from one Python function to the next, some of them through Lua.
"""

import functools
import itertools
import json
import random
import re
import sys

import bench_bridge as bridge
import stacksplice

LUA = """
function plain(path, depth)
    return py(path, depth) + 0
end

function gsub(path, depth)
    return (string.gsub("x", "x", function() py(path, depth) end))
end

function protected(path, depth)
    return pcall(function() return py(path, depth) + 0 end)
end

function coroutine_(path, depth)
    return coroutine.wrap(function() py(path, depth) end)()
end

function handled(path, depth)
    return xpcall(function() return py(path, depth) + 0 end, print)
end

function indexed(path, depth)
    return setmetatable({}, {__index = function() return py(path, depth) + 0 end}).x
end

function added(path, depth)
    return setmetatable({}, {__add = function() return py(path, depth) + 0 end}) + 1
end

function sorted(path, depth)
    table.sort({1, 2}, function() return py(path, depth) > 0 end)
end

function read(path, depth)
    local first = true
    load(function()
        if first then first = false; py(path, depth) end
    end)
end

local function innermost(path, depth)
    return py(path, depth) + 0
end

function two(path, depth)
    return innermost(path, depth) + 0
end

function new(path, depth)
    return load("local path, depth = ... return py(path, depth) + 0", "=new" .. path)(path, depth)
end

function collect()
    collectgarbage()
end
"""


class Special:
    """One method a way."""

    def __init__(self, path, depth):
        self.way = path, depth

    def go(self, *_):
        descend(*self.way)
        return 1

    def __bool__(self):
        return self.go() == 1

    __call__ = __add__ = __getitem__ = __len__ = __hash__ = __contains__ = __int__ = go
    value = property(go)


def through_lua(name):
    return lambda path, depth: bridge.call_lua(name, path, depth)


PYTHON_WAYS = [
    lambda path, depth: sorted([0], key=lambda _: descend(path, depth)),
    lambda path, depth: list(map(lambda _: descend(path, depth), (0,))),
    lambda path, depth: functools.reduce(lambda _, __: descend(path, depth), (0, 0)),
    lambda path, depth: list(filter(lambda _: descend(path, depth), (0,))),
    lambda path, depth: min((0,), key=lambda _: descend(path, depth)),
    lambda path, depth: re.sub("x", lambda _: str(descend(path, depth)), "x"),
    lambda path, depth: [*(descend(path, depth) for _ in (0,))],
    lambda path, depth: functools.partial(descend, path)(depth),
    lambda path, depth: Special(path, depth)(),
    lambda path, depth: Special(path, depth) + 1,
    lambda path, depth: Special(path, depth)[0],
    lambda path, depth: len(Special(path, depth)),
    lambda path, depth: bool(Special(path, depth)),
    lambda path, depth: hash(Special(path, depth)),
    lambda path, depth: 1 in Special(path, depth),
    lambda path, depth: int(Special(path, depth)),
    lambda path, depth: getattr(Special(path, depth), "value"),
]
LUA_WAYS = [
    through_lua(name)
    for name in ("plain", "gsub", "protected", "coroutine_", "handled", "indexed", "added", "sorted", "read")
]
WAYS = PYTHON_WAYS + LUA_WAYS

leaf = bridge.visit


def descend(path, depth):
    if depth == 0:
        return leaf()
    return WAYS[path % len(WAYS)](path // len(WAYS), depth - 1)


def count_frames(path, depth):
    """Native frames of that stack."""
    global leaf
    found = []
    leaf = lambda: found.append(bridge.native_frames())  # noqa: E731
    try:
        descend(path, depth)
    finally:
        leaf = bridge.visit
    return found[0]


class Stacks:
    """Stacks of about 40 to 60 native frames that hold Lua and Python, each made only once."""

    def __init__(self):
        self.random = random.Random(20)
        self.seen = set()
        self.base = count_frames(0, 0)
        self.costs = [count_frames(way, 1) - self.base for way in range(len(WAYS))]

    def new(self):
        while True:
            ways = [self.random.randrange(len(WAYS)) for _ in range(self.random.randrange(2, 7))]
            frames = self.base + sum(self.costs[way] for way in ways)
            path = functools.reduce(lambda rest, way: rest * len(WAYS) + way, reversed(ways), 0)
            if (
                40 <= frames <= 60
                and max(ways) >= len(PYTHON_WAYS) > min(ways)
                and (path, len(ways)) not in self.seen
            ):
                self.seen.add((path, len(ways)))
                return path, len(ways)

    def many(self, count):
        return [self.new() for _ in range(count)]


def rows_on_stacks():
    stacks = Stacks()
    for count in (6, 100, 1000):
        if not bridge.wants(name := f"native, {count} interpreter stacks"):
            continue
        again = stacks.many(count)

        def visit_all(_):
            for path, depth in again:
                descend(path, depth)

        bridge.row_on_stacks(name, visit_all)

    def visit_new(_):
        for _ in range(20):
            descend(*stacks.new())

    bridge.row_on_stacks("native, ever-new interpreter stacks", visit_new)


def combined(row, bridges):
    def outer(_, level):
        return inner(level)

    def inner(level):
        if level:
            return bridge.call_lua("two", 0, level - 1)
        languages = [frame.language for frame in stacksplice.capture()]
        note = (
            f"{bridge.native_frames()} native, {languages.count('python')} Python,"
            f" {languages.count('lua')} Lua"
        )
        print(json.dumps({"row": row, "note": note}), flush=True)
        return bridge.row_here(row)

    bridge.set_py(outer)
    inner(bridges)
    bridge.set_py(descend)


def combined_between(row, bridges, leaf):
    """The same stack, made anew for each capture; LEAF is called at its inner end, and visits."""
    if not bridge.wants(row):
        return

    def outer(_, level):
        return inner(level)

    def inner(level):
        if level > 0:
            return bridge.call_lua("two", 0, level - 1)
        return leaf() if level == 0 else run_new_code()

    bridge.set_py(outer)
    bridge.row_on_stacks(row, lambda _: inner(bridges))
    bridge.set_py(descend)


def collect():
    """With nothing of stacksplice after the collection."""
    bridge.call_plain("collect", 0, 0)


def visit_after_a_collection():
    collect()
    return bridge.visit()


other_memory = bytearray(16 << 20)


def visit_seldom():
    collect()
    collect()
    bytes(other_memory)  # leaves nothing of ours in the caches
    return bridge.visit()


numbers = itertools.count()


def run_new_code():
    space = {"visit": bridge.visit}
    name = f"new_{next(numbers)}"
    exec(compile(f"def {name}():\n    return visit()", f"{name}.py", "exec"), space)
    return space[name]()


def visit_in_new_code():
    return bridge.call_lua("new", next(numbers), -1)


BETWEEN = {
    "combined, after a collection": visit_after_a_collection,
    "combined, seldom": visit_seldom,
    "combined, in new code": visit_in_new_code,
}


def main():
    bridge.options(sys.argv)
    bridge.setup(LUA)
    bridge.set_py(descend)
    rows_on_stacks()
    if bridge.wants("combined, 10 bridges"):
        combined("combined, 10 bridges", 10)
    for row, leaf in BETWEEN.items():
        combined_between(row, 10, leaf)


main()
