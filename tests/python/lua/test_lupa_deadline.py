"""deadline(..., interrupt=True) under lupa: how the Lua of a late block ends, and what goes on."""

from __future__ import annotations

import importlib
import json

import pytest
import stacksplice
from lupa_runtimes import PARAMETERS, VERSIONS

# Each program prints how its blocks ended, and ends itself if one does not.
BEGIN = """
import asyncio, faulthandler, importlib, sys, threading, time
import stacksplice

stacksplice.install()
lua = importlib.import_module("lupa." + sys.argv[1])
jit = "jit" in sys.argv[1]
faulthandler.dump_traceback_later(60, exit=True)

def runtime(**options):
    made = lua.LuaRuntime(**options)
    if jit:
        made.execute("jit.off() jit.flush()")
    made.globals().key = lambda: {}["key"]
    made.globals().again = lambda: made.globals().spin()
    made.execute("function spin() while true do end end", name="@spin.lua")
    return made

def ended(call, seconds=0.03, name="rules"):
    try:
        with stacksplice.deadline(seconds, name=name, interrupt=True):
            return call()
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"

def counts(made):
    made.execute("function count() local n = 0 for i = 1, 1e5 do n = n + 1 end return n, debug.gethook() end")
    return made.globals().count()
"""

UNTOLD = "LuaJIT does not tell which Lua functions run here"
LATE = "TimeoutError: rules did not finish within 0.03 s"

# What else LuaJIT lets go on is in docs/how-to/sandboxes-and-limits.md.
WAYS = {
    "plain": "spin()",
    "C functions": "while true do string.rep('x', 3) end",
    "pcall": "while true do pcall(spin) end",
    "pcall within pcall": "pcall(function() while true do pcall(spin) end end) spin()",
    "errors of Python": "while true do pcall(key) end",
    "Python between": "while true do pcall(again) end",
    "coroutine": "coroutine.wrap(function() coroutine.wrap(spin)() end)()",
    "coroutine from before": "local ended = coroutine.resume(before) while true do end",
    "new coroutines": "while true do pcall(coroutine.wrap(spin)) end",
    "load": "load(function() spin() end)",
    "load in a coroutine": "coroutine.wrap(function() load(function() spin() end) end)()",
    "error in a coroutine": "while true do pcall(coroutine.wrap(function() again() end)) end",
}
UNLESS_JIT = {
    "handler": "xpcall(spin, spin)",
    "handler at work": "xpcall(error, spin)",
    "traceback": "debug.traceback = spin again()",
    "hook again and again": "debug.sethook(function() spin() end, '', 1) spin()",
    "hook": "local on debug.sethook(function() if not on then on = true spin() end end, '', 1) spin()",
}
SINCE_52 = {
    "finalizer last": "setmetatable({}, {__gc = spin}) collectgarbage()",
    "finalizer in pcall": "pcall(function() setmetatable({}, {__gc = spin}) collectgarbage() end)",
}
SINCE_54 = {
    "close": "local c <close> = setmetatable({}, {__close = spin}) spin()",
    "finalizer": "local on = true\n"
    "setmetatable({}, {__gc = function() while on do end end}) collectgarbage() spin()",
}


@pytest.fixture(params=PARAMETERS)
def run(request, child, tmp_path):
    def run(source, *arguments):
        return child(BEGIN + source, request.param, *arguments, STACKSPLICE_REPORT_DIR=str(tmp_path)).stdout

    run.name = request.param
    return run


def test_lua_ends(run):
    ways = dict(WAYS)
    if "jit" not in run.name:
        ways |= UNLESS_JIT
    if "jit" not in run.name and run.name != "lua51":
        ways |= SINCE_52
    if run.name in ("lua54", "lua55"):
        ways |= SINCE_54
    printed = run(f"""
for name, source in {ways!r}.items():
    made = runtime()
    made.execute("before = coroutine.create(spin) function case() " + source + "\\n return 0 end")
    print(name, ended(made.globals().case), sep=": ")
    assert "hook" in name or counts(made) in [(100000, None), (100000, None, "", 0)], counts(made)
""")
    assert printed.splitlines() == [f"{name}: {LATE}" for name in ways]


def test_an_exception_that_was_caught_is_over(run):
    """Only one that nobody got is raised at the end of a call: by the block, or by the runtime's limit."""
    printed = run("""
made = runtime()
made.execute("function quick() return 'quick' end function fails() error('its own', 0) end")
def caught():
    try:
        made.globals().spin()
    except TimeoutError:
        print(made.globals().quick(), made.eval("1 + 1"))
    made.globals().fails()
print(ended(caught))
stacksplice.attach(made, limit=0.03)
for source in ("load(function() spin() end) return 'late'", "spin()", "return quick()", "fails()"):
    try:
        print(made.execute(source))
    except Exception as exc:
        print(type(exc).__name__, exc)
""")
    late = "TimeoutError this call of Lua did not finish within 0.03 s"
    own = ["LuaError: its own", "LuaError its own"]
    first, caught, *limited = [line for line in printed.splitlines() if line[:1] not in "\t s"]
    assert (first, caught) == ("quick 2", own[0])
    assert limited == [late, late, "quick", own[1]]


def test_what_python_runs(run):
    """Coroutines that Python resumes, and functions that a coroutine gave to Python."""
    printed = run("""
for call in (
    lambda made: next(made.globals().spin.coroutine()),
    lambda made: made.globals().spin.coroutine().send(None),
    lambda made: next(made.eval("function() while true do pcall(spin) end end").coroutine()),
    lambda made: next(made.eval("function() again() end").coroutine()),
    lambda made: made.globals().spin(),
    lambda made: made.execute("spin()"),
    lambda made: made.eval("setmetatable({}, {__index = spin})").field,
):
    print(ended(lambda: call(runtime())))
""")
    assert set(printed.splitlines()) == {LATE}


def test_the_exception_has_the_line_of_lua(run):
    printed = run("""
made = runtime()
try:
    with stacksplice.deadline(0.03, interrupt=True):
        made.execute("spin()", name="@outer.lua")
except TimeoutError as exc:
    print(exc, hex(stacksplice.error_info(exc).hresult & 0xFFFFFFFF))
    for frame in stacksplice.error_info(exc).stack:
        if frame.language == "lua" and frame.kind == "script":
            print(frame.file, frame.line)
""")
    assert printed.splitlines()[0] == "this block did not finish within 0.03 s 0x800705b4"
    assert printed.splitlines()[1:] == ["spin.lua 1", "outer.lua 1"] or "jit" in run.name


def test_the_report_has_the_names_of_strings_functions(run, tmp_path):
    """A signal handler cannot look for a global function, but the line that defines one has its name."""
    names = {
        "function settle(n) while true do end end": "settle",
        "first = 1 function settle(n) while true do end end": "function <",
        "function settle(n) local function inner() end while true do end end": "function <",
        "settle = function(n) while true do end end": "function <",
    }
    run(f"""
for number, defined in enumerate({list(names)!r}):
    made = runtime()
    made.execute(defined)
    ended(made.globals().settle, name=str(number))
""")
    reports = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    reports.sort(key=lambda report: report["header"]["deadline_name"])
    assert len(reports) == len(names)
    for report, name in zip(reports, names.values()):
        frames = report["error"]["stack"]
        found = [frame["function"] for frame in frames if frame["language"] == "lua" and "function" in frame]
        assert "jit" in run.name or found[0].startswith(name), found


def test_one_that_a_function_of_c_lost_has_the_lines_where_lua_was_late(run):
    printed = run("""
made = runtime()
made.execute("function late()\\n load(function()\\n spin() end)\\n return 'late' end", name="@late.lua")
stacksplice.attach(made, limit=0.03)
try:
    made.globals().late()
except TimeoutError as exc:
    entry, lines = exc.__traceback__, []
    while entry:
        lines += [entry.tb_lineno] * ("late.lua" in entry.tb_frame.f_code.co_filename)
        entry = entry.tb_next
    print([f.line for f in stacksplice.error_info(exc).stack if f.file == "late.lua"], lines)
""")
    # Other Luas raise it again at the next instruction.
    assert printed == ("[3, 2] [2, 3]\n" if "jit" in run.name else "[4] [4]\n")


def test_the_report_of_luajit_says_that_it_does_not_know(run, tmp_path):
    if "jit" not in run.name:
        return
    run("made = runtime()\nended(made.globals().spin)")
    (path,) = tmp_path.glob("*.json")
    stack = json.loads(path.read_text())["error"]["stack"]
    assert [frame["reason"] for frame in stack if frame["kind"] == "gap"] == [UNTOLD]
    reasons = [frame.get("reason") for frame in stack if frame["language"] in ("lua", "python")]
    assert reasons[0] == UNTOLD and None in reasons, stack


def test_what_is_not_late_goes_on(run):
    """Code after the block and around it, of other threads, and of other tasks."""
    printed = run("""
made, other = runtime(), runtime()
busy = "local stop = os.clock() + 0.3 while os.clock() < stop do end return 'done'"

print(ended(lambda: time.sleep(0.1)))
made.globals().inner = lambda: ended(made.globals().spin)
print(made.execute("local how = inner() for i = 1, 1e5 do end return how"))

thread = threading.Thread(target=lambda: print(other.execute(busy)))
thread.start()
print(ended(made.globals().spin))
thread.join()

async def waits():
    with stacksplice.deadline(0.03, interrupt=True):
        await asyncio.sleep(0.2)

async def works():
    return made.execute(busy)

async def both():
    print((await asyncio.gather(waits(), works()))[1])
    with stacksplice.deadline(0.03, name="rules", interrupt=True):
        await asyncio.gather(asyncio.create_task(spins()))

async def spins():
    made.globals().spin()

try:
    asyncio.run(both())
except TimeoutError as exc:
    print(exc)
""")
    assert printed.splitlines() == ["None", LATE, LATE, "done", "done", LATE.removeprefix("TimeoutError: ")]


def test_a_block_that_goes_on_is_interrupted_again(run):
    printed = run("""
made = runtime()
def goes_on():
    for _ in range(3):
        try:
            made.globals().spin()
        except TimeoutError:
            pass
    return "went on"
begun = time.monotonic()
print(ended(goes_on), 1 < time.monotonic() - begun < 10)
print(ended(lambda: [ended(made.globals().spin, name="inner"), made.globals().spin()], seconds=0.2))
""")
    assert printed.splitlines() == ["went on True", "TimeoutError: rules did not finish within 0.2 s"]


@pytest.mark.parametrize("name", [name for name in VERSIONS if "jit" not in name])
def test_memory_limits(child, tmp_path, name):
    """At its limit Lua has no memory for the exception: lupa's LuaMemoryError comes instead."""
    printed = child(
        BEGIN
        + """
for source in (
    "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "while true do pcall(function() while true do kept[#kept + 1] = 'x' .. #kept end end) end",
    "pcall(function() local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end end) spin()",
) * 3:
    made = runtime(max_memory=2_000_000)
    made.execute("kept = {}")
    how = ended(lambda: made.execute(source))
    made.set_max_memory(0)
    made.execute("kept = nil collectgarbage()")
    made.set_max_memory(2_000_000)
    print(how.partition(":")[0], counts(made)[0], made.get_max_memory())
""",
        name,
        STACKSPLICE_REPORT_DIR=str(tmp_path),
    ).stdout
    assert len(printed.splitlines()) == 9
    assert set(printed.splitlines()) <= {
        "TimeoutError 100000 2000000",
        "LuaMemoryError 100000 2000000",
    }


def test_arguments(child):
    printed = child("""
import stacksplice
try:
    with stacksplice.deadline(3600, interrupt=True):
        pass
except RuntimeError as exc:
    print(exc)
stacksplice.install()
with stacksplice.deadline(3600, interrupt=True) as outer, stacksplice.deadline(3600, interrupt=True):
    pass
""").stdout
    assert printed == (
        "interrupt=True ends Lua in attached runtimes, and there are none: "
        "call stacksplice.install() or stacksplice.attach() first\n"
    )


def test_limit(run):
    printed = run("""
made, other = lua.LuaRuntime(), lua.LuaRuntime()
for each in made, other:
    each.execute("function spin() while true do end end function busy() "
        "local stop = os.clock() + 0.3 while os.clock() < stop do end return 'done' end")
stacksplice.attach(made, limit=0.05)
stacksplice.attach(made)
made.globals().again = lambda: made.globals().spin()
def ended_by_limit(call):
    begun = time.monotonic()
    try:
        call()
    except TimeoutError as exc:
        print(exc, time.monotonic() - begun < 1)
ended_by_limit(made.globals().spin)
ended_by_limit(lambda: made.execute("spin()"))
ended_by_limit(lambda: made.eval("spin()"))
ended_by_limit(lambda: next(made.globals().spin.coroutine()))
ended_by_limit(lambda: made.execute("while true do pcall(again) end"))
print(made.eval("1 + 1"), other.globals().busy())
stacksplice.attach(made, limit=10)
print(made.globals().busy())
stacksplice.detach(made)
print(made.globals().busy())
""")
    late = "this call of Lua did not finish within 0.05 s True"
    assert printed.splitlines() == [late] * 5 + ["2 done", "done", "done"]


@pytest.mark.parametrize(
    "limit, message",
    [
        (True, "limit must be a number, not bool"),
        ("1", "limit must be a number, not str"),
        (0, "limit must be more than 0"),
        (-1, "limit must be between 0 and 4294967, not -1"),
        (float("nan"), "limit must be between 0 and 4294967, not nan"),
    ],
)
def test_wrong_limits(limit, message):
    runtime = importlib.import_module(f"lupa.{VERSIONS[-1]}").LuaRuntime()
    with pytest.raises((TypeError, ValueError), match=f"^{message}$"):
        stacksplice.attach(runtime, limit=limit)
