"""What a raise that is caught at once costs: alone, and in the states that install() leaves.

The loops run outside of the harness, whose C code would be code of another language on the stack.

usage: raise_rows.py [OPTION of the harness...]
"""

import ctypes
import json
import sys
import time

import bench_bridge as bridge
import stacksplice
from stacksplice._hooks import at_raise

LOOPS = 1000
NO_EVENT = "CPython 3.12 and newer have an event for it"


def raises(count):
    for _ in range(count):
        try:
            raise ValueError
        except ValueError:
            pass


def bare():
    stacksplice.uninstall()


def before_others():
    """As it is until a module of others is loaded: the harness is one."""
    stacksplice.install()
    at_raise.end()


METHODS = {"bare": bare, "install(), no other code loaded": before_others, "install()": stacksplice.install}


def measure(row, rounds):
    """Runs in turn, and a second time for each method: what is new to the interpreter is not timed."""
    samples = {name: [] for name in METHODS}
    for _ in range(rounds):
        for name, switch in METHODS.items():
            switch()
            raises(10)
            begin = time.perf_counter_ns()
            raises(LOOPS)
            samples[name].append((time.perf_counter_ns() - begin) / LOOPS)
    stacksplice.uninstall()
    for name, values in samples.items():
        values.sort()
        p50, p90 = values[len(values) // 2], values[len(values) * 9 // 10]
        tell(row, name, p50=p50, p90=p90, unit="ns", samples=len(values), frames=0)


def count(row):
    for name, switch in METHODS.items():
        switch()
        raises(100)
        bridge.count()
        raises(LOOPS)
        bridge.counted(row, name, LOOPS)
    stacksplice.uninstall()


def tell(row, method, **values):
    print(json.dumps({"row": row, "method": method, **values}))
    sys.stdout.flush()


def run(row, rounds):
    if bridge.counts():
        count(row)
    else:
        measure(row, rounds)


# ---- What is on the stack ------------------------------------------------------------------------


def below_sorted(function):
    sorted([0], key=lambda _: function())


def below_qsort(function):
    """A list of two numbers is compared once."""
    called = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_a, _b):
        if not called:
            called.append(True)
            function()
        return 0

    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(), 2, ctypes.sizeof(ctypes.c_int), compare)


def main():
    bridge.options(sys.argv)
    rounds = 3 if "--tiny" in sys.argv else 51 if "--quick" in sys.argv else 301
    if sys.version_info < (3, 12):
        del METHODS["install()"]
    for what, call in ("", None), (" below sorted()", below_sorted), (" below qsort() of C", below_qsort):
        row = f"Python, a raise that is caught{what}"
        if not bridge.wants(row):
            continue
        if call is None:
            run(row, rounds)
        else:
            call(lambda row=row: run(row, rounds))
        if sys.version_info < (3, 12):
            tell(row, "install()", unavailable=NO_EVENT)


main()
