"""Other allocators in the place of malloc: errors cross, are held, released and formatted as ever."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, gc, os, pickle, threading
import border, stacksplice

def fails(depth):
    if depth:
        return fails(depth - 1)
    raise KeyError("boom")

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
wrong = []

def through_c():
    def compare(a, b):
        stack = stacksplice.capture()
        if not any(frame.function == "work" for frame in stack):
            wrong.append(str(stack))
        return -1
    numbers = (ctypes.c_int * 4)(3, 1, 2, 0)
    libc.qsort(numbers, 4, 4, COMPARE(compare))

def in_a_child():
    pid = os.fork()
    if pid == 0:
        try:
            border.call(fails, 3)
        except KeyError as exc:
            os._exit(0 if stacksplice.error_info(exc) else 3)
        os._exit(4)
    return os.waitpid(pid, 0)[1]

def work(number):
    try:
        for round in range(60):
            try:
                border.call(fails, round % 12)
            except KeyError as exc:
                info = stacksplice.error_info(exc)
                again = stacksplice.error_info(pickle.loads(pickle.dumps(exc)))
                assert "boom" in str(info) and again.type == "KeyError"
                assert [f.function for f in info.stack if f.kind == "script"][0] == "fails"
            through_c()
            if round % 20 == number:
                gc.collect()
                assert in_a_child() == 0
    except BaseException as exc:
        wrong.append(repr(exc))

threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong[:3]
maps = open("/proc/self/maps").read()
print(any(name in maps for name in ("jemalloc", "tcmalloc")))
"""


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc_minimal"])
def test_under_another_allocator(child, name):
    library = ctypes.util.find_library(name)
    if library is None:
        pytest.skip(f"lib{name} is not installed")
    assert Path(library).name.startswith(f"lib{name}.so")
    assert (
        child("import warnings; warnings.simplefilter('ignore')\n" + PROGRAM, LD_PRELOAD=library).stdout
        == "True\n"
    )
