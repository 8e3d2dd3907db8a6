"""A million crossings with errors: memory stays flat, with the garbage collector on and off."""

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


def cross(count):
    """A quarter each: from Python and back, two kinds; from Lua; and caught by Lua."""
    for number in range(count):
        try:
            if number % 4 < 2:
                crossing.run("return py(...)", fail if number % 4 else fail_frozen)
            elif number % 4 == 2:
                crossing.run("error({number = ...})", number)
            else:
                crossing.run("pcall(py, ...) error('text')", fail)
        except (ValueError, stacksplice.HResultError):
            pass


class MemoryTest(unittest.TestCase):
    def flat(self):
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
