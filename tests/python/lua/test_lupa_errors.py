"""Whose error a LuaError tells of: that of the call which failed, or of none."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from functools import partial
from pathlib import Path

import lupa_runtimes
import pytest
import stacksplice
from building import ran
from gap_reasons import KEPT
from lupa_runtimes import VERSIONS, entries
from racing import race
from raising import caught

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

lua = lupa_runtimes.lua

# Each function has another name, and all raise the same text.
SOURCE = """
local function handled_before() error("boom", 0) end
local function now() error("boom", 0) end
local function in_coroutine() error("boom", 0) end
local handle = debug.traceback
function handled() return xpcall(handled_before, handle) end
function both() xpcall(handled_before, handle) now() end
function fails() now() end
function generate() coroutine.yield(1) in_coroutine() end
function table_error() error({}) end
function handled_table() return xpcall(table_error, handle) end
function broken_text() error("\\255", 0) end
function hide_tracebacks() debug.traceback = function(text) return text end end
"""


def runtime_of(lua, **options):
    runtime = lua.LuaRuntime(**options)
    runtime.execute(SOURCE, name="@rules")
    return runtime


def functions_of(exc: BaseException) -> list[str] | None:
    """Lua's functions in the error of EXC; None if it has no error."""
    info = stacksplice.error_info(exc)
    if info is None:
        return None
    return [frame.function for frame in info.stack if frame.language == "lua" and frame.file == "rules"]


def started(runtime):
    coroutine = runtime.globals().generate.coroutine()
    next(coroutine)
    return coroutine


def errors_of(lua, *calls) -> list[Exception]:
    """Of those calls that raise one: it came to one place in Python."""
    exceptions = []
    for call in calls:
        try:
            call()
        except (lua.LuaError, UnicodeDecodeError) as exc:
            exceptions.append(exc)
    return exceptions


OWN = {
    "fails": ["now", "fails"],
    "both": ["now", "both"],
    "generate": ["in_coroutine", "function <rules:9>"],
}


@pytest.mark.parametrize("how", OWN)
@pytest.mark.parametrize("other", ["itself", "newer", "older"])
def test_not_one_that_was_handled(lua, how: str, other: str) -> None:
    """Of the same runtime, or of another one."""
    older, newer = runtime_of(lua), runtime_of(lua)
    runtime = older if other == "newer" else newer
    handler = {"itself": runtime, "newer": newer, "older": older}[other]
    fail = started(runtime).__next__ if how == "generate" else runtime.globals()[how]
    (exc,) = errors_of(lua, handler.globals().handled, fail)
    assert functions_of(exc) == OWN[how]
    assert entries(exc)[1:] == OWN[how][::-1]
    report = "".join(stacksplice.format_exception(exc))
    assert ", in handled_before" not in report and OWN[how][0] in report


@pytest.mark.parametrize("made_before", ["handled", "handled_table", "fails"])
@pytest.mark.parametrize("text", ["boom", ""])
def test_one_that_python_makes_has_none(lua, made_before: str, text: str) -> None:
    runtime = runtime_of(lua)

    def call(function, *arguments):
        try:
            function(*arguments)
        except lua.LuaError as exc:
            return exc

    def fail():
        raise lua.LuaError(text)

    call(runtime.globals()[made_before])
    assert functions_of(call(fail)) is None
    call(runtime.globals()[made_before])
    assert functions_of(lua.LuaError(text)) is None
    made = []
    for each in (runtime.globals()[made_before], lua.LuaError):  # one place in Python for both
        try:
            made.append(each(text))
        except lua.LuaError:
            pass
    assert functions_of(made[-1]) is None
    mine = lua.LuaError(text)

    def fail_with_mine():
        raise mine

    runtime.globals().fail = fail_with_mine
    assert caught(runtime.execute, "fail()") is mine
    assert functions_of(mine) == [], "Python's error, which has passed a chunk of another name"
    runtime.globals().make = lua.LuaError
    made_by_lua = runtime.execute("handled() handled_table() local made = make(...) return made", text)
    assert functions_of(made_by_lua) is None


def test_not_one_whose_text_python_could_not_read(lua) -> None:
    runtime = runtime_of(lua)
    exceptions = errors_of(lua, runtime.globals().broken_text, started(runtime).__next__)
    assert [type(exc) for exc in exceptions] == [UnicodeDecodeError, lua.LuaError]
    assert functions_of(exceptions[1]) == OWN["generate"]


def test_not_by_text_where_the_script_handles_its_errors_itself(lua) -> None:
    """The script put another function into debug.traceback: nobody asks for our text."""
    runtime = runtime_of(lua)
    runtime.globals().hide_tracebacks()
    assert str(caught(runtime.globals().fails)) == "boom"
    assert functions_of(caught(runtime.globals().fails)) is None


def test_not_that_of_another_runtime_whose_script_hides_its_own(lua) -> None:
    one, other = runtime_of(lua), runtime_of(lua)
    other.globals().hide_tracebacks()
    for handled, failing in (("handled", "fails"), ("handled_table", "table_error")):
        exceptions = errors_of(lua, one.globals()[handled], other.globals()[failing])
        assert [functions_of(exc) for exc in exceptions] == [None]


def test_errors_without_text_have_their_own_stack(lua) -> None:
    runtime, other = runtime_of(lua), runtime_of(lua)
    other.globals().handled_table()
    exc = caught(runtime.globals().table_error)
    assert str(exc) == "" and functions_of(exc) == ["table_error"]
    assert functions_of(caught(runtime.compile, "x(")) == []


# The second is that of 5.1 and LuaJIT.
NOTHING_TO_RESUME = ("cannot resume dead coroutine", "cannot resume non-suspended coroutine")


def test_a_dead_coroutine_does_not_fail_again(lua) -> None:
    coroutine = started(runtime_of(lua))
    assert functions_of(caught(next, coroutine)) == OWN["generate"]
    again = caught(next, coroutine)
    assert str(again) in NOTHING_TO_RESUME and functions_of(again) is None
    sent = caught(coroutine.send, 1)
    assert str(sent) in NOTHING_TO_RESUME and functions_of(sent) is None


def test_tenants_in_threads(lua) -> None:
    """Each has functions of its own names; all fail with the same text, at the same time."""
    wrong: list[object] = []

    def work(number: int) -> None:
        runtime = lua.LuaRuntime()
        runtime.execute(
            f"local function tenant_{number}() error('boom', 0) end\n"
            f"function run() tenant_{number}() end\n"
            f"function handled() return xpcall(function() error('boom', 0) end, debug.traceback) end",
            name="@rules",
        )
        for _ in range(50):
            runtime.globals().handled()
            found = functions_of(caught(runtime.globals().run))
            if found != [f"tenant_{number}", "run"]:
                wrong.append(found)

    race(work, [(number,) for number in range(6)])
    assert wrong == []


# ---- Coroutines that Python drives ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["next", "send"])
def test_a_python_error_in_a_coroutine_is_the_cause(lua, how: str) -> None:
    def number(text: str) -> int:
        return int(text)

    runtime = lua.LuaRuntime()
    runtime.globals().number = number
    runtime.execute("function body() coroutine.yield(1)\nnumber('Hello') end", name="@body")
    coroutine = runtime.globals().body.coroutine()
    next(coroutine)
    exc = caught(next, coroutine) if how == "next" else caught(coroutine.send, None)
    assert type(exc) is lua.LuaError and str(exc) == ""
    cause = exc.__cause__
    if "jit" in lua.__name__:
        assert cause is None  # LuaJIT clears the place from which lupa has taken it
        return
    assert type(cause) is ValueError
    stack = stacksplice.error_info(cause).stack
    shown = [frame for frame in stack if frame.kind == "script" and not frame.file.endswith((".pyx", "C]"))]
    names = [frame.function.rpartition("<locals>.")[2] for frame in shown[:3]]
    # A stack that was taken at the raise knows the coroutine's function by its global name.
    assert names in (["number", "function <body:1>", "caught"], ["number", "body", "caught"])
    assert entries(cause)[-2:] in (["function <body:1>", "number"], ["body", "number"])
    report = "".join(stacksplice.format_exception(exc))
    assert report.index("invalid literal for int()") < report.index("LuaError")


def test_an_exception_that_the_coroutine_caught_is_no_cause(lua) -> None:
    runtime = lua.LuaRuntime()
    runtime.globals().fail = lambda: 1 / 0
    for last in ("error({})", "error('text')"):
        coroutine = runtime.eval(f"function() pcall(fail) coroutine.yield(1) {last} end").coroutine()
        next(coroutine)
        exc = caught(next, coroutine)
        assert type(exc) is lua.LuaError and exc.__cause__ is None


# ---- Scripts with the library debug --------------------------------------------------------------

ATTACKS = """
import importlib, sys
import stacksplice
stacksplice.install()
begin = '''
local function upvalues(f)
  local all, i = {}, 1
  while true do
    local name, value = debug.getupvalue(f, i)
    if not name then return all end
    all[i], i = value, i + 1
  end
end
local ours = {debug.traceback, coroutine.wrap, coroutine.resume, coroutine.wrap(function() end)}
'''
attacks = [
    # Each upvalue of each of our functions becomes something else.
    '''local other = OTHER
    for _, f in ipairs(ours) do
      for i = 1, #upvalues(f) + 1 do debug.setupvalue(f, i, other) end
      pcall(f) pcall(f, "text") pcall(f, coroutine.create(print)) pcall(f, print)
    end error("x")''',
    # Each finalizer that can be found is called with something else, and twice with its own.
    '''local seen = {}
    local function visit(value)
      if seen[value] or value == nil then return end
      seen[value] = true
      local meta = debug.getmetatable(value)
      if type(meta) == "table" then
        local finalize = rawget(meta, "__gc")
        if finalize and type(value) == "userdata" and value ~= io.stdout then
          pcall(finalize, OTHER) pcall(finalize) pcall(finalize, value) pcall(finalize, value)
        end
        visit(meta)
      end
      if type(value) == "table" and value ~= seen then
        for k, v in next, value do
          if type(k) ~= "number" and type(k) ~= "string" then visit(k) end
          visit(v)
        end
      elseif type(value) == "function" then
        for _, v in pairs(upvalues(value)) do visit(v) end
      elseif type(value) == "userdata" and debug.getuservalue then
        for n = 1, 8 do
          local ok, found = pcall(debug.getuservalue, value, n)
          visit(ok and found or nil)
        end
      end
    end
    for _, f in ipairs(ours) do visit(f) end
    error("x")''',
    # The object of our own gets another metatable, and its metatable other functions.
    '''for _, f in ipairs(ours) do
      for _, value in pairs(upvalues(f)) do
        local meta = debug.getmetatable(value)
        if type(meta) == "table" then meta.__gc = print end
        if type(value) == "userdata" then debug.setmetatable(value, nil) end
      end
    end error("x")''',
]
others = ["nil", "42", "'text'", "{}", "io.stdout", "print", "coroutine.create(print)"]
for name in sys.argv[1:]:
    lua = importlib.import_module("lupa." + name)
    for attack in attacks:
        for other in others if "OTHER" in attack else [""]:
            runtime = lua.LuaRuntime()
            attack_now = begin + attack.replace("OTHER", other)
            for source in (attack_now, "error({})", "collectgarbage() error('y')"):
                try:
                    runtime.execute(source)
                except Exception:
                    pass
            runtime.globals().fail = lambda: 1 / 0
            try:
                runtime.execute("coroutine.wrap(function() fail() end)()")
            except Exception:
                pass
            del runtime
    sound = lua.LuaRuntime()
    try:
        sound.execute("local function sound() error('z') end sound()")
    except lua.LuaError as exc:
        assert "sound" in [frame.function for frame in stacksplice.error_info(exc).stack]
print("all survived")
"""


def test_no_script_ends_the_process_through_our_functions() -> None:
    assert ran(sys.executable, "-c", ATTACKS, *VERSIONS).stdout.endswith("all survived\n")


# ---- Lines of source ------------------------------------------------------------------------------


def lines_of(call) -> list[str]:
    """What the report of the error of CALL shows in and below Lua's frames."""
    lines = "".join(stacksplice.format_exception(caught(call))).splitlines()
    below = [number + 1 for number, line in enumerate(lines) if line.startswith("  (Lua) ")]
    return [lines[number].strip() for number in below if lines[number].startswith("    ")]


FAILS = "function fails()\n  local text = 'no'\n  error(text)\nend"


def test_a_chunk_by_lupas_own_name_shows_its_lines(lua) -> None:
    runtime = lua.LuaRuntime()
    runtime.execute(FAILS)
    runtime.execute("function calls(f)\n  return (f())\nend", name="=calls")
    assert lines_of(lambda: runtime.execute(b"error('no')")) == ["error('no')"]
    of_eval = runtime.eval("function(f)\n  f() -- ä\nend")
    of_compile = runtime.compile("-- one\nlocal f = ...\nf()\nreturn 1", "third")
    fails = runtime.globals().fails
    assert lines_of(fails) == ["error(text)"]
    assert lines_of(lambda: runtime.globals().calls(fails)) == ["return (f())", "error(text)"]
    assert lines_of(lambda: of_eval(fails)) == ["f() -- ä", "error(text)"]
    assert lines_of(lambda: of_compile(fails)) == ["f()", "error(text)"]
    assert lines_of(lambda: runtime.execute("error('no')")) == []  # of a function that was compiled, maybe


def test_no_line_is_shown_that_may_be_of_another_chunk(lua) -> None:
    runtime = lua.LuaRuntime()
    runtime.execute(FAILS)
    runtime.execute(FAILS.replace("fails", "other").replace("(text)", "(text, 2)"))
    assert lines_of(runtime.globals().fails) == lines_of(runtime.globals().other) == []
    runtime.execute(FAILS.replace("fails", "same"), name="chunk")
    runtime.execute(FAILS.replace("fails", "another"), name="chunk")
    assert lines_of(runtime.globals().same) == ["error(text)"]


@pytest.mark.parametrize("unknown", [b"\x1bLua", "\udcff\n" * 4, bytearray(b"--\n" * 4)])
def test_no_line_is_shown_where_a_text_is_not_known(lua, unknown) -> None:
    runtime = lua.LuaRuntime()
    runtime.execute(FAILS)
    with contextlib.suppress(lua.LuaError, UnicodeError):
        runtime.execute(unknown)
    assert lines_of(runtime.globals().fails) == []


def test_so_many_texts_are_kept(lua) -> None:
    runtime = lua.LuaRuntime()
    for number in range(300):
        assert runtime.eval(f"{number}\n") == number
    runtime.execute("\n" + FAILS)
    assert lines_of(runtime.globals().fails) == []
    other = lua.LuaRuntime()
    other.execute(FAILS)
    for number in range(300):
        assert other.eval(f"{number}") == number
    assert lines_of(other.globals().fails) == ["error(text)"]


def test_a_runtime_that_is_attached_late_has_unknown_chunks(lua) -> None:
    stacksplice.uninstall()
    runtime = lua.LuaRuntime()
    stacksplice.install()
    runtime.execute(FAILS)
    assert lines_of(runtime.globals().fails) == []


# ---- Wrong syntax ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["execute", "eval", "compile"])
def test_the_place_of_wrong_syntax_is_the_innermost_frame(lua, way: str) -> None:
    runtime = lua.LuaRuntime()
    exc = caught(lambda: getattr(runtime, way)("(1\n  + = 2)", name="=sum"))
    assert type(exc) is lua.LuaSyntaxError
    report = "".join(stacksplice.format_exception(exc))
    assert '  (Lua) File "sum", line 2\n    + = 2)\n      ^\n' in report
    assert ".pyx" not in report
    assert entries(exc)[-1] == "<chunk>"
    exc = caught(lambda: getattr(runtime, way)("(" + "x" * 600 + "\n = = 2)"))
    report = "".join(stacksplice.format_exception(exc))
    assert '  (Lua) File "[string "<python>"]", line 2\n    = = 2)\nlupa' in report  # which sign?


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_module_with_wrong_syntax_has_its_line(lua, short_folder: Path) -> None:
    """Lua's message cuts a long name of a file, but require() says it whole before, and dofile() has it."""
    runtime = lua.LuaRuntime()
    runtime.execute(f"package.path = '{short_folder}/?.lua'")
    files = [short_folder / "bad.lua", short_folder / ("long" * 20) / "bad.lua"]
    calls = [(file, partial(runtime.globals().dofile, str(file))) for file in files]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("local x = 1\nfunction price(a, b\n  return a * b\nend\n")
        name = str(file.relative_to(short_folder).with_suffix(""))
        calls.append((file, partial(runtime.require, name)))
    for file, call in calls:
        report = "".join(stacksplice.format_exception(caught(call)))
        assert f'  (Lua) File "{file}", line 3\n    return a * b\n    ^^^^^^\n' in report


@pytest.mark.parametrize("raise_it", ["assert(load(code))", "local f, why = load(code) error(why)"])
def test_a_string_with_wrong_syntax_has_its_line(lua, raise_it: str) -> None:
    """It is a variable of the function that had it compiled, among others."""
    runtime = lua.LuaRuntime()
    runtime.execute("load = loadstring or load")
    compile_it = runtime.eval(f"function(code, other) {raise_it} end")
    for code in ("local a = 1\nreturn a +* 2", "return 1 +* 2"):
        report = "".join(stacksplice.format_exception(caught(compile_it, code, "local a = 1\nno")))
        line = code.splitlines()[-1]
        assert f'File "[string "{code.splitlines()[0]}' in report
        assert f"\n    {line}\n    {line.index('*') * ' '}^\n" in report


def test_what_only_looks_like_wrong_syntax_has_no_place(lua) -> None:
    runtime = lua.LuaRuntime()
    exc = caught(lambda: runtime.execute("local a\nerror(\"',' expected near 'y'\")", name="=rules"))
    frames = [frame.function for frame in stacksplice.error_info(exc).stack if frame.file == "rules"]
    assert frames == ["main chunk"]
    made = lua.LuaSyntaxError("x.lua:1: ',' expected near 'y'")
    assert stacksplice.error_info(made) is None
    runtime.globals().make = lambda: stacksplice.detach(runtime) and lua.LuaSyntaxError("x:1: no near 'y'")
    assert runtime.eval("make()").args


def test_a_stack_that_was_cut_has_no_seam(lua):
    """What called the frames that only the traceback has is among those that were left out."""
    runtime = lua.LuaRuntime()
    runtime.execute("function ping() local result = pong() return result end")
    runtime.globals().pong = lambda: runtime.globals().ping()
    info = stacksplice.error_info(caught(runtime.globals().ping))
    assert info.frames_left_out
    assert KEPT not in [frame.reason for frame in info.stack]


# ---- Raised again ----------------------------------------------------------------------------------

AGAIN = """
function calls() fail()
  return 1 end
function catches()
  local ok, e = pcall(function()
    calls()
  end)
  RAISE
end
function outer() catches()
  return 1 end
"""
# A Python function that calls back knows the way by sys.monitoring, which older ones lack.
KNOWS_THE_WAY = sys.version_info >= (3, 12)


def rows_of(exc: BaseException) -> list[int | str]:
    """The lines that its traceback has of the chunk, outermost first; gaps, and Python's functions."""
    rows, entry = [], exc.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if code.co_filename.startswith("<gap"):
            rows.append(KEPT if KEPT in code.co_filename else code.co_filename)
        elif "again" in code.co_filename:
            rows.append(entry.tb_lineno)
        elif code.co_name == "fail":
            rows.append("fail")
        entry = entry.tb_next
    return rows


def again(lua, raise_it: str) -> BaseException:
    def fail() -> None:
        raise ValueError("from Python")

    runtime = lua.LuaRuntime()
    runtime.globals().fail = fail
    runtime.execute(AGAIN.replace("RAISE", raise_it), name="@again")
    return caught(runtime.globals().outer)


@pytest.mark.parametrize("raise_it", ["error(e, 0)", "error(e)", "assert(ok, e)", "return error(e, 0)"])
def test_an_exception_that_is_raised_again_has_both_lines(lua, raise_it: str) -> None:
    if "assert" in raise_it and not lua.__name__.endswith(("53", "54", "55")):
        return  # it raises texts alone
    if "return" in raise_it and "jit" in lua.__name__:
        return  # whose tail calls leave nothing
    exc = again(lua, raise_it)
    told: list[int | str] = []
    for frame in stacksplice.error_info(exc).stack:
        if frame.file == "again" or frame.reason == KEPT:
            told.insert(0, frame.line or KEPT)
    called = [5, 6, 2] if KNOWS_THE_WAY else []
    assert type(exc) is ValueError
    assert rows_of(exc) == [10, 8, *(called or [KEPT]), "fail"]
    assert told == [10, 8, KEPT, *called]


def test_one_that_is_raised_by_its_own_call_has_each_line_once(lua) -> None:
    for raise_it in ("calls()", "catches = nil return calls()", "fail()", "pcall(error, e) calls()"):
        exc = again(lua, "do end if true then " + raise_it + " end")
        assert KEPT not in [frame.reason for frame in stacksplice.error_info(exc).stack]
        assert len(rows_of(exc)) == len(set(rows_of(exc))) and "fail" in rows_of(exc)
