"""Frames of Lua and of native code in __traceback__, between those of Python."""

from __future__ import annotations

import contextlib
import gc
import inspect
import linecache
import os
import pdb
import pickle
import re
import sys
import threading
import tokenize
import traceback
from io import StringIO

import pytest
import stacksplice
from foreign import E_FAIL, LUA_IN, LUA_OUT, entries, fail, foreign, here
from gap_reasons import RETURNED
from raising import caught
from stacksplice import winrt

# ---- What is shown ---------------------------------------------------------------------------------


def test_python_lua_python(price):
    exc = caught(price, fail)
    assert entries(exc) == [here("call_lua"), *LUA_OUT, *LUA_IN, here("fail")]
    text = "".join(traceback.format_exception(exc))
    assert '/pricing.lua", line 7, in ' in text and "price\n    local price = callback and py(" in text
    assert 'crossing.c", line' in text and "hr = stacksplice_lua_pcall(state, 1, 0);" in text
    assert "<gap" not in text  # that calls of C have ended is news to no traceback of Python
    assert RETURNED not in "".join(stacksplice.format_exception(exc))
    assert f"[gap: {RETURNED}]" in stacksplice.error_info(exc).format(all_frames=True)
    assert "^" not in text.partition("pricing.lua")[2].partition("test_foreign")[0]


def test_born_in_lua(fail_in_lua):
    exc = caught(fail_in_lua)
    assert isinstance(exc, stacksplice.HResultError)
    assert entries(exc) == [here("call_failing_lua"), *LUA_OUT]
    last = traceback.extract_tb(exc.__traceback__)[-1]
    assert (last.lineno, last.line) == (5, 'error("no count")')


def test_tail_calls_of_lua_are_a_gap(crossing):
    script = "local function fail() error('x') end local function tail() return fail() end tail()"
    gap = "Lua tail calls replaced the frames of the callers"
    exc = caught(crossing.run, script)
    names = [name for _, name in entries(exc)]
    assert entries(exc)[-2] == (f"<gap: {gap}>", "<frames missing>"), names
    assert [f.reason for f in stacksplice.error_info(exc).stack if f.kind == "gap"] == [gap]
    assert f"[gap: {gap}]" in "".join(stacksplice.format_exception(exc))


def test_born_in_c(border):
    exc = caught(border.fail, 0x80004005, "native")
    assert entries(exc) == [("border.c", "fail")]
    assert "stacksplice_originate(" in traceback.extract_tb(exc.__traceback__)[-1].line
    exc = caught(border.call, fail)
    assert entries(exc) == [("border.c", "call"), here("fail")]
    assert [f.reason for f in stacksplice.error_info(exc).stack if f.kind == "gap"] == [RETURNED]


def test_frames_that_a_script_has_lost_are_said(crossing):
    """A plain pcall of Lua's has ended frames that a traceback would show."""
    exc = caught(crossing.run, "local ok, e = pcall(error, 'lost') error(stacksplice.propagate(e), 0)")
    assert entries(exc) == [*LUA_OUT[:3], (f"<gap: {RETURNED}>", "<frames missing>")]


def test_no_entries_where_python_calls_c_without_a_border(border):
    assert entries(caught(border.call_plain, fail)) == [here("fail")]


def test_deep_recursion_is_cut_in_the_middle(crossing):
    exc = caught(crossing.run, "local p = require('pricing').deep(300) return p")
    names = [name for _, name in foreign(exc)]
    assert 90 < names.count("deep") + names.count("<frames missing>") <= 101
    gap = [entry[0] for entry in foreign(exc) if entry[0].startswith("<gap")]
    assert len(gap) == 1 and gap[0].endswith("frames omitted here: stack longer than the limit>")
    assert names[:3] == ["run", "run_in_lua", "main chunk"]
    assert traceback.extract_tb(exc.__traceback__)[-1].lineno == 12


def test_a_gap_of_which_a_part_was_passed(crossing, deep_recursion):
    """What a stack leaves out inside of the border is told by its exact number."""

    def down(n, levels):
        return down(n - 1, levels) if n else crossing.run(f"return require('pricing').deep({levels})")

    def left_out(levels):
        exc = caught(down, 700, levels)
        (gap,) = [
            int(re.match(r"<gap: (\d+) frames", name)[1])
            for name, _ in foreign(exc)
            if name.startswith("<gap")
        ]
        return gap

    assert left_out(3000) - left_out(1000) == 2000
    assert left_out(1000) - left_out(300) == 700


def test_an_error_of_another_thread():
    errors = []

    def originate_elsewhere():
        winrt.RoOriginateError(E_FAIL, "elsewhere")
        errors.append(stacksplice.take_error())

    thread = threading.Thread(target=originate_elsewhere)
    thread.start()
    thread.join()
    winrt.SetRestrictedErrorInfo(errors[0])
    exc = caught(stacksplice.raise_error, E_FAIL)
    assert foreign(exc)[0] == ("<gap: error came from another thread>", "<frames missing>")
    assert here("originate_elsewhere") == entries(exc)[-1]


def test_an_error_that_was_kept():
    def originate_first():
        winrt.RoOriginateError(E_FAIL, "kept")
        return stacksplice.take_error()

    def raise_later(error):
        winrt.SetRestrictedErrorInfo(error)
        stacksplice.raise_error(E_FAIL)

    exc = caught(raise_later, originate_first())
    gap = ("<gap: unknown frames in between>", "<frames missing>")
    assert entries(exc)[:2] == [here("raise_later"), gap]


def test_causes_and_members_have_theirs(border):
    def first():
        winrt.RoOriginateError(E_FAIL, "first")

    def second():
        winrt.RoTransformError(E_FAIL, -2147024891, "second")

    def both():
        first()
        second()
        stacksplice.raise_error(-2147024891)

    exc = caught(both)
    assert str(exc) == "second" and str(exc.__cause__) == "first"
    assert [frame.f_code.co_name for frame, _ in traceback.walk_tb(exc.__traceback__)][-1] == "second"
    cause = traceback.extract_tb(exc.__cause__.__traceback__)
    assert [entry.name for entry in cause] == ["first"]
    assert cause[0].line == 'winrt.RoOriginateError(E_FAIL, "first")'


# ---- Chunks ----------------------------------------------------------------------------------------


def test_chunks_are_no_files(crossing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("stdin", "chunk", "x.lua"):
        (tmp_path / name).write_text("a wrong line\n" * 9)
    for chunk, shown in [
        ("=stdin", "<stdin>"),
        ("=x.lua", "<x.lua>"),
        ("local a = 1", '[string "local a = 1"]'),
        ("@gone.lua", "<gone.lua>"),
        ("@x.lua", "x.lua"),
    ]:
        exc = caught(crossing.run, "return (assert(load(\"local x = error('in')\", ...)))()", chunk)
        last = traceback.extract_tb(exc.__traceback__)[-1]
        assert (last.filename, last.lineno) == (shown, 1)
        assert last.line == ("a wrong line" if chunk == "@x.lua" else "")
        assert "wrong" not in stacksplice.error_info(exc).format() or chunk == "@x.lua"


def test_ever_new_places_stay_bounded(crossing):
    def blocks(first, count):
        for i in range(first, first + count):
            try:
                crossing.run("local load, n = ... " + "\n" * (i % 50) + f"error('x{i}', 0)")
            except stacksplice.HResultError:
                pass
            chunk = f"@/gone/{i}.lua"
            try:
                crossing.run("return (assert(load(\"local x = error('in')\", ...)))()", chunk)
            except stacksplice.HResultError:
                pass
        gc.collect()
        return sys.getallocatedblocks()

    # The objects of up to 512 elements come and go: some 5,000 blocks.  One that stayed for each place would
    # be 12,000 more.
    counts = [blocks(2000 * number, 2000) for number in range(7)]
    assert max(counts) - min(counts[1:]) < 6000, counts


# ---- The switch ------------------------------------------------------------------------------------


def test_switched_off_and_on(price):
    assert stacksplice.foreign_frames() is True
    assert stacksplice.foreign_frames(False) is True
    assert stacksplice.foreign_frames() is False
    assert entries(caught(price, fail)) == [here("call_lua"), here("fail")]
    assert stacksplice.foreign_frames(True) is False
    assert foreign(caught(price, fail)) == [*LUA_OUT, *LUA_IN]
    with pytest.raises(TypeError, match="on must be bool or None, not int"):
        stacksplice.foreign_frames(1)
    with pytest.raises(TypeError):
        stacksplice.foreign_frames(True, True)


# ---- Tools -----------------------------------------------------------------------------------------


@pytest.fixture
def tracebacks(price, fail_in_lua, border):
    """Exceptions with a Lua frame, a C frame and one without a source."""
    return [caught(price, fail), caught(fail_in_lua), caught(border.call, fail)]


def test_frames_are_frames(tracebacks):
    for exc in tracebacks:
        for frame, line in traceback.walk_tb(exc.__traceback__):
            if frame.f_code.co_filename.endswith(".py"):
                continue
            assert type(frame) is type(sys._getframe()) and frame.f_back is None
            assert frame.f_lineno == line == frame.f_code.co_firstlineno
            assert frame.f_globals["__name__"] in ("lua", "native", "python")
            assert dict(frame.f_locals) == {} and frame.f_code.co_qualname == frame.f_code.co_name
            is_file = not frame.f_code.co_filename.startswith("<")
            assert ("__file__" in frame.f_globals) == is_file
            text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
            assert bool(text.strip()) == is_file
            assert all(place[2] is None for place in frame.f_code.co_positions())
            repr(frame), frame.f_code.co_consts, frame.f_trace


@pytest.mark.parametrize("kind", ["proc", "link", "link to a folder", "fifo", "device", "missing"])
def test_a_script_cannot_name_what_tools_would_read(crossing, tmp_path, monkeypatch, kind):
    """A chunk is called what its script likes; who prints a traceback opens what it is called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "link").symlink_to("/proc/self/environ")
    (tmp_path / "self").symlink_to("/proc/self")
    os.mkfifo(tmp_path / "fifo")
    names = {"proc": "/proc/self/environ", "link": "link", "link to a folder": f"{tmp_path}/self/environ"}
    name = {**names, "fifo": str(tmp_path / "fifo"), "device": "/dev/null"}.get(kind, "/no/such/file")
    exc = caught(crossing.run, f"local chunk = load('error({{}})', '@{name}') chunk() return 1")
    (shown,) = (f for f, _ in traceback.walk_tb(exc.__traceback__) if name in f.f_code.co_filename)
    assert shown.f_code.co_filename == f"<{name}>" and "__file__" not in shown.f_globals
    assert linecache.getlines(shown.f_code.co_filename, shown.f_globals) == []


def test_inspect(tracebacks):
    for exc in tracebacks:
        for info in inspect.getinnerframes(exc.__traceback__, 3):
            assert info.code_context is None or info.code_context[info.index].strip()
        entry = exc.__traceback__
        while entry:
            if entry.tb_frame.f_code.co_filename.endswith((".lua", ".c")):
                # It finds the end of a block by Python's rules, which other languages can break.
                with contextlib.suppress(tokenize.TokenError, SyntaxError):
                    lines, first = inspect.getsourcelines(entry)
                    assert first in (1, entry.tb_lineno) and lines  # 3.11 looks for a "def"
                assert inspect.findsource(entry)[0][entry.tb_lineno - 1].strip()
                assert inspect.getsourcefile(entry) in (None, entry.tb_frame.f_code.co_filename)
            inspect.getmodule(entry.tb_frame)
            inspect.getframeinfo(entry)
            entry = entry.tb_next


def test_traceback_module(tracebacks):
    for exc in tracebacks:
        made = traceback.TracebackException.from_exception(exc, capture_locals=True)
        assert len(list(made.format())) == len(made.stack) + 2
        if sys.version_info < (3, 13):  # since then a summary holds the code object
            assert pickle.loads(pickle.dumps(made.stack)) == made.stack
        traceback.clear_frames(exc.__traceback__)
        assert "".join(traceback.format_exception(exc))


def test_post_mortem(price, monkeypatch):
    exc = caught(price, fail)
    commands = StringIO("where\nup\nup\nup\nup\nlist\nlonglist\nargs\np __name__\nwhatis 1\ndown\nquit\n")
    output = StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=output)
    debugger.use_rawinput = False
    debugger.reset()
    debugger.interaction(None, exc.__traceback__)
    assert "pricing.lua(7)" in output.getvalue()
    assert "local price = callback and py(" in output.getvalue()
