"""lupa and install(): whole reports with no line of code for it, and lupa as it was."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import lupa_runtimes
import pytest
import stacksplice
from building import PACKAGE, ran
from lupa_runtimes import VERSIONS, entries, runtime_of
from lupa_truth import CASES, check_report
from raising import caught

lua = lupa_runtimes.lua
# ---- Whole programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("is_run", [True, False], ids=["run", "install()"])
def test_the_whole_stack_is_shown(name: str, case: str, is_run: bool, tmp_path) -> None:
    """By the command run, or by install() before anything of lupa is imported."""
    check_report(sys.executable, tmp_path, is_run, name, case, PYTHONPATH=str(PACKAGE.parent))


# ---- Exceptions ----------------------------------------------------------------------------------


def test_an_exception_through_two_runtimes_has_each_line_once(lua) -> None:
    inner = runtime_of(lua)
    outer = lua.LuaRuntime()

    def between():
        return inner.globals().price("XXX")

    outer.globals().between = between
    outer.execute("function first() local x = between() return x end", name="@first")
    exc = caught(outer.globals().first)
    assert entries(exc) == ["caught", "first", "between", "price"]
    names = [frame.function for frame in stacksplice.error_info(exc).stack if frame.kind == "script"]
    assert [name for name in names if name in ("first", "price")] == ["price", "first"]


def test_an_error_of_lua_is_tied_to_its_exception(lua) -> None:
    exc = caught(runtime_of(lua).globals().fails)
    info = stacksplice.error_info(exc)
    assert type(exc) is lua.LuaError and info is not None
    assert info.message == "rules:7: no price"
    assert entries(exc) == ["caught", "fails"]
    last = stacksplice.format_exception(exc)[-1]
    assert last == f"{type(exc).__module__}.LuaError: rules:7: no price\n"


def test_an_exception_that_lua_catches_is_itself(lua) -> None:
    runtime = runtime_of(lua)
    mine = ValueError("mine")

    def fail():
        raise mine

    runtime.globals().fail = fail
    found = runtime.execute("local ok, e = pcall(fail) return e")
    assert found is mine
    assert caught(runtime.execute, "fail()") is mine


def test_an_exception_that_came_out_of_a_coroutine_and_is_raised_elsewhere(lua) -> None:
    runtime = runtime_of(lua)
    runtime.execute(
        """
        function first() local ok, e = pcall(coroutine.wrap(function() price("XXX") end)) kept = e end
        function second() error(kept) end
        """,
        name="@twice",
    )
    runtime.globals().first()
    exc = caught(runtime.globals().second)
    assert type(exc) is KeyError
    assert entries(exc) == ["caught", "second", "<frames missing>"], entries(exc)


def test_notes_pass_lua(lua) -> None:
    runtime, exc = runtime_of(lua), KeyError("XXX")
    exc.add_note("while pricing")

    def rate(currency):
        raise exc

    runtime.globals().rate = rate
    assert caught(runtime.globals().price, "XXX") is exc
    exc.add_note("on Friday")
    assert stacksplice.error_info(exc).notes == ["while pricing", "on Friday"]
    assert stacksplice.format_exception(exc)[-2:] == ["while pricing\n", "on Friday\n"]


# ---- Stacks at the raise -------------------------------------------------------------------------

at_the_raise = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="stacks are taken at the raise from CPython 3.12 on"
)


def fail_nested():
    """Raise where C code called Python."""

    def fail(_):
        raise ValueError("nested")

    sorted([1], key=fail)


@at_the_raise
def test_stacks_below_lua_are_taken_at_the_raise(lua) -> None:
    runtime = runtime_of(lua)
    runtime.globals().fail_nested = fail_nested
    info = stacksplice.error_info(caught(runtime.execute, "fail_nested()"))
    assert [frame.reason for frame in info.stack if frame.kind == "gap"] == []


NAMES = """
import importlib, sys
import stacksplice
stacksplice.install()
runtime = importlib.import_module("lupa." + sys.argv[1]).LuaRuntime()
def rate(currency):
    raise KeyError(currency)
runtime.globals().rate = rate
runtime.execute("function price(currency) local found = rate(currency) return found end")
try:
    runtime.globals().price("XXX")
except KeyError as exc:
    frames = [frame for frame in stacksplice.error_info(exc).stack if frame.language == "lua"]
    assert [frame.function for frame in frames if frame.file != "[C]"] == ["price"], frames
"""


@pytest.mark.parametrize("name", VERSIONS)
def test_functions_of_lua_have_their_names(name: str) -> None:
    """Already in a program's first error; the stack at the raise alone has none for this function."""
    ran(sys.executable, "-c", NAMES, name)


@at_the_raise
def test_nothing_is_watched_before_there_is_a_runtime() -> None:
    source = (
        "import stacksplice, sys; stacksplice.install(); m = sys.monitoring\n"
        "before = [m.get_tool(i) for i in range(6)]\n"
        "import lupa; assert [m.get_tool(i) for i in range(6)] == before == [None] * 6\n"
        "runtime = lupa.lua54.LuaRuntime() if hasattr(lupa, 'lua54') else lupa.LuaRuntime()\n"
        "assert 'stacksplice' in [m.get_tool(i) for i in range(6)]\n"
        "stacksplice.uninstall(); assert [m.get_tool(i) for i in range(6)] == before"
    )
    ran(sys.executable, "-c", source)


# ---- Runtimes ------------------------------------------------------------------------------------


def test_a_runtime_that_existed_before(lua) -> None:
    stacksplice.uninstall()
    runtime = runtime_of(lua)
    exc = caught(runtime.globals().price, "XXX")
    assert stacksplice.error_info(exc) is None and entries(exc) == ["caught"]
    stacksplice.install()
    assert entries(caught(runtime.globals().price, "XXX")) == ["caught", "price"]
    stacksplice.uninstall()
    assert entries(caught(runtime.globals().price, "XXX")) == ["caught"]


@contextlib.contextmanager
def inside_of_lua(lua) -> Iterator[tuple[object, list[threading.Thread]]]:
    """A runtime inside of which a thread is; at the end it and those of the list have ended."""
    stacksplice.uninstall()
    runtime, waiting = lua.LuaRuntime(), []
    inside, go_on = threading.Event(), threading.Event()
    function = runtime.eval("function(wait) wait() end")
    thread = threading.Thread(target=function, args=(lambda: (inside.set(), go_on.wait()),))
    thread.start()
    inside.wait()
    try:
        yield runtime, waiting
    finally:
        go_on.set()
        for each in [thread, *waiting]:
            each.join()


def test_install_does_not_wait_for_a_thread_that_runs_lua(lua) -> None:
    """It returns while the other thread is inside Lua, which is attached when that call ends."""
    with inside_of_lua(lua) as (runtime, waiting):
        stacksplice.install()
        stacksplice.install()
        waiting += [each for each in threading.enumerate() if "stacksplice" in each.name]
        assert len(waiting) == 1 and not stacksplice._stacksplice._lupa_attached(id(runtime))
    assert stacksplice._stacksplice._lupa_attached(id(runtime))
    assert stacksplice.detach(runtime)


def test_uninstall_ends_the_waiting_for_a_runtime(lua) -> None:
    with inside_of_lua(lua) as (runtime, waiting):
        stacksplice.install()
        waiting += [each for each in threading.enumerate() if "stacksplice" in each.name]
        stacksplice.uninstall()
    assert not stacksplice._stacksplice._lupa_attached(id(runtime))


def test_subclasses_and_sandboxes(lua) -> None:
    class Sandbox(lua.LuaRuntime):
        def __init__(self, **options):
            self.execute("tostring, coroutine, string = nil, nil, nil")

        def compile(self, *arguments):
            raise AssertionError("not ours to call")

    def refuse(*arguments):
        raise AttributeError("refused")

    runtime = runtime_of(type("Lua", (), {"LuaRuntime": Sandbox}), attribute_filter=refuse)
    assert type(runtime) is Sandbox
    exc = caught(runtime.globals().fails)
    assert stacksplice.error_info(exc) is not None


def test_a_runtime_without_debug_reports_as_before(lua) -> None:
    runtime = runtime_of(lua)
    runtime.execute("debug = nil")
    exc = caught(runtime.globals().fails)
    assert type(exc) is lua.LuaError and str(exc) == "rules:7: no price"
    assert type(caught(runtime.globals().price, "XXX")) is KeyError


def test_a_limit_of_memory_is_no_higher(lua) -> None:
    """What attaching allocated, and a collection would free, is not there in addition to the limit."""
    if lua.__name__ == "lupa.luajit20":
        pytest.skip("its memory cannot be limited")
    runtime = lua.LuaRuntime(max_memory=0)
    runtime.set_max_memory(10)
    with pytest.raises(lua.LuaMemoryError):
        runtime.compile("x = function() return 'not enough memory for this' end")


def test_what_is_no_runtime(lua) -> None:
    with pytest.raises(TypeError, match="LuaRuntime of lupa, not int"):
        stacksplice.attach(3)
    with pytest.raises(TypeError):
        stacksplice.detach(lua)


NOT_KNOWN = """
import importlib, sys
import stacksplice
module = importlib.import_module("lupa." + sys.argv[1])
module.LUA_VERSION = (5, 9)
stacksplice.install()
runtime, taken = module.LuaRuntime(), []
other = module.LuaRuntime()
runtime.globals().look = lambda: taken.append(stacksplice.capture())
runtime.execute("look()")
try:
    stacksplice.attach(runtime)
except ValueError as exc:
    assert str(exc).startswith("Lua 5.9 is not supported"), exc
else:
    raise AssertionError("it was attached")
stacksplice.doctor()
gaps = [frame.reason for frame in taken[0] if frame.kind == "gap"]
print(*gaps, sep="\\n")
"""


def test_a_lua_that_is_not_known() -> None:
    """Captured stacks name it, and so do doctor and one line when the first runtime is made."""
    name = VERSIONS[0]
    done = ran(sys.executable, "-c", NOT_KNOWN, name)
    why = f"lupa.{name} (Lua 5.9): Lua 5.9 is not supported: known are Lua 5.1 to 5.5 and LuaJIT"
    gap = f"Lua frames unknown: stacksplice does not read {why}"
    assert done.stdout.splitlines()[-1] == gap, done.stdout
    assert (
        f"unread   lupa's runtimes: 0 of 2 are attached\n         stacksplice does not read {why}\n"
        in done.stdout
    )
    assert "nothing is missing\n" not in done.stdout
    said = f"stacksplice: errors through lupa.{name} are shown without Lua: Lua 5.9 is not supported"
    assert done.stderr.count(said) == 1, done.stderr


CLOSED = """
import importlib, sys
import stacksplice
module = importlib.import_module("lupa." + sys.argv[1])
module.LUA_VERSION = (5, 9)
stacksplice.install()
sys.stderr.close()
print(module.LuaRuntime().eval("1"))
"""


@pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)
def test_a_lua_that_is_not_known_where_nothing_can_be_said(name: str) -> None:
    assert ran(sys.executable, "-c", CLOSED, name).stdout == "1\n"


UNREAD_ERROR = """
import importlib, sys
import stacksplice
module = importlib.import_module("lupa." + sys.argv[1])
module.LUA_VERSION = (5, 9)
stacksplice.install()
runtime = module.LuaRuntime()
runtime.globals().rate = lambda currency: {}[currency]
runtime.execute("local found = rate('XXX') return found")
"""


@at_the_raise
@pytest.mark.parametrize("name", lupa_runtimes.PARAMETERS)
def test_an_error_through_a_lua_that_is_not_known(name: str) -> None:
    shown = ran(sys.executable, "-c", UNREAD_ERROR, name, status=1).stderr.splitlines()
    gap = f"  [gap: Lua frames unknown: stacksplice does not read lupa.{name} ("
    assert [line.startswith(gap) for line in shown].count(True) == 1, shown
    assert shown[-1] == "KeyError: 'XXX'"
