"""A process with all that tools may show of it: test_beside_tools lets each of them look."""

import ctypes
import faulthandler
import gc
import signal
import sys
import threading
import time

try:
    import lupa.lua54 as lupa
except ImportError:
    lupa = None

faulthandler.register(signal.SIGUSR1, all_threads=True, file=sys.stdout)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def compared(left, right):
    time.sleep(1000)  # a line of source
    return 0


def sort_in_c():
    local_of_sort = "a local value"
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(), 2, 4, COMPARE(compared))
    return local_of_sort


def handle():
    try:
        try:
            raise KeyError("the cause")
        except KeyError as cause:
            raise ValueError("in flight") from cause
    except ValueError:
        time.sleep(1000)


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        while True:
            pass


def collect():
    Cycle()
    gc.collect()


def lua():
    runtime = lupa.LuaRuntime()
    runtime.globals().sleep = time.sleep
    runtime.execute("function in_lua() sleep(1000) end in_lua()")


sys.setswitchinterval(1000)
for act in [sort_in_c, handle] + ([lua] if lupa else []):
    threading.Thread(target=act, name=f"named {act.__name__}", daemon=True).start()
time.sleep(0.5)
print(flush=True)
threading.Thread(target=collect, name="named collect", daemon=True).start()
