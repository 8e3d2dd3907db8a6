"""Programs of code that is made for them and freed afterwards: the next one's lies at the same addresses.

A program is a way of calls through functions of Python and Lua, each made by text of its own: the truth about
a frame is where the maker of the text put the call.  At its end stands a capture, or an error that leaves all
of it.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import functools
import gc
import importlib
import os
import random
import re
import threading
from typing import Any, NamedTuple

import stacksplice
from lupa_runtimes import VERSIONS


class Place(NamedTuple):
    """A frame as it must be shown; BEGINS is the line that stands in a name such as "function <f.lua:3>"."""

    language: str
    file: str
    function: str
    line: int
    begins: int = 0


_TESTS = os.path.dirname(os.path.dirname(__file__))  # what runs the programs
_FILES = ("<churn>", "<churn {}>", "/churn/{}.py", "churn.py")
_NAMES = ("alpha", "beta", "gamma", "delta", "price_of_the_order", "x")

# How a function is called that returns "" and takes anything.
_CALLS = [
    "inner()",
    "list(map(inner, [0]))",
    "sorted([0], key=inner)",
    "max([0], key=inner)",
    "functools.partial(inner, 1)()",
    "functools.reduce(inner, [0, 0])",
    "[*filter(inner, [0])]",
    "re.sub('a', inner, 'a')",
    "next(iter(inner, ''), None)",
    "''.join(map(inner, [0]))",
    "type('T', (), {'__getattr__': inner})().field",
    "type('T', (), {'__add__': inner})() + 1",
    "type('T', (), {'field': property(inner)})().field",
    "collections.defaultdict(inner)[1]",
    "eval('inner()', {'inner': inner})",
]
# Errors do not come out of these.
_CALLS_THAT_KEEP = ["ctypes.CFUNCTYPE(None)(inner)()", "C.qsort(TWO, 2, 1, COMPARE(inner_number))"]
_ITERATIONS = [
    "list(inner())",
    "next(inner())",
    "''.join(inner())",
    "[*inner()]",
    "sorted(inner())",
    "tuple(zip(inner()))",
]

_COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_HELPERS = {
    "asyncio": asyncio,
    "collections": collections,
    "ctypes": ctypes,
    "functools": functools,
    "re": re,
    "threading": threading,
    "C": ctypes.CDLL(None),
    "TWO": ctypes.create_string_buffer(2),
    "COMPARE": _COMPARE,
}

# What a chunk does with "inn", a function of its own that calls inner; whether an error comes out of it.
_OF_LUA = [
    ("local r = inn()", True),
    ("table.sort({2, 1}, inn)", True),
    ("string.gsub('a', 'a', inn)", True),
    ("local r = setmetatable({}, {__index = inn}).field", True),
    ("local r = setmetatable({}, {__add = inn}) + 1", True),
    ("for _ in inn do end", True),
    ("local ok = pcall(inn)", False),
    ("coroutine.resume(coroutine.create(inn))", False),
]


class Churn:
    """Programs at random, of one thread, and what is wrong with the stacks that were compared."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0
        self.wrong: list[str] = []
        self.compared = 0
        self.addresses: dict[int, Place] = {}
        self.used_again = 0  # addresses, by code with another place
        self.kept: list[tuple[str, Any, list[Place]]] = []
        self.runtime: Any = None
        self.version = ""
        self.has_loop = False  # the present program: a thread runs one at a time

    # ---- Functions of Python ----------------------------------------------------------------------

    def name(self) -> tuple[str, str]:
        file = self.chance.choice(_FILES).format(self.chance.randrange(1000))
        return file, self.chance.choice(_NAMES)

    def call_of(self, kind: str, callee: str, keeps: bool) -> str:
        """An expression in a function of KIND that calls the inner one, which is a CALLEE."""
        if callee == "generator":
            return self.chance.choice(_ITERATIONS)
        if callee == "coroutine" and kind == "coroutine":
            return "await inner()"
        if callee == "coroutine":
            self.has_loop |= (runs := keeps and not self.has_loop and self.chance.random() < 0.2)
            return "asyncio.run(inner())" if runs else "inner().send(None)"
        if keeps and self.chance.random() < 0.2:
            return self.chance.choice(_CALLS_THAT_KEEP)
        return self.chance.choice(_CALLS) if self.chance.random() < 0.7 else "inner()"

    def function(self, inner: Any, callee: str, keeps: bool) -> tuple[Any, str, Place]:
        """A function that calls INNER, its kind, and its frame."""
        file, name = self.name()
        kind = self.chance.choice(("function", "function", "lambda", "generator", "coroutine"))
        call = self.call_of(kind, callee, keeps)
        lines = [""] * self.chance.randrange(40)
        if kind == "lambda":
            if "send" in call:
                call = "inner()" if callee == "function" else f"[0, {call}][0]"
                kind = "function"
            else:
                name, lines = "<lambda>", [*lines, f"made = lambda *_: [{call}] and ''"]
        if name != "<lambda>":
            head = "async def" if kind == "coroutine" else "def"
            lines += [f"{head} {name}(*_):", *[""] * self.chance.randrange(5), "  try:", f"    {call}"]
            line = len(lines)
            # A coroutine that ran to its end says so.
            lines += ["  except StopIteration: pass", "  return ''", f"made = {name}"]
            if kind == "generator":
                lines[-2] = "  yield ''"
        else:
            line = len(lines)
        space = {"inner": inner, "inner_number": inner, **_HELPERS}
        if "inner_number" in call:
            space["inner_number"] = _as_number(inner)
        exec(compile("\n".join(lines), file, "exec"), space)
        made = space.pop("made")
        del space["__builtins__"]
        place = Place("python", file, name, line)
        self.note(id(made.__code__), place)
        return made, kind, place

    def note(self, address: int, place: Place) -> None:
        before = self.addresses.setdefault(address, place)
        self.used_again += before != place
        self.addresses[address] = place

    # ---- Functions of Lua -------------------------------------------------------------------------

    def use_runtime(self) -> None:
        if self.runtime is None or self.chance.random() < 0.1:
            self.version = self.chance.choice(VERSIONS)
            self.runtime = None
            if self.chance.random() < 0.5:
                gc.collect()
            self.runtime = importlib.import_module(f"lupa.{self.version}").LuaRuntime()

    def chunk(self, inner: Any, keeps: bool) -> tuple[Any, list[Place]]:
        """A function of Lua that calls INNER, and its frames, the innermost first."""
        way = self.chance.choice([text for text, leaves in _OF_LUA if leaves or keeps])
        if "coroutine" in way:
            # lupa itself crashes where Python, called in a coroutine, calls a function of the same runtime.
            self.runtime = None
        self.use_runtime()
        file, name = f"churn{self.chance.choice(('', self.number))}.lua", self.chance.choice(_NAMES)
        lines = ["local inner = ...", *[""] * self.chance.randrange(30)]
        lines += [f"local function {name}()", *[""] * self.chance.randrange(4)]
        begins = len(lines) - lines[::-1].index(f"local function {name}()")
        lines += ["  local done", "  local function inn()"]
        inside = len(lines)
        lines += ["    if done then return nil end", "    done = true", "    local r = inner()"]
        calls = len(lines)
        lines += ["    return nil", "  end", f"  {way}"]
        outside = len(lines)
        lines += ["  return ''", "end", f"return {name}"]
        made = self.runtime.execute("\n".join(lines), functools.partial(inner), name=f"@{file}")
        return made, [Place("lua", file, "inn", calls, inside), Place("lua", file, name, outside, begins)]

    # ---- Whole programs ---------------------------------------------------------------------------

    def program(self, leaf: Any, keeps: bool) -> tuple[Any, list[Place], str]:
        """What calls LEAF, the frames outside of it, the innermost first, and the languages."""
        inner, callee, places, shape = leaf, "function", [], []
        self.has_loop = False
        ends = None  # the thread that captures has no frames outside
        for _ in range(self.chance.randrange(2, 8)):
            if VERSIONS and callee == "function" and self.chance.random() < 0.2:
                inner, frames = self.chunk(inner, keeps)
                places += frames
                shape.append(self.version)
            elif keeps and callee == "function" and self.chance.random() < 0.05:
                inner = functools.partial(_in_a_thread, inner)
                ends = len(places) if ends is None else ends
                self.runtime = None  # lupa has one lock for each, also while Lua calls Python
                shape.append("thread")
            else:
                inner, callee, place = self.function(inner, callee, keeps)
                places.append(place)
                shape.append(callee)
        if callee == "generator":
            inner = functools.partial(list, inner())
        if callee == "coroutine":
            inner = functools.partial(_drive, inner)
        return inner, places[:ends], " < ".join(shape)

    def run(self) -> None:
        self.number += 1
        if self.chance.random() < 0.5:
            self.capture()
        else:
            self.error()
        if self.chance.random() < 0.02:
            gc.collect()
        if len(self.kept) > 8 or self.chance.random() < 0.02:
            self.compare_kept()

    def capture(self) -> None:
        taken: list[Any] = []

        def leaf(*_: object) -> str:
            if not taken:  # a comparison is called twice
                taken.append(stacksplice.capture())
            return ""

        top, places, shape = self.program(leaf, True)
        top()
        self.keep(f"capture, {shape}", lambda: taken[0], places)

    def error(self) -> None:
        def leaf(*_: object) -> str:
            raise ValueError("at the end")

        top, places, shape = self.program(leaf, False)
        try:
            top()
        except ValueError as exc:
            info = stacksplice.originate(exc)
            self.keep(f"error, {shape}", lambda: info.stack, places)
        else:
            self.wrong.append(f"{shape}: the error did not come out")

    def keep(self, what: str, stack: Any, places: list[Place]) -> None:
        """Compare it now, or when the code is gone."""
        if self.chance.random() < 0.3:
            self.kept.append((f"{what}, later", stack, places))
        else:
            self.compare(what, stack(), places)

    def compare_kept(self) -> None:
        for what, stack, places in self.kept:
            self.compare(what, stack(), places)
        self.kept = []

    def compare(self, what: str, stack: Any, places: list[Place]) -> None:
        found = [seen for frame in stack if (seen := _seen(frame)) is not None]
        self.compared += 1
        if len(found) == len(places) and all(map(_is_at, found, places)):
            return
        self.wrong.append(
            f"round {self.number}, {what}:\n"
            + "".join(f"  {a}\n    {b}\n" for a, b in _beside(found, places))
            + "".join(f"  gap: {frame.reason}\n" for frame in stack if frame.kind == "gap")
        )


def _beside(found: list[Place], places: list[Place]) -> list[tuple[Place | None, Place | None]]:
    longest = max(len(found), len(places))
    rows = [[*one, *[None] * (longest - len(one))] for one in (found, places)]
    return [(a, b) for a, b in zip(*rows) if a is None or b is None or not _is_at(a, b)]


def _seen(frame: Any) -> Place | None:
    """FRAME, if it is one of a program."""
    file = frame.file or ""
    if frame.kind != "script" or "churn" not in file or file.startswith(_TESTS):
        return None
    return Place(frame.language, frame.file, frame.function.rpartition(".")[2], frame.line)


_NAMELESS = re.compile(r"function <.*:(\d+)>$")


def _is_at(found: Place, place: Place) -> bool:
    nameless = _NAMELESS.match(found.function)
    if place.language == "lua" and nameless:  # Lua has no names for what C calls
        found = found._replace(function=place.function, begins=int(nameless[1]))
        return found == place
    if place.language == "lua":  # the name by which it was called
        found = found._replace(function=place.function)
    return found == place._replace(begins=0)


def _as_number(inner: Any) -> Any:
    return functools.partial(_number, inner)


def _number(inner: Any, *_: object) -> int:
    inner()
    return 0


def _in_a_thread(inner: Any, *_: object) -> str:
    thread = threading.Thread(target=inner)
    thread.start()
    thread.join()
    return ""


def _drive(inner: Any) -> None:
    try:
        inner().send(None)
    except StopIteration:
        pass
