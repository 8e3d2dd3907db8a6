"""The steps of Python; `step` is what the module calls."""

import asyncio
import threading
import types

import stacksplice

m = None  # the module matrix
path = modes = styles = kind = ""  # of the case that runs


# Exceptions whose end can be seen: a class of its own lets them be referred to weakly.
class OwnValueError(ValueError):
    pass


class OwnFileError(FileNotFoundError):
    pass


class OwnInterrupt(KeyboardInterrupt):
    pass


KINDS = {
    "V": lambda: OwnValueError("Python said so"),
    "O": lambda: OwnFileError(2, "Python said so"),
    "K": lambda: OwnInterrupt("Python said so"),
    "H": lambda: stacksplice.HResultError(-2147467260, "Python said so"),
}


def made():
    exc = KINDS[kind]()
    m.thrown(exc)
    return exc


def throw():
    raise made()  # kept by no variable of a frame in its traceback


# Step i fails; behind the end of the path Python itself does.
def go(i):
    if i == len(path):
        throw()
    else:
        m.call(i)


def passing(i):
    go(i)


def reraising(i):
    try:
        go(i)
    except BaseException:
        m.check_slot()
        raise


def raising_again(i):
    try:
        go(i)
    except BaseException as e:
        raise e


def cleaning(i):
    try:
        go(i)
    finally:
        try:
            m.fail()  # an error in clean-up code, handled
        except stacksplice.HResultError:
            pass


STYLES = {"0": passing, "1": reraising, "2": raising_again, "3": cleaning}


def in_style(i):
    STYLES[styles[i - 1]](i)


# ---- Modes: how a step runs WHAT, the call or the catching of what comes from it -----------------


def plain(what, i):
    what(i)


def yielding(what, i):
    yield 1
    what(i)


def generator(what, i):
    for _ in yielding(what, i):
        pass


@types.coroutine
def switch():
    yield


async def inner(what, i):
    await switch()
    what(i)


async def outer(what, i):
    await inner(what, i)


def by_hand(what, i):
    coroutine = outer(what, i)
    coroutine.send(None)
    try:
        coroutine.send(None)
    except StopIteration:
        pass


def by_key(what, i):
    sorted([0], key=lambda _: what(i))


def by_map(what, i):
    list(map(lambda _: what(i), [0]))


class Made:
    def __init__(self, what, i):
        what(i)


class Asked:
    def __init__(self, what, i):
        self.what, self.i = what, i

    @property
    def value(self):
        self.what(self.i)

    def __getattr__(self, name):
        self.what(self.i)

    def __add__(self, other):
        self.what(self.i)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        self.what(self.i)


def by_property(what, i):
    Asked(what, i).value


def by_getattr(what, i):
    Asked(what, i).missing


def by_operator(what, i):
    Asked(what, i) + 1


def by_exit(what, i):
    with Asked(what, i):
        pass


async def in_task(what, i):
    await asyncio.sleep(0)
    what(i)


async def awaiting(what, i):
    await asyncio.create_task(in_task(what, i))


def by_asyncio(what, i):
    asyncio.run(awaiting(what, i))


def target(what, i, failed):
    m.thread()
    try:
        what(i)
    except BaseException as e:
        failed.append(e)
    m.check_slot()


def in_thread(what, i):
    failed = []
    thread = threading.Thread(target=target, args=(what, i, failed))
    thread.start()
    thread.join()
    if failed:
        raise failed.pop()


MODES = {"-": plain, "g": generator, "c": by_hand, "a": by_asyncio, "t": in_thread}
MODES |= {
    "k": by_key,
    "m": by_map,
    "i": Made,
    "p": by_property,
    "r": by_getattr,
    "+": by_operator,
    "e": by_exit,
}


# Not in a frame of the traceback: what it knows would make a cycle.
def look_at(e):
    m.check_slot()
    info = stacksplice.error_info(e)
    m.fact("caught", e)
    m.fact("hresult", info.hresult)
    m.fact("what", info.message)
    m.fact("nodes", len(info.propagation))
    m.fact("languages", " ".join(node.language for node in info.propagation))
    m.fact("frames", len(info.stack))
    stacksplice.originate(e)
    m.collect(info.hresult)


def catch(i):
    try:
        in_style(i)
    except BaseException as e:
        look_at(e)


def step(i):
    MODES[modes[i]](in_style if i else catch, i + 1)
