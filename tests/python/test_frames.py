"""Python frames in the combined stack, against the chain of sys._getframe()."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import re
import signal
import sys
import threading
import weakref

from frame_oracle import Checker
from racing import race

# Each compares with the chain of sys._getframe() and with the one-function oracle.
SCENARIOS = """
    plain, 200_inlined_calls, sort_key, map_of_a_lambda, functools_reduce, ctypes_callback,
    c_extension_six_nested, lock_released_in_c, generators_with_yield_from, getattr, add, enter,
    exit_while_handling, del_in_a_collection, in_except_nested_twice, in_finally, exec, eval, property,
    metaclass_call, init, await_chain, await_chain_resumed_as_a_task, async_generator, call_soon, thread,
    six_threads_racing, six_threads_racing_without_the_lock, inside_settrace, weakref_callback,
    signal_handler, atexit
"""


def test_every_scenario_has_a_test():
    names = [f"test_{name.strip()}" for name in SCENARIOS.split(",")]
    assert len(set(names)) == 32
    assert [name for name in names if not callable(globals().get(name))] == []


def test_plain(check):
    def inner():
        return check()

    def outer():
        return inner()

    assert outer()


def test_200_inlined_calls(check):
    def down(n):
        return check() if n == 0 else down(n - 1)

    down(200)


def test_sort_key(check):
    sorted([2, 1], key=check)
    [2, 1].sort(key=lambda x: check())


def test_map_of_a_lambda(check):
    list(map(lambda x: check(), [1]))


def test_functools_reduce(check):
    functools.reduce(lambda a, b: check(), [1, 2, 3])


def test_regular_expression_callback(check):
    re.sub("a", lambda match: str(check()), "aa")


def test_ctypes_callback(check):
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    array = (ctypes.c_int * 2)(2, 1)
    callback = compare(lambda a, b: int(check()))
    libc = ctypes.CDLL(None)
    libc.qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, compare]
    libc.qsort(array, 2, ctypes.sizeof(ctypes.c_int), callback)


def test_c_extension_six_nested(check, border):
    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    level(6)


def test_lock_released_in_c(check):
    check.without_lock = True
    sorted([2, 1], key=check)


def test_generators_with_yield_from(check):
    def inner():
        yield check()

    def outer():
        yield from inner()

    list(outer())
    generator = outer()
    next(generator)


def test_getattr(check):
    class Special:
        def __getattr__(self, name):
            return check()

    assert Special().missing


def test_add(check):
    class Special:
        def __add__(self, other):
            return check()

    assert Special() + 1


def test_enter(check):
    class Special:
        def __enter__(self):
            return check()

        def __exit__(self, *_):
            return None

    with Special():
        assert check.count == 1


def test_exit_while_handling(check):
    class Special:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return check()

    with Special():
        raise ValueError
    assert check.count == 1


def test_property(check):
    class Special:
        @property
        def value(self):
            return check()

    assert Special().value


def test_other_special_methods(check):
    class Special:
        def __iter__(self):
            check()
            return iter(())

        def __len__(self):
            return int(check())

        def __hash__(self):
            return int(check())

        def __eq__(self, other):
            return check()

        def __lt__(self, other):
            return check()

    special = Special()
    list(special)
    len(special)
    _ = {special: 1}
    sorted([Special(), Special()])
    check.assert_good(5)


def test_del_in_a_collection(check):
    class Cyclic:
        def __init__(self):
            self.me = self

        def __del__(self):
            check()

    Cyclic()
    gc.collect()


def test_in_except_nested_twice(check):
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        except KeyError:
            check()


def test_in_finally(check):
    with contextlib.suppress(ValueError):
        try:
            raise ValueError
        finally:
            check()


def test_exec(check):
    exec("def f():\n    check()\nf()", {"check": check})


def test_eval(check):
    eval("(lambda: check())()", {"check": check})


def test_metaclass_call(check):
    class Meta(type):
        def __call__(cls, *arguments):
            check()
            return super().__call__(*arguments)

    class Made(metaclass=Meta):
        def __init__(self):
            check()

    Made()
    check.assert_good(2)


def test_init(check):
    class Plain:
        def __init__(self):
            check()

    for _ in range(50):  # long enough for the call to be specialised
        Plain()
    check.assert_good(50)


async def awaits(function):
    async def inner():
        function()
        await asyncio.sleep(0)
        function()

    await inner()


def test_await_chain(check):
    asyncio.run(awaits(check))
    check.assert_good(2)


def test_await_chain_resumed_as_a_task(check):
    async def outer():
        await asyncio.create_task(awaits(check))

    asyncio.run(outer())
    check.assert_good(2)


def test_call_soon(check):
    async def outer():
        asyncio.get_running_loop().call_soon(check)
        await asyncio.sleep(0)

    asyncio.run(outer())


def test_async_generator(check):
    async def numbers():
        check()
        yield 1
        check()

    async def main():
        async for _ in numbers():
            check()

    asyncio.run(main())


def test_thread(check):
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()


def six_threads(border, without_lock):
    """At a switch interval of 10 µs."""
    checkers = [Checker(border) for _ in range(6)]

    def work(checker):
        checker.without_lock = without_lock
        for _ in range(40):
            sorted([2, 1], key=lambda x: checker())

    race(work, [(checker,) for checker in checkers])
    for checker in checkers:
        checker.assert_good(80)


def test_six_threads_racing(border):
    six_threads(border, without_lock=False)


def test_six_threads_racing_without_the_lock(border):
    six_threads(border, without_lock=True)


def test_inside_settrace(check):
    def trace(frame, event, argument):
        if frame.f_code.co_name == "traced":
            check()
        return trace

    def traced():
        return 1

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        traced()
    finally:
        sys.settrace(old)


def test_weakref_callback(check):
    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, check)
    del thing
    assert reference() is None


def test_signal_handler(check):
    old = signal.signal(signal.SIGUSR1, lambda *_: check())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, old)


AT_EXIT = """
import atexit, threading
import border, frame_oracle
checker = frame_oracle.Checker(border)
def last():
    list(map(checker, [1]))
    checker.assert_good(3)
    print("checked at exit")
atexit.register(last)
atexit.register(lambda: checker())
threading._register_atexit(checker)
"""


def test_atexit(child):
    assert child(AT_EXIT).stdout == "checked at exit\n"


def test_names_that_are_not_ascii(check, tmp_path):
    path = tmp_path / "größe_日本.py"
    source = "def größe_日本():\n    return check()\ndef 𝔘():\n    return größe_日本()\n𝔘()\n"
    exec(compile(source, str(path), "exec"), {"check": check})
