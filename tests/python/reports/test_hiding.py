"""Frames of libraries: what a user has reports hide, and what is dim in colour."""

from __future__ import annotations

import json
import sys

import pytest
import stacksplice
from building import ran

APP = """
import sys
sys.path[:0] = {paths}
import acme, shop.middleware, stacksplice
def rule(value):
    raise ValueError(value)
def go():
    return acme.apply(rule, "bad")
def shown():
    try:
        shop.middleware.through(go)
    except ValueError as exc:
        return stacksplice.originate(exc)
"""
ACME = "def apply(f, value):\n    return _inner(f, value)\ndef _inner(f, value):\n    return f(value)\n"


@pytest.fixture
def run(tmp_path):
    """run(source, **environment): what a program prints beside a library and a package of its own."""
    library, own = tmp_path / "lib/python3.11/site-packages", tmp_path / "own/shop"
    library.mkdir(parents=True)
    own.mkdir(parents=True)
    (library / "acme.py").write_text(ACME)
    (own / "middleware.py").write_text("def through(f):\n    return f()\n")
    (own / "__init__.py").write_text("")
    app = APP.format(paths=[str(library), str(own.parent)])

    def run(source: str, **environment: object) -> str:
        (tmp_path / "app.py").write_text(app + source)
        return ran(sys.executable, "app.py", cwd=tmp_path, **{"NO_COLOR": "1", **environment}).stdout

    return run


PRINTS = "print(shown().format(newest_last=True))\n"


def test_a_library_and_a_module_of_ones_own(run):
    text = run(PRINTS)
    assert "hidden" not in text and text.count("File ") == 7
    text = run("stacksplice.hide('acme', module='shop.middleware')\n" + PRINTS)
    assert "\n  ... 2 frames of acme hidden\n" in text
    assert "\n  ... 1 frame of shop.middleware hidden\n" in text and text.count("File ") == 4
    assert "in rule" in text and "in go" in text and "in shown" in text


def test_a_part_of_a_path(run):
    text = run("stacksplice.hide(file='/own/sh*/')\n" + PRINTS)
    assert "\n  ... 1 frame of /own/sh*/ hidden\n" in text and text.count("File ") == 6


def test_from_now_on(run):
    """What was written before is not taken from a cache."""
    before, after = run(f"{PRINTS}print('--')\nstacksplice.hide('acme')\n{PRINTS}").split("--\n")
    assert "hidden" not in before and "... 2 frames of acme hidden" in after


def test_a_variable_of_the_environment(run, tmp_path):
    text = run(PRINTS, STACKSPLICE_HIDE=f":acme:{tmp_path}/own/:")
    assert "... 2 frames of acme hidden" in text
    assert f"... 1 frame of {tmp_path}/own/ hidden" in text


def test_a_saved_report(run, tmp_path):
    """Who reads it chooses; it has everything."""
    (tmp_path / "saved.json").write_text(run("print(shown().to_json())\n"))
    show = sys.executable, "-m", "stacksplice", "show", str(tmp_path / "saved.json")
    assert "hidden" not in ran(*show).stdout
    assert "... 2 frames of acme hidden" in ran(*show, STACKSPLICE_HIDE="acme").stdout
    frames = json.loads(run("stacksplice.hide('acme')\nprint(shown().to_json())\n"))["stack"]
    assert [frame.get("function") for frame in frames].count("_inner") == 1


def test_what_is_inside_of_the_users_frames_stays(run):
    text = run(
        "stacksplice.hide('acme')\n"
        "try: acme.apply(None, 1)\n"
        "except TypeError as exc: print(stacksplice.originate(exc).format(newest_last=True))\n"
    )
    assert "in apply" in text and "in _inner" in text and "hidden" not in text


@pytest.mark.parametrize("newest_last", [True, False])
def test_libraries_are_dim_in_colour(run, newest_last):
    text = run(f"print(shown().format(newest_last={newest_last}, color=True))\n")
    lines = text.splitlines()
    acme = [
        line for line in lines if "acme.py" in line or "_inner(f, value)" in line or "return f(value)" in line
    ]
    own = [line for line in lines if "app.py" in line or "middleware.py" in line]
    assert len(acme) == 4 and len(own) == 5
    assert all("\x1b[2m" in line and "\x1b[35m" not in line for line in acme)
    assert all("\x1b[2m" not in line and "\x1b[35m" in line for line in own)


def test_the_traceback_module_of_this_python_does_so_too(run):
    pytest.importorskip("lupa.lua54")
    text = run(
        "import lupa.lua54\nlua = lupa.lua54.LuaRuntime()\nstacksplice.attach(lua)\nown = rule\n"
        "lua.globals().rule = own\nlua.execute('function f(v) rule(v) return 1 end', name='@f.lua')\n"
        "rule = lua.globals().f\n"
        "try: shop.middleware.through(go)\n"
        "except ValueError as exc: stacksplice.print_exception(exc, file=sys.stdout)\n",
        FORCE_COLOR="1",
        NO_COLOR="",
    )
    lines = text.splitlines()
    assert any("(Lua)" in line for line in lines)
    assert all("\x1b[2m" in line and "\x1b[35m" not in line for line in lines if "acme.py" in line)
    assert all("\x1b[35m" in line and "\x1b[2m" not in line for line in lines if "app.py" in line)
    assert "acme.py" in text and "app.py" in text


def test_a_dump_hides_what_reports_hide(run, tmp_path):
    program = """
import asyncio, ctypes, os, subprocess, threading
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: the child may read this
ready, end = threading.Event(), threading.Event()
def waits(value):
    ready.set()
    end.wait(60)
async def main():
    await asyncio.sleep(0)
    acme.apply(waits, 1)
threading.Thread(target=lambda: asyncio.run(main()), name="rules", daemon=True).start()
ready.wait(60)
dump = [sys.executable, "-m", "stacksplice", "dump", str(os.getpid())]
for more, options in [({"STACKSPLICE_HIDE": "acme"}, []), ({}, ["--all-frames"])]:
    print(subprocess.run(dump + options, env={**os.environ, **more}, capture_output=True, text=True).stdout)
    print("----")
end.set()
"""
    brief, whole, _ = run(program).split("----\n")
    (thread,) = [part for part in brief.split("\n\n") if "in waits" in part]
    assert "    ... 2 frames of acme hidden\n" in thread and "of asyncio hidden\n" in thread
    assert "of threading hidden\n" in thread and "in waits" in thread and "in main" in thread
    assert "asyncio/runners.py" not in brief and "asyncio/runners.py" in whole and "hidden" not in whole


def test_bad_input():
    for wrong in [(1,), ("a", None), (b"a",)]:
        with pytest.raises(TypeError, match="a library must be str, not"):
            stacksplice.hide(*wrong)
    with pytest.raises(TypeError, match="needs a library, module= or file="):
        stacksplice.hide()
    with pytest.raises(TypeError, match="module must be str, not int"):
        stacksplice.hide(module=1)
    for wrong in [{"module": ""}, {"file": ""}, {"file": "a\0b"}, {"file": "x" * 1024}]:
        with pytest.raises(ValueError, match=r"must be a name|must have 1 to 1023 bytes"):
            stacksplice.hide(**wrong)
    with pytest.raises(ValueError, match="a library no '/'"):
        stacksplice.hide("a/b")
