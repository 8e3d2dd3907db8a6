"""What Lua raised and lupa has no text for, such as a table: its words are shown wherever Python prints."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import subprocess
import sys
import traceback

import pytest
import stacksplice
from building import environment
from raising import caught

lupa = pytest.importorskip("lupa.lua54")

CODE = """
function raises(value) error(value) end
function fields() return {code = 7, message = "no stock", password = "hunter2"} end
function raises_fields() error(fields()) end
function in_words(text) error(setmetatable({}, {__tostring = function() return text end})) end
function waits() coroutine.yield() error({code = 8}) end
"""
FIELDS = '{code = 7, message = "no stock", password = "[redacted: password]"}'


@pytest.fixture
def lua():
    runtime = lupa.LuaRuntime()
    stacksplice.attach(runtime)
    runtime.execute(CODE, name="@rules.lua")
    return runtime.globals()


def notes(exc):
    return getattr(exc, "__notes__", None)


def test_the_words_are_a_note_and_all_else_is_lupas(lua):
    exc = caught(lua.raises_fields)
    assert notes(exc) == [FIELDS]
    assert type(exc) is lupa.LuaError and exc.args == ("",) and str(exc) == ""
    shown = "".join(traceback.format_exception(exc))
    assert shown.endswith(f"\nlupa.lua54.LuaError\n{FIELDS}\n")
    assert notes(caught(lua.raises, True)) == ["true"]


@pytest.mark.parametrize("value", ["text", "", 5, 1.5, None])
def test_no_note_where_the_text_says_it(lua, value):
    assert notes(caught(lua.raises, value)) is None


def test_no_note_of_an_exception_of_python(lua):
    lua.fail = lambda: {}["x"]
    exc = caught(lambda: lua.raises_fields(lua.fail()))
    assert type(exc) is KeyError and notes(exc) is None


def test_a_coroutine_that_failed(lua):
    waits = lua.waits.coroutine()
    next(waits)
    assert notes(caught(next, waits)) == ["{code = 8}"]


def test_a_long_text_is_cut(lua):
    (note,) = notes(caught(lua.in_words, "größe " * 1000))
    assert note == ("größe " * 1000)[:1000] + "..."
    secret = "ghp_" + "a1B2" * 9
    (note,) = notes(caught(lua.in_words, "x " * 490 + secret + " x" * 300))
    assert "a1B2" not in note


def test_no_secret_that_the_program_names(lua):
    stacksplice.redaction(hook=lambda text, kind: text.replace("no stock", "[ours]"))
    try:
        exc = caught(lua.raises_fields)
    finally:
        stacksplice.redaction()
    assert "[ours]" in notes(exc)[0] and "no stock" not in notes(exc)[0]


def test_once_however_often_it_crosses(lua):
    lua.again = lua.raises_fields
    lua.through = lambda: lua.again()
    runtime = lupa.LuaRuntime()
    stacksplice.attach(runtime)
    runtime.globals().through = lua.through
    exc = caught(lambda: runtime.execute("through()"))
    assert notes(exc) == [FIELDS]


def test_our_reports_say_it_once(lua):
    exc = caught(lua.raises_fields)
    exc.add_note("of the program")
    info = stacksplice.error_info(exc)
    texts = [info.format(), "".join(stacksplice.format_exception(exc)), info.to_html()]
    assert [text.count("no stock") for text in texts] == [1, 1, info.to_html().count("no stock")]
    assert f"lupa.lua54.LuaError: {FIELDS}\nof the program\n" in texts[1]
    outer = caught(exec, "raise ValueError('outer') from exc", {"exc": exc})
    assert "".join(stacksplice.format_exception(outer)).count("no stock") == 1
    described = stacksplice.error_info(outer).to_dict()
    assert [each["notes"] for each in described["transformed"]] == [info.notes] == [["of the program"]]
    members = ExceptionGroup("members", [exc])
    assert "".join(stacksplice.format_exception(members)).count("no stock") == 1


def test_pickles_are_as_without(lua):
    exc = caught(lua.raises_fields)
    assert vars(pickle.loads(pickle.dumps(exc))) == {}
    exc.add_note("of the program")
    assert vars(pickle.loads(pickle.dumps(exc))) == {"__notes__": ["of the program"]}
    assert notes(exc) == [FIELDS, "of the program"]
    assert notes(copy.copy(exc)) == notes(copy.deepcopy(exc)) == [FIELDS, "of the program"]


def test_what_a_program_does_to_the_notes(lua):
    for change in (["only mine"], (), "a text", None):
        exc = caught(lua.raises_fields)
        exc.__notes__ = change
        assert "".join(stacksplice.format_exception(exc)).count("no stock") == 1
        assert vars(pickle.loads(pickle.dumps(exc))) == {"__notes__": change}
    exc = caught(lua.raises_fields)
    del exc.__notes__
    assert vars(pickle.loads(pickle.dumps(exc))) == {}


# ---- Tools of others ---------------------------------------------------------------------------------


def test_logging(lua):
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    record = logging.makeLogRecord({"msg": "quote failed"})
    exc = caught(lua.raises_fields)
    record.exc_info = (type(exc), exc, exc.__traceback__)
    handler.handle(record)
    assert written.getvalue().endswith(f"\nlupa.lua54.LuaError\n{FIELDS}\n")


def test_rich(lua):
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=200)
    exc = caught(lua.raises_fields)
    traceback_of = pytest.importorskip("rich.traceback").Traceback.from_exception
    console.print(traceback_of(type(exc), exc, exc.__traceback__))
    assert console.file.getvalue().count("no stock") == 1


def test_sentry_alone_and_with_us(lua):
    sdk = pytest.importorskip("sentry_sdk")
    import stacksplice.sentry

    exc = caught(lua.raises_fields)
    for integrations in ([], [stacksplice.sentry.StackspliceIntegration()]):
        events = []
        client = sdk.Client(
            "http://key@localhost/1",
            integrations=integrations,
            default_integrations=False,
            before_send=lambda event, hint, kept=events: kept.append(event),
        )
        with sdk.isolation_scope() as scope:
            scope.set_client(client)
            sdk.capture_exception(exc)
        (value,) = events[0]["exception"]["values"]
        assert (value["type"], value["value"].strip()) == ("LuaError", FIELDS)


PROGRAM = f"""
import lupa.lua54, stacksplice
stacksplice.install()
lua = lupa.lua54.LuaRuntime()
lua.execute({CODE!r}, name="@rules.lua")
def test_it(): lua.globals().raises_fields()
"""
SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "nocolor")
shell.push({"run": test_it})
shell.run_cell("run()")
"""


def output(*arguments, cwd=None):
    options = {"capture_output": True, "text": True, "env": environment(), "timeout": 120, "cwd": cwd}
    return subprocess.run([sys.executable, *arguments], check=False, **options).stdout


def test_ipython():
    pytest.importorskip("IPython")
    text = output("-c", PROGRAM + SHELL)
    assert text.count(FIELDS) == 1 and f"LuaError: \n{FIELDS}" in text


def test_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(PROGRAM)
    ours = "stacksplice.pytest_plugin"
    plain = output("-m", "pytest", "-p", f"no:{ours}", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert f"E   {FIELDS}\n" in plain.replace("E     ", "E   ").replace("E       ", "E   ")
    with_us = output("-m", "pytest", "-p", ours, "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert f"lupa.lua54.LuaError: {FIELDS}" in with_us
