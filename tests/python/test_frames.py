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

import pytest
import stacksplice
from frame_oracle import Checker, chain, python_frames
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


def test_capture_starts_at_the_caller_and_counts():
    def caller():
        return stacksplice.capture()

    stack = caller()
    first = stack[0]
    assert (first.language, first.function) == ("python", caller.__qualname__)
    assert first.line == caller.__code__.co_firstlineno + 1
    assert first.trust == "exact"
    assert caller.__qualname__ not in [f.function for f in stacksplice.capture(skip=0)]
    shorter = [stacksplice.capture(limit=3), stacksplice.capture(skip=1)]
    assert len(shorter[0].addresses) == 3
    assert len(shorter[1].addresses) == len(stack.addresses) - 2
    assert stacksplice.capture(limit=0).addresses == ()


def test_capture_changes_no_reference_count():
    def here():
        return None

    code = test_capture_changes_no_reference_count.__code__
    objects = [code, code.co_filename, code.co_qualname, here.__code__]
    stacksplice.capture()
    before = [sys.getrefcount(item) for item in objects]
    for _ in range(10):
        stacksplice.capture()
    assert [sys.getrefcount(item) for item in objects] == before


def test_code_that_dies_is_not_mistaken_for_its_successor():
    for number in range(2000):
        name = f"made_{number}"
        scope = {"capture": stacksplice.capture}
        exec(f"def {name}():\n    return capture(limit=1)\nresult = {name}()", scope)
        assert scope["result"][0].function == name


SUB_INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import stacksplice, sys
def inside():
    return stacksplice.capture()
stack = inside()
frames = [(f.function, f.interpreter is None) for f in stack if f.language == "python"]
print(frames)
try:
    raise ValueError("sub")
except ValueError as exc:
    stacksplice.originate(exc)
'''
import stacksplice
def outer():
    try:
        arguments = ("legacy",) if sys.version_info >= (3, 13) else ()
        options = {} if sys.version_info >= (3, 13) else {"isolated": False}
        made = interpreters.create(*arguments, **options)
        interpreters.run_string(made, code)
    finally:
        interpreters.destroy(made)
outer()
exc = None
try:
    stacksplice.raise_error(-2147024809)
except ValueError as caught:
    exc = caught
info = stacksplice.error_info(exc)
print(type(exc).__name__, exc, info.type, [f.function for f in info.stack if f.language == "python"])
"""


def test_sub_interpreter_has_its_own_frames_and_errors(child):
    lines = child(SUB_INTERPRETER).stdout.splitlines()
    assert lines[0] == "[('inside', False), ('<module>', False), ('outer', True), ('<module>', True)]"
    assert lines[1].startswith("HResultValueError sub ValueError ['<module>', 'outer', '<module>']")


def test_more_activations_than_are_kept_at_hand(check, border):
    """Hundreds of loops of the interpreter on one stack."""

    def level(n):
        return check() if n == 0 else border.call_plain(lambda: level(n - 1))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    threading.stack_size(64 << 20)
    try:
        thread = threading.Thread(target=level, args=(400,))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
        sys.setrecursionlimit(limit)
    assert check.count == 1


ISOLATED = """
import sys
try:
    import _interpreters as interpreters
    made = interpreters.create("isolated")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated=True)
import stacksplice
code = '''
import stacksplice
def inside():
    return [(f.function, f.interpreter is None) for f in stacksplice.capture() if f.language == "python"]
print(inside(), flush=True)
for number in range(100):
    try:
        raise ValueError(number)
    except ValueError as exc:
        info = stacksplice.originate(exc)
        assert info.language_exception is exc
'''
def outer():
    interpreters.run_string(made, code)
outer()
assert stacksplice.peek_error().language_exception is None  # another interpreter's
assert stacksplice.peek_error().message == "99"
interpreters.destroy(made)
assert stacksplice.take_error().message == "99"
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="one lock for all interpreters before 3.12")
def test_interpreter_with_a_lock_of_its_own(child):
    line = child(ISOLATED).stdout
    assert line.startswith("[('inside', False), ('<module>', False)")


# push nothing that an unwinder could follow: sub rsp, 24; xor ebp, ebp; call rdi; add rsp, 24; ...
NO_UNWIND_DATA = bytes.fromhex("55 4883ec20 31ed ffd7 4883c420 5d c3".replace(" ", ""))


def test_frames_behind_code_that_cannot_be_unwound(border):
    """Machine code as a compiler at run time makes it: the native walk ends, Python's frames do not."""
    import mmap

    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(NO_UNWIND_DATA)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    callback_type = ctypes.CFUNCTYPE(None)
    trampoline = ctypes.CFUNCTYPE(None, callback_type)(address)
    seen = []

    def callback():
        seen.append((chain(sys._getframe()), border.capture_both()[1]))

    def outer():
        trampoline(callback_type(callback))

    outer()
    truth, combined = seen[0]
    stack = stacksplice.Stack(combined)
    assert [frame[:2] for frame in python_frames(stack)] == [frame[:2] for frame in truth]
    gaps = [index for index, frame in enumerate(stack) if frame.kind == "gap"]
    names = [frame.function for frame in stack]
    assert len(gaps) == 1
    assert names.index(callback.__qualname__) < gaps[0] < names.index(outer.__qualname__)
