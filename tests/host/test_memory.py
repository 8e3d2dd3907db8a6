"""A million crossings with errors of every kind: memory stays flat, with the garbage collector on and off."""

import gc
import sys
import unittest

import crossing
import stacksplice

CROSSINGS = 500_000
WARM_UP = 10_000
ALLOWED_KIB = 2048


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Frozen(ValueError):
    """Keeps its error object in another place than other exceptions do."""

    def __setattr__(self, name, value):
        raise TypeError("frozen")


def fail():
    raise ValueError("again and again")


def fail_frozen():
    raise Frozen("again and again")


def fail_with_cause():
    try:
        raise KeyError("the cause")
    except KeyError as exc:
        raise ValueError("again and again") from exc


def fail_with_group():
    raise ExceptionGroup("again and again", [ValueError("one"), ExceptionGroup("more", [KeyError("two")])])


# Of both languages, with causes and groups, as values and as error objects.
# Plain ones are the most frequent, as in life; the rest takes longer.
KINDS = [
    ("return py(...)", fail),
    ("error({number = ...})", 7),
    ("pcall(py, ...) error('text')", fail),
    ("return py(...)", fail),
    ("error({number = ...})", 7),
    ("pcall(py, ...) error('text')", fail),
    ("return py(...)", fail),
    ("return py(...)", fail_frozen),
    ("return py(...)", fail_with_cause),
    ("return py(...)", fail_with_group),
    ("error({number = ...})", 7),
    ("pcall(py, ...) error('text')", fail),
    ("local ok, e = pcall(py, ...) error(stacksplice.propagate(e))", fail),
    ("local ok, e = pcall(error, {}) stacksplice.error('effect', e)", None),
    ("local ok, e = pcall(py, ...) stacksplice.error({}, e)", fail_with_group),
]


def cross(count):
    """As often each kind, every other time without frames of Lua and C in __traceback__."""
    for number in range(count):
        if number % len(KINDS) == 0:
            stacksplice.foreign_frames(number % 2 == 0)
        try:
            crossing.run(*KINDS[number % len(KINDS)])
        except (ValueError, ExceptionGroup, stacksplice.HResultError):
            continue
        raise AssertionError(KINDS[number % len(KINDS)])


class MemoryTest(unittest.TestCase):
    def flat(self):
        for _ in range(2):  # what is kept is complete after the first collections
            cross(WARM_UP)
            resident_kib()
            gc.collect()
        held = crossing.objects()  # Lua's collector runs here
        objects, allocated, before = len(gc.get_objects()), sys.getallocatedblocks(), resident_kib()
        cross(CROSSINGS)
        grown = resident_kib() - before
        self.assertLessEqual(crossing.objects(), held)
        self.assertLess(grown, ALLOWED_KIB)
        self.assertLess(abs(sys.getallocatedblocks() - allocated), 400)
        # Nothing was left for the collector: the exceptions of ours make no cycles.
        self.assertLess(abs(len(gc.get_objects()) - objects), 100)
        self.assertFalse(crossing.slot())

    def test_with_the_collector(self):
        self.flat()

    def test_without_the_collector(self):
        gc.disable()
        try:
            self.flat()
        finally:
            gc.enable()


if __name__ == "__main__":
    unittest.main()
