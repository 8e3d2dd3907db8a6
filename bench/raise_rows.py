"""What a handled exception costs with install(): where it is raised, some calls further out, and where it
leaves Python for C, below code of several languages.

Each row has the price of CPython's event beside it: a callback in C that does nothing.  The last one is
what a user of Flask feels: a request whose error comes out of Lua, where Python raised it.

usage: raise_rows.py [OPTION of the harness...]
"""

import asyncio
import contextlib
import ctypes
import functools
import gc
import itertools
import json
import sys
import time

import bench_bridge as bridge
import stacksplice
from stacksplice._hooks import at_raise

LOOPS = 200
REQUESTS = 50
NO_EVENT = "CPython 3.12 and newer have an event for it"
TOOL = 5

# ---- Programs that handle an exception -----------------------------------------------------------


# What programs handle most comes from Python's own objects, and has a text.


class Empty:
    pass


table, empty = {}, Empty()


def no_key():
    table["x"]


def no_attribute():
    empty.x


def no_number():
    int("q")


def further_out(function, calls):
    """What calls FUNCTION that many calls further in, without C in between."""
    if not calls:
        return function
    inner = further_out(function, calls - 1)
    return lambda: inner()


FAILING = (no_key, no_attribute, no_number)


def handled(functions, count):
    for function in itertools.islice(itertools.cycle(functions), count):
        try:
            function()
        except Exception:
            pass


def handled_at_once(count):
    for kind in itertools.islice(itertools.cycle(range(3)), count):
        try:
            if kind == 0:
                table["x"]
            elif kind == 1:
                empty.x
            else:
                int("q")
        except Exception:
            pass


class Without:
    def __getattr__(self, name):
        raise AttributeError(name)


def generator():
    yield no_key()


def out_of_a_greenlet(count):
    import greenlet

    handled(
        [
            greenlet.greenlet(function).switch
            for function in itertools.islice(itertools.cycle(FAILING), count)
        ],
        count,
    )


def through_lupa():
    import lupa

    return lupa.LuaRuntime().eval("function(f) f() end")


# The name in the row, and what is done so many times.
HANDLED = {
    "where it is raised": handled_at_once,
    "one call out": functools.partial(handled, FAILING),
    "three calls out": functools.partial(handled, [further_out(function, 2) for function in FAILING]),
    "out of sorted()": functools.partial(handled, [lambda: sorted([0], key=lambda _: no_key())]),
    "out of next()": functools.partial(handled, [lambda: next(generator())]),
    "in hasattr()": lambda count, without=Without(): [hasattr(without, "x") for _ in range(count)],
    "out of a greenlet": out_of_a_greenlet,
}


def deep(function, frames=40):
    if frames:
        deep(function, frames - 1)
    else:
        function()


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


def below_lupa(function):
    through_lupa()(function)


def below_lxml(function):
    from lxml import etree

    etree.FunctionNamespace("urn:x")["f"] = lambda context: (function(), "a")[1]
    etree.XPath("x:f()", namespaces={"x": "urn:x"})(etree.XML("<a/>"))


async def _calls(function):
    function()


def in_asyncio(function):
    asyncio.run(_calls(function))


def in_uvloop(function):
    import uvloop

    with contextlib.closing(uvloop.new_event_loop()) as loop:
        loop.run_until_complete(_calls(function))


PLACES = {
    "": lambda function: function(),
    ", 40 frames deep": deep,
    ", below sorted()": below_sorted,
    ", below qsort() of C": below_qsort,
    ", below lupa": below_lupa,
    ", below lxml": below_lxml,
    ", in asyncio": in_asyncio,
    ", in uvloop": in_uvloop,
}


@functools.cache
def shop():
    import flask
    import lupa

    application, runtime, rates = flask.Flask("shop"), lupa.LuaRuntime(), {"EUR": 2.0}

    def rate(currency):
        return rates[currency]

    runtime.globals().rate = rate
    price = runtime.eval("function(amount, currency) local found = rate(currency) return amount * found end")

    @application.route("/price/<currency>")
    def in_currency(currency):
        try:
            return flask.jsonify(price=price(3, currency))
        except KeyError:
            return flask.jsonify(unknown=currency), 404

    return application.test_client()


def refused_requests(count):
    for _ in range(count):
        assert shop().get("/price/XXX").status_code == 404


# ---- Methods -------------------------------------------------------------------------------------


def without():
    stacksplice.uninstall()


def before_others():
    """As it is until a module of others is loaded: the harness is one."""
    stacksplice.install()
    at_raise.end()


def empty_event():
    stacksplice.uninstall()
    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL, "bench")
    monitoring.register_callback(TOOL, monitoring.events.PY_UNWIND, bridge.nothing)
    monitoring.set_events(TOOL, monitoring.events.PY_UNWIND)


def end_empty_event():
    if sys.version_info >= (3, 12) and sys.monitoring.get_tool(TOOL) == "bench":
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.register_callback(TOOL, sys.monitoring.events.PY_UNWIND, None)
        sys.monitoring.free_tool_id(TOOL)


METHODS = {
    "bare": without,
    "install(), no other code loaded": before_others,
    "an empty callback of the event": empty_event,
    "install()": stacksplice.install,
}
WITH_EVENT = ("an empty callback of the event", "install()")


def measure(row, program, loops, methods, rounds):
    """Runs in turn, and a second time for each method: what is new to the interpreter is not timed."""
    samples = {name: [] for name in methods}
    for _ in range(rounds):
        for name, switch in methods.items():
            switch()
            program(10)
            begin = time.perf_counter_ns()
            program(loops)
            samples[name].append((time.perf_counter_ns() - begin) / loops)
            end_empty_event()
    stacksplice.uninstall()
    for name, values in samples.items():
        values.sort()
        p50, p90 = values[len(values) // 2], values[len(values) * 9 // 10]
        tell(row, name, p50=p50, p90=p90, unit="ns", samples=len(values), frames=0)


def count(row, program, loops, methods):
    for name, switch in methods.items():
        if not bridge.counts_method(name):
            continue
        switch()
        program(loops)
        gc.collect()  # or one method's garbage is another's
        bridge.count()
        program(loops)
        bridge.counted(row, name, loops)
        end_empty_event()
    stacksplice.uninstall()


def tell(row, method, **values):
    print(json.dumps({"row": row, "method": method, **values}))
    sys.stdout.flush()


def rows():
    """Each way to handle it at top level, and one call out in each place; requests."""
    for how, program in HANDLED.items():
        yield f"Python, an exception handled {how}", PLACES[""], program, LOOPS
    for where, place in PLACES.items():
        if where:
            yield f"Python, an exception handled one call out{where}", place, HANDLED["one call out"], LOOPS
    yield "Flask, a request that handles an error below Lua", PLACES[""], refused_requests, REQUESTS


def main():
    bridge.options(sys.argv)
    rounds = 3 if "--tiny" in sys.argv else 51 if "--quick" in sys.argv else 301
    methods = dict(METHODS)
    if sys.version_info < (3, 12):
        for name in WITH_EVENT:
            del methods[name]
    for row, place, program, loops in rows():
        if not bridge.wants(row):
            continue
        try:
            if bridge.counts():
                place(functools.partial(count, row, program, loops, methods))
            else:
                place(functools.partial(measure, row, program, loops, methods, rounds))
        except ImportError as error:
            for name in METHODS:
                tell(row, name, unavailable=f"{error.name} is not installed")
            continue
        if sys.version_info < (3, 12):
            for name in WITH_EVENT:
                tell(row, name, unavailable=NO_EVENT)


main()
