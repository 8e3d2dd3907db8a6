"""What frames of other languages in __traceback__ keep alive, and for how long."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import stacksplice
from raising import caught


class Dying(Exception):
    pass


def raise_dying(*_):
    raise Dying


def test_nothing_is_kept_alive(border, crossing):
    gc.collect()
    gc.disable()
    try:
        reference = weakref.ref(caught(border.call, raise_dying))
        assert reference() is None
        reference = weakref.ref(caught(crossing.run, "py(...)", raise_dying))
        crossing.objects()  # Lua collects the error that it passed on
        assert reference() is None
    finally:
        gc.enable()


def test_no_cycle_is_made(child, crossing_folder):
    done = child(
        """
import gc, sys
sys.path.insert(0, sys.argv[1])
import crossing
def fail(*_):
    raise ValueError
def cross():
    try:
        crossing.run("py(...)", fail)
    except ValueError as exc:
        return exc.__traceback__ is not None
cross()
gc.collect()
gc.disable()
print(cross(), gc.collect(), cross(), gc.collect(), gc.garbage)
""",
        str(crossing_folder),
    )
    assert done.stdout == "True 0 True 0 []\n"


@pytest.mark.parametrize("many", [4_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_memory_stays_flat(crossing, many):
    assert crossing.run("_G.flat = load([[return py(...)]]) return 1") == 1

    def blocks(count):
        for _ in range(count):
            try:
                crossing.run("flat(...)", raise_dying)
            except Dying:
                pass
        crossing.objects()
        gc.collect()
        return sys.getallocatedblocks()

    blocks(many // 4)  # what is kept is complete after the first collections
    before = blocks(many // 4)
    # Lists and numbers of this test; one block left in 2000 exceptions is 50.
    assert abs(blocks(many) - before) < 50


def test_ever_new_places_stay_bounded(crossing):
    def blocks(first, count):
        for i in range(first, first + count):
            try:
                crossing.run("local load, n = ... " + "\n" * (i % 50) + f"error('x{i}', 0)")
            except stacksplice.HResultError:
                pass
            chunk = f"@/gone/{i}.lua"
            try:
                crossing.run("return (assert(load(\"local x = error('in')\", ...)))()", chunk)
            except stacksplice.HResultError:
                pass
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks(0, 1500)
    assert blocks(1500, 3000) - before < 1500  # tokens are the core's; code objects are 512
