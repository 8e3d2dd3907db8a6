"""Ways by which an exception travels: through threads, pools, tasks, futures, greenlets, Lua, C, and by
being kept and raised again.

Each way takes a function and returns one that calls it.  What that raises leaves the new function, too, as
the same exception, or as another that has it behind it.  LEAVES raise.  What a program of them raises is
compared with Python's own traceback by `missing`, a capture at its leaf with the frames by `wrong_at`, and
the lines of Lua in that traceback with those that `wrong_at` noted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import ctypes
import importlib.util
import re
import sys
import threading
import traceback

import greenlet
import stacksplice
import versions
from gap_reasons import OWN_STACK_ENDS, TAIL_CALLS

# Each calls F with the lines at which it and Lua's other functions on the way stand, the innermost first.
_LUA = """
function plain(f) f(2) return nil end
function kept(f) local ok, e = pcall(f, 3) if not ok then error(e, 0) end end
function wrapped(f) coroutine.wrap(function() f(4, 4) end)() end
function resumed(f)
    local co = coroutine.create(function() coroutine.yield() f(6, 7) end)
    coroutine.resume(co) local ok, e = coroutine.resume(co) if not ok then error(e, 0) end
end
function sorted(f) table.sort({2, 1}, function() f(9, 9) return false end) end
function indexed(f)
    local t = setmetatable({}, {__index = function()
        f(12, 13) return 1 end})
    return (t.x)
end
function added(f)
    local t = setmetatable({}, {__add = function()
        f(17, 18) return 1 end})
    return (t + 1)
end
function replaced(f)
    local function each()
        f(22, 23) return nil end
    return (string.gsub("ab", ".", each))
end
function iterated(f)
    local function step(_, last) if not last then
        f(27, 28) return 1 end end
    for _ in step do f(28) end
end
function tailed(f)
    local function last()
        f(32, 33) return nil end
    local found = (function() return last() end)()
    return found
end
function twice(f)
    local function inner() f(37, 39)
        f(38, 39) return nil end
    local ok, e = pcall(inner) if not ok then error(e, 0) end
    f(40) return nil
end
function failed(f)
    local co = coroutine.create(function() f(43, 44) error("in a coroutine") end)
    coroutine.resume(co) f(44) return nil
end
function paused(f)
    local function last(from) f(47, 50, from) coroutine.yield()
        f(48, 50, 53) return nil end
    local co = coroutine.create(function()
        local ok = pcall(last, 52) -- Lua 5.1 does not let the coroutine pause there
        f(51, ok and 53 or 52) return nil end)
    coroutine.resume(co)
    coroutine.resume(co) f(53) return nil
end
function fails() error('leaf of Lua') end
"""
_of_thread = threading.local()
VERSIONS = [name for name in versions.LUPAS if importlib.util.find_spec(f"lupa.{name}")]
_version = contextvars.ContextVar("version", default="lua54")
use = _version.set


def lua(which=0):
    """The globals of this thread's Lua: lupa has one lock for a runtime, also while Lua calls Python."""
    known, key = vars(_of_thread).setdefault("runtimes", {}), (_version.get(), which)
    if key not in known:
        runtime = importlib.import_module(f"lupa.{key[0]}").LuaRuntime()
        runtime.execute(_LUA, name="@ways.lua")
        known[key] = runtime
    return known[key].globals()


_compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_c = ctypes.CDLL(None)


# ---- What raises ---------------------------------------------------------------------------------


def of_python():
    raise ValueError("leaf")


def of_a_built_in():
    return {}["leaf"]


def of_lua():
    lua().fails()


def with_a_cause():
    try:
        of_python()
    except ValueError as exc:
        raise KeyError("second") from exc


LEAVES = [of_python, of_a_built_in, of_lua, with_a_cause]


def wrong_at(leaf, faults, logs):
    """LEAF, before which a capture is compared with Python's chain of frames and the log of Lua's."""

    def compare_and_raise():
        stack, frame, python = stacksplice.capture(), sys._getframe(), []  # on one line
        while frame is not None:
            python.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        # Outside of a greenlet stands only what Lua knows of its callers.
        ends = [place for place, f in enumerate(stack) if f.kind == "gap" and f.reason == OWN_STACK_ENDS]
        inside = stack[: ends[0] if ends else None]
        unknown = [f.reason for f in inside if f.kind == "gap" and f.reason != TAIL_CALLS]
        scripts = [f for f in inside if f.kind == "script"]
        given = [(f.file, f.line, f.function.rpartition(".")[2]) for f in scripts if f.language == "python"]
        lua_lines = [f.line for f in scripts if f.language == "lua" and f.file == "ways.lua"]
        if (given[1:], lua_lines, unknown) != (python[1:], list(_logged()), []):
            faults.append((given, python, lua_lines, _logged(), unknown))
        logs.append(_logged())
        leaf()

    return compare_and_raise


# ---- Calls ---------------------------------------------------------------------------------------


def called(inner):
    def call():
        inner()

    return call


# (thread, lines of Lua's frames, the innermost first); a new greenlet begins with none.
_log: contextvars.ContextVar = contextvars.ContextVar("log", default=(0, ()))


def _logged():
    thread, lines = _log.get()
    return lines if thread == threading.get_ident() else ()


def by_lua(name, which=0):
    """Through the function NAME of the text above, in one of this thread's two runtimes."""

    def way(inner):
        def call_lua():
            outside = _logged()

            def come_back(*lines):
                before = _log.set((threading.get_ident(), lines + outside))
                try:
                    inner()
                finally:
                    _log.reset(before)

            lua(which)[name](come_back)

        return call_lua

    way.__name__ = f"by_lua_{name}"
    return way


def in_a_generator(inner):
    def generate():
        yield inner()

    def iterate():
        for _ in generate():
            pass

    return iterate


def in_a_context(inner):
    @contextlib.contextmanager
    def manage():
        yield

    def manage_it():
        with manage():
            inner()

    return manage_it


# ---- Other stacks --------------------------------------------------------------------------------


def result_of(function, *arguments):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def run(coroutine):
    """asyncio.run, in another thread if a loop runs in this one."""
    if asyncio._get_running_loop() is None:
        return asyncio.run(coroutine)
    return result_of(asyncio.run, coroutine)


def in_a_thread(inner):
    def start():
        kept = []

        def body():
            try:
                inner()
            except Exception as exc:
                kept.append(exc)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        raise kept[0]

    return start


def in_a_pool(inner):
    def submit():
        result_of(inner)

    return submit


def by_loop(main):
    """A way: MAIN, an asynchronous function, is run with INNER as a plain and as an asynchronous function."""

    def way(inner):
        async def leaf():
            await asyncio.sleep(0)
            inner()

        def run_it():
            run(main(inner, leaf))

        return run_it

    way.__name__ = main.__name__
    return way


@by_loop
async def to_thread(inner, leaf):
    await asyncio.to_thread(inner)


@by_loop
async def by_coroutine(inner, leaf):
    await leaf()


@by_loop
async def in_a_task(inner, leaf):
    await asyncio.create_task(leaf())


@by_loop
async def gathered(inner, leaf):
    await asyncio.gather(asyncio.sleep(0), leaf())


@by_loop
async def in_a_task_group(inner, leaf):
    async with asyncio.TaskGroup() as group:
        group.create_task(leaf())


@by_loop
async def by_a_future(inner, leaf):
    future = asyncio.get_running_loop().create_future()
    try:
        inner()
    except Exception as exc:
        future.set_exception(exc)
    await waiting_for(future)


async def waiting_for(future):
    return await future


def in_a_greenlet(inner):
    def switch():
        greenlet.greenlet(inner).switch()

    return switch


def in_a_greenlet_again(inner):
    def body():
        greenlet.getcurrent().parent.switch()
        inner()

    def switch_twice():
        other = greenlet.greenlet(body)
        other.switch()
        other.switch()

    return switch_twice


def in_a_callback(inner):
    def sort():
        kept = []

        def compare(a, b):
            try:
                inner()
            except Exception as exc:
                kept.append(exc)
            return 0

        _c.qsort((ctypes.c_int * 2)(2, 1), 2, 4, _compare(compare))
        if kept:
            raise kept[-1]

    return sort


# ---- Raised again --------------------------------------------------------------------------------


def returned(inner):
    def attempt():
        try:
            inner()
        except Exception as exc:
            return exc

    def settle(exc):
        raise exc

    def attempt_and_settle():
        exc = attempt()
        settle(exc)

    return attempt_and_settle


def in_the_same_frame(inner):
    def catch_and_raise():
        kept = None
        try:
            inner()
        except Exception as exc:
            kept = exc
        raise kept

    return catch_and_raise


def in_the_handler(inner):
    def handle(exc):
        raise exc

    def catch():
        try:
            inner()
        except Exception as exc:
            handle(exc)

    return catch


def bare(inner):
    def catch():
        try:
            inner()
        except Exception:
            raise
        finally:
            str()

    return catch


def looked_at(inner):
    """A report in between may not be the last word."""

    def catch():
        try:
            inner()
        except Exception as exc:
            stacksplice.format_exception(exc)
            raise

    return catch


def thrown(inner):
    def wait():
        yield

    def throw():
        waiting = wait()
        next(waiting)
        try:
            inner()
        except Exception as exc:
            waiting.throw(exc)

    return throw


def without_its_traceback(inner):
    def catch():
        try:
            inner()
        except Exception as exc:
            raise exc.with_traceback(None)

    return catch


def as_a_cause(inner):
    def wrap():
        try:
            inner()
        except Exception as exc:
            raise RuntimeError("wrapped") from exc

    return wrap


def as_a_context(inner):
    def fail_again():
        try:
            inner()
        except Exception:
            raise RuntimeError("while handling")

    return fail_again


def as_a_member(inner):
    def group():
        try:
            inner()
        except Exception as exc:
            raise ExceptionGroup("group", [exc, ValueError("never raised")])

    return group


_PASSING = ["plain", "kept", "wrapped", "resumed", "sorted"]
_MORE = ["indexed", "added", "replaced", "iterated", "tailed", "twice", "failed", "paused"]
CALLS = [called, *map(by_lua, _PASSING), in_a_generator, in_a_context]
OF_LUA = [by_lua(name, which) for name in [*_PASSING, *_MORE] for which in (0, 1)]
THREADS = [in_a_thread, in_a_pool, to_thread]
TASKS = [by_coroutine, in_a_task, gathered, in_a_task_group, by_a_future]
GREENLETS = [in_a_greenlet, in_a_greenlet_again]
STACKS = [*THREADS, *TASKS, *GREENLETS, in_a_callback]
AGAIN = [returned, in_the_same_frame, in_the_handler, bare, looked_at, thrown, without_its_traceback]
OTHERS = [as_a_cause, as_a_context, as_a_member]
WAYS = [*CALLS, *STACKS, *AGAIN, *OTHERS]


def program(leaf, ways):
    """LEAF behind WAYS, the innermost first."""
    call = leaf
    for way in ways:
        call = way(call)
    return call


def caught(call) -> Exception:
    try:
        call()
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


# ---- The comparison ------------------------------------------------------------------------------

_LINE = re.compile(r'[ |]*File "([^"]+\.py)", line (\d+), in (\S+)')


def _in_order(wanted, given):
    """Those of WANTED that GIVEN lacks, or has in another order."""
    left = iter(given)
    return [one for one in wanted if one not in left]


def _places_of(text):
    return [match.groups() for match in map(_LINE.match, text.splitlines()) if match]


def _entries_of(exc):
    entries = traceback.extract_tb(exc.__traceback__)
    return [(f.filename, f.lineno, f.name) for f in entries if f.filename.endswith(".py")]


def _frames_of(stack):
    """Of a Stack or of the frames of JSON, the outermost first."""
    fields = [frame if isinstance(frame, dict) else frame.to_dict() for frame in stack]
    scripts = [f for f in fields if f.get("language") == "python" and f["kind"] == "script"]
    return [(f["file"], f["line"], f["function"].rpartition(".")[2]) for f in reversed(scripts)]


def lua_lines(exc) -> tuple[int, ...]:
    """Lines of Lua in the traceback of EXC, the innermost first."""
    entries = traceback.extract_tb(exc.__traceback__)
    return tuple(f.lineno for f in reversed(entries) if f.filename in ("ways.lua", "<ways.lua>"))


def _behind(exc):
    if exc.__cause__ is not None:
        return exc.__cause__
    return None if exc.__suppress_context__ else exc.__context__


def tree_of(exc):
    """EXC, what led to it, and members of groups, each once."""
    found = [exc]
    for one in found:  # which grows during the loop
        inner = [*getattr(one, "exceptions", ()), _behind(one)]
        found += [other for other in inner if other is not None and all(other is not f for f in found)]
    return found


def _unfolded(text: str) -> str:
    """TEXT with each round of a cycle."""
    frames = [""]
    for line in text.splitlines(keepends=True):
        again = re.match(r"[ |]*\[Previous (?:line|(\d+) frames) repeated (\d+) more times?\]", line)
        if again:
            frames += frames[-int(again[1] or 1) :] * int(again[2])
        elif re.match(r'[ |]+(?:File "|\(\w+\) |\[|\.\.\. )', line):
            frames.append(line)
        else:
            frames[-1] += line
    return "".join(frames)


# What text folds; the data have it.
_RUNNERS = re.compile(r"/(?:asyncio|concurrent/futures)/|/threading\.py$")


def missing(exc) -> dict[str, list]:
    """What Python's own traceback has and the reports of EXC have not, by reader."""
    text = _unfolded("".join(stacksplice.format_exception(exc)))
    places = _places_of(_unfolded("".join(traceback.format_exception(exc))))
    shown = [place for place in places if not _RUNNERS.search(place[0])]
    lost = {"text": _in_order(shown, _places_of(text))}
    for one in tree_of(exc):
        info = stacksplice.error_info(one)
        if info is not None:
            name = f"{type(one).__name__}({one})"
            lost[f"stack of {name}"] = _in_order(_entries_of(one), _frames_of(info.stack))
            lost[f"JSON of {name}"] = _in_order(_entries_of(one), _frames_of(info.to_dict()["stack"]))
    return {reader: lines for reader, lines in lost.items() if lines}
