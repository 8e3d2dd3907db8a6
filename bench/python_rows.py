"""What an error and a stack cost in Python: stacksplice beside the standard library and lupa.

usage: python_rows.py [OPTION of the harness...]
"""

import faulthandler
import json
import os
import sys
import time
import traceback

import bench_bridge as bridge
import stacksplice

try:
    import lupa
except ImportError:
    lupa = None
else:
    try:
        from lupa.lua54 import LuaRuntime  # the Lua that the bridge here has, too
    except ImportError:
        from lupa import LuaRuntime


def at_depth(frames, function):
    """Calls FUNCTION below that many Python frames."""
    if frames <= 1:
        return function()
    return at_depth(frames - 1, function)


# ---- An exception that was caught ----------------------------------------------------------------


def fail():
    raise ValueError("no such order")


def exception(frames):
    """An exception with that many frames in its traceback."""
    try:
        at_depth(frames - 2, fail)
    except ValueError as exc:
        return exc


def exceptions(frames):
    """Makes new ones; those of the run before have ended, also the one in the thread's slot."""

    def make(count):
        stacksplice.take_error()
        return [exception(frames) for _ in range(count)]

    return make


def extract(exc):
    return traceback.extract_tb(exc.__traceback__)


def format_exc(exc):
    try:
        raise exc
    except ValueError:
        return traceback.format_exc()


def check_exception(frames):
    """The same frames, whoever looks."""
    exc = exception(frames)
    theirs = [(f.lineno, f.name) for f in extract(exc)]
    info = stacksplice.originate(exc)
    ours = [(f.line, f.function) for f in info.stack if f.trust == "traceback"]
    assert len(theirs) == frames and [name for _, name in reversed(theirs)] == [
        name.rsplit(".", 1)[-1] for _, name in ours
    ], (theirs, ours)
    stacksplice.take_error()


def exception_row(row, frames):
    make = exceptions(frames)
    bridge.row(
        row,
        frames,
        [
            ("stacksplice.originate", make, stacksplice.originate),
            ("TracebackException", make, traceback.TracebackException.from_exception),
            ("traceback.extract_tb", make, extract),
            ("traceback.format_exc", make, format_exc),
            ("the raise itself", None, lambda frames=frames: exception(frames)),
        ],
    )
    stacksplice.take_error()


def exception_rows():
    for frames in (5, 50, 200):
        row = f"Python, an exception of {frames} frames"
        if bridge.wants(row):
            check_exception(frames)
            exception_row(row, frames)


def awaited_row():
    """Comes last: where asyncio is loaded, each error asks it for a loop."""
    import asyncio

    async def awaited(tasks):
        """A task that so many others await, each the next."""
        if tasks:
            await asyncio.create_task(awaited(tasks - 1))
        else:
            exception_row(row, 5)

    row = "Python, an exception of 5 frames that ten tasks await"
    if bridge.wants(row):
        asyncio.run(awaited(10))


# ---- The live stack ------------------------------------------------------------------------------


def walk():
    frame, found = sys._getframe(), []
    while frame:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found


def stack_row(row, frames, sink):
    ours = [f for f in stacksplice.capture() if f.language == "python"]
    assert len(ours) == len(traceback.extract_stack()) >= frames
    bridge.row(
        row,
        len(ours),
        [
            ("stacksplice.capture", None, stacksplice.capture),
            (
                "stacksplice.capture, names read",
                None,
                lambda: [(f.function, f.file, f.line) for f in stacksplice.capture()],
            ),
            ("traceback.extract_stack", None, traceback.extract_stack),
            ("faulthandler.dump_traceback", None, lambda: faulthandler.dump_traceback(sink, False)),
            ("sys._getframe chain", None, walk),
        ],
    )


def stack_rows():
    with open(os.devnull, "w", encoding="utf-8") as sink:
        for frames in (5, 50, 200):
            row = f"Python, the stack at {frames} frames"
            if bridge.wants(row):
                at_depth(frames, lambda row=row, frames=frames: stack_row(row, frames, sink))


# ---- Borders -------------------------------------------------------------------------------------

LUA = """
function call(path, depth) return py(path, depth) + 0 end
function call_plain(path, depth) return py_plain(path, depth) + 0 end
"""


def raiser(*_):
    raise ValueError("no such order")


def catching(function, *args):
    """A call that raises ValueError, and catches it."""

    def call(_=None):
        try:
            function(*args)
        except ValueError:
            return
        raise AssertionError("the exception did not arrive")

    return call


def switched(on):
    """Lua's frames are shown in __traceback__, or are not, in the runs that follow."""

    def prepare(count):
        stacksplice.foreign_frames(on)
        return [None] * count

    return prepare


def crossing(row, target, wrap):
    """Python calls Lua, Lua calls TARGET: by each bridge a method of ROW."""
    bridge.set_py(target)
    ours = wrap(bridge.call_lua, "call", 1, 2)
    methods = [
        ("stacksplice", switched(True), ours),
        ("stacksplice, foreign frames off", switched(False), ours),
    ]
    if lupa:
        runtime = LuaRuntime()
        function = runtime.eval("function(f, path, depth) return f(path, depth) + 0 end")
        methods.append(("lupa", None, wrap(function, target, 1, 2)))
        version = ".".join(map(str, runtime.lua_version))
        print(json.dumps({"row": row, "note": f"lupa {lupa.__version__} with Lua {version}"}))
    else:
        print(json.dumps({"row": row, "method": "lupa", "unavailable": "lupa is not installed"}))
    sys.stdout.flush()
    methods.append(("the same bridge, bare", None, wrap(bridge.call_plain, "call_plain", 1, 2)))
    return methods


def processor_row(row, count, methods):
    """One of COUNT at once, in processor time: what a method leaves to Python's collector counts, too."""
    if bridge.counts() or not bridge.wants(row):
        return
    for name, prepare, call in methods:
        values = []
        if prepare:
            prepare(1)
        for _ in range(3):
            begin = time.process_time_ns()
            for _ in range(count):
                call()
            values.append((time.process_time_ns() - begin) / count)
        measured = {"p50": sorted(values)[1], "p90": max(values), "unit": "ns", "samples": count}
        print(json.dumps({"row": row, "method": name, **measured, "frames": 0}))
        sys.stdout.flush()


def check_crossing():
    """The exception of stacksplice's crossing has its chain and the Lua frame."""
    bridge.set_py(raiser)
    try:
        bridge.call_lua("call", 1, 2)
    except ValueError as exc:
        info = stacksplice.error_info(exc)
    assert [node.language for node in info.propagation] == ["lua", "python"]
    assert "lua" in [frame.language for frame in info.stack]


def plain_call(function, *args):
    return lambda _=None: function(*args)


def main():
    bridge.options(sys.argv)
    bridge.setup(LUA)
    exception_rows()
    stack_rows()
    check_crossing()
    row = "Python -> Lua -> Python, a raise"
    bridge.row(row, 0, crossing(row, raiser, catching))
    row = "Python -> Lua -> Python, 20000 raises, processor time of one"
    processor_row(row, 200 if "--tiny" in sys.argv else 20000, crossing(row, raiser, catching))
    row = "Python -> Lua -> Python, a call"
    bridge.row(row, 0, crossing(row, lambda *_: 1, plain_call))
    bridge.border("border, no error, a call of Python", lambda: None)
    awaited_row()


main()
