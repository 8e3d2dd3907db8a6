# ruff: noqa: F841
"""A program without stacksplice, for any CPython: threads that rest in known frames or handle exceptions,
and a main thread that rests in frames with known variables.

It prints one line of JSON: for each thread by its name and number what sys._getframe() says of its frames,
and for each that handles exceptions what the traceback module says of them.  With the argument "capture",
and with stacksplice, the stack that each thread captured is there, too.  Then it waits for the end of its
standard input.
"""

import asyncio
import collections
import ctypes
import json
import re
import sys
import threading
import traceback

NUMBER = 5
NAMES = ["a", "b"]

# ---- Variables -----------------------------------------------------------------------------------


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
    print(json.dumps(threads()), flush=True)
    sys.stdin.read()


# ---- Threads -------------------------------------------------------------------------------------


class OwnError(Exception):
    pass


def fail(error, depth):
    if depth:
        fail(error, depth - 1)
    raise error


def threads():
    """Begin them; what they say of themselves."""
    frames, exceptions, captured = {}, {}, {}

    def stop(name):
        if sys.argv[1:] == ["capture"]:
            import stacksplice

            stack = [frame.to_dict() for frame in stacksplice.capture()]
            captured[name] = {"thread_id": threading.get_native_id(), "stack": stack}
        found, frame = [], sys._getframe(1)
        while frame:
            found.append([frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno])
            frame = frame.f_back
        frames[name] = [threading.get_native_id(), found]

    def wait(name):
        # One line, so that all frames outside of this one are equal.
        stop(name), ready.wait(), end.wait()

    def plain(name):
        wait(name)

    def mixed(name, depth=40):
        if not depth:
            wait(name)
        elif depth % 2:
            sorted([1], key=lambda value: mixed(name, depth - 1))
        else:
            re.sub("a", lambda match: mixed(name, depth - 1) or "", "a")

    def generator(name):
        def inner():
            yield wait(name)

        return [value for value in inner()]

    def awaited(name):
        async def inner():
            wait(name)

        async def outer():
            await inner()

        try:
            outer().send(None)
        except StopIteration:
            pass

    def coroutines(name):
        async def inner():
            wait(name)

        asyncio.run(inner())

    def c_callback(name):
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        compare = kind(lambda left, right: wait(name) or 0)
        ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, compare)

    class Klass:
        def __init__(self, name):
            self.name = name
            self.property

        @property
        def property(self):
            wait(self.name)

        def __del__(self):
            wait(self.name)

    def initialised(name):
        Klass(name)

    def finalised(name):
        thing = object.__new__(Klass)
        thing.name = name
        del thing

    def named(name):
        text = "class Größe:\n  def 日本(self, name):\n    wait(name)\nGröße().日本(name)"
        exec(compile(text, "ünï/日本𝄞.py", "exec"), {"wait": wait, "name": name})

    def row(relation, exc):
        entries = [[f.filename, f.name, f.lineno] for f in traceback.extract_tb(exc.__traceback__)]
        return [relation, type(exc).__name__, str(exc), entries[::-1]]

    def handle(name, *handled):
        rows = []
        for exc in handled:
            chain = [row("handled", exc)]
            while exc.__cause__ or exc.__context__ and not exc.__suppress_context__:
                relation = "cause" if exc.__cause__ else "context"
                exc = exc.__cause__ or exc.__context__
                chain.append(row(relation, exc))
            rows.append(chain)
        exceptions[threading.get_native_id()] = rows
        wait(name)

    def in_context(name):
        try:
            fail(OwnError("a text", 3), 2)
        except OwnError:
            try:
                {}["missing"]
            except KeyError as inner:
                handle(name, inner)

    def with_cause(name):
        try:
            try:
                open("/missing/file")
            except OSError as exc:
                raise ValueError("ключ \U0001f511") from exc
        except ValueError as exc:
            handle(name, exc)

    def suppressed(name):
        try:
            try:
                fail(RuntimeError(), 0)
            except RuntimeError:
                raise TypeError("alone") from None
        except TypeError as exc:
            handle(name, exc)

    def in_a_generator(name):
        def generate():
            try:
                fail(ValueError("inner"), 1)
            except ValueError as exc:
                yield exc

        values = generate()
        next(values)
        try:
            fail(IndexError(7), 0)
        except IndexError as exc:
            handle(name, exc)

    def nothing(name):
        try:
            fail(ValueError("it is over"), 0)
        except ValueError:
            pass
        handle(name)

    all_of_them = [plain, mixed, generator, awaited, coroutines, c_callback, initialised, finalised, named]
    all_of_them += [in_context, with_cause, suppressed, in_a_generator, nothing]
    ready, end = threading.Barrier(len(all_of_them) + 1, timeout=60), threading.Event()
    for each in all_of_them:
        threading.Thread(target=each, args=(each.__name__,), daemon=True).start()
    ready.wait()
    return {"frames": frames, "exceptions": exceptions, "captured": captured}


numbers(0, 1, 2, other=3)
