"""A thread whose error passed C code that knows nothing of us."""

import concurrent.futures
import ctypes

import shop

call = ctypes.pythonapi.PyObject_CallNoArgs
call.argtypes, call.restype = [ctypes.py_object], ctypes.py_object


def fail():
    return shop.rate("XAU")


def handler():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call, fail).result()


handler()
