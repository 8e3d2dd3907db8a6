# ruff: noqa: F841
"""A program without stacksplice, for any CPython, that rests in frames with known variables.

Prints a line when it rests, then waits for standard input to end.
"""

import collections
import sys

NUMBER = 5
NAMES = ["a", "b"]


class Größe:
    def __init__(self):
        self.inner = 1

    @classmethod
    def made(cls, names):
        thing = cls.__new__(cls)
        for name in names:
            setattr(thing, name, name)
        return thing

    def __repr__(self):
        raise SystemExit("code of the program ran")


class Sub(int):
    pass


def numbers(zero, *rest, yes=True, no=False, none=None, **more):
    small, negative, digits = 7, -3, 2**60
    large, below, largest = 10**99, -(10**99), 10**100
    half, tiny, infinite, nothing = 0.5, 5e-324, float("inf"), float("-nan")
    texts("", b"")


def texts(empty, no_bytes):
    plain, latin, two, four = "it's", "naïve\x85", "日本", "𝄞\udc80"
    escaped = "\x00\n\t\"'\\"
    raw = b"\x00\xff'a"
    deleted = 1
    del deleted
    for unset in ():
        pass
    containers([])


def containers(parameter):
    pair, one, nested = (1, 2.5), ("a",), {"k": [1, {2}], (1, 2): None}
    nothing = ((), {}, set(), frozenset())
    few, kept = {3}, frozenset({4})
    deep = [[[[[1]]]]]
    itself = [1]
    itself.append(itself)
    holes = {number: str(number) for number in range(9)}
    for number in range(8):
        del holes[number]
    fields = Größe().__dict__
    shared = [vars(Größe.made(names)) for names in ("ab", "ba")]
    others(Größe())


def others(thing):
    derived = Sub(3)
    ordered = collections.OrderedDict(a=1)
    counted = collections.Counter("a")
    kind, function, module = Größe, others, sys
    list(cells(1, 2))


def cells(argument, kept):
    local = "in a cell"
    unused = [argument for argument in (3,)]

    def inner():
        nonlocal local
        free = local
        local = "changed"
        made()
        return argument

    yield inner()


def made():
    class Body:
        attribute = 3
        _private = "p"
        __mangled = 4
        hidden = sys
        rest()


def rest():
    print(flush=True)
    sys.stdin.read()


numbers(0, 1, 2, other=3)
