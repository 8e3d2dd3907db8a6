"""Errors inside of sub-interpreters, between them, and of those that have gone."""

from __future__ import annotations

import sys

import pytest
from gap_reasons import RETURNED
from subinterpreters import CREATE, INTERPRETERS

BOTH_KINDS = pytest.mark.parametrize("isolated", [False, True], ids=["legacy", "own lock from 3.12"])

FAIL = """
import stacksplice
def fails():
    raise ValueError("of the other interpreter")
try:
    fails()
except ValueError as exc:
    exc.of_its_own = 1
    stacksplice.originate(exc)
"""


@pytest.fixture
def child(child):
    return child.behind(CREATE)


@BOTH_KINDS
def test_an_error_in_the_slot_outlives_its_interpreter(child, isolated):
    child(f"""
import stacksplice
made = create({isolated})
interpreters.run_string(made, {FAIL!r})
alive = stacksplice.peek_error()
assert alive.language_exception is None  # not of this interpreter
interpreters.destroy(made)
info = stacksplice.take_error()
assert info == alive and stacksplice.peek_error() is None
assert (info.language, info.type, info.message) == ("python", "ValueError", "of the other interpreter")
assert info.language_exception is None
assert [f.function for f in info.stack if f.kind == "script"][0] == "fails"
assert "of the other interpreter" in info.to_json()
""")


FRAMES = """
import stacksplice
def inside():
    return [(f.function, f.interpreter is None) for f in stacksplice.capture() if f.language == "python"]
found = inside()
whole = [("inside", False), ("<module>", False), ("run", True), ("outer", True), ("<module>", True)]
assert found == whole[:len(found) if HAS_OWN_LOCK else None] and len(found) > 1, found
for number in range(100):
    exc = ValueError(number)
    assert stacksplice.originate(exc).language_exception is exc
stacksplice.take_error()
"""


@BOTH_KINDS
def test_frames_of_both_are_in_one_stack(child, isolated):
    child(f"""
import stacksplice
made = create({isolated})
def outer():
    run(made, f"HAS_OWN_LOCK = {isolated and sys.version_info >= (3, 12)}" + {FRAMES!r})
outer()
interpreters.destroy(made)
""")


NESTED = """
import os, stacksplice
depth = @@
def level():
    if depth:
        run(create(False), os.environ["NESTED"].replace("@" "@", str(depth - 1)))
        return
    stack = stacksplice.capture()
    levels = [frame for frame in stack if frame.function == "level"]
    gaps = [(at, frame.reason) for at, frame in enumerate(stack) if frame.kind == "gap"]
    wanted = "Python frames missing: this stack has frames of more than 16 interpreters"
    print(len(levels), len([reason for _, reason in gaps if reason == wanted]), len(gaps))
    # It stands where frames are missing: none of Python are outside of it.
    assert not gaps or not [frame for frame in stack[gaps[0][0]:] if frame.kind == "script"]
level()
"""


@pytest.mark.any_python
@pytest.mark.parametrize("levels", [15, 16, 24])
def test_a_gap_stands_for_frames_of_too_many_on_one_stack(child, levels):
    # Of the sixteen the main interpreter is one.
    shown, gaps = (levels, 0) if levels < 16 else (16, 1)
    done = child(f"""
import os
os.environ["NESTED"] = {CREATE!r} + {NESTED!r}
run(create(False), os.environ["NESTED"].replace("@@", str({levels} - 1)))
""")
    assert done.stdout == f"{shown} {gaps} {gaps}\n"


# ---- Borders inside of them ------------------------------------------------------------------------

SHOWN = """
import os, sys, traceback
import stacksplice
def shown(exc):
    entries = [entry[0].f_code for entry in traceback.walk_tb(exc.__traceback__)]
    found = [(os.path.basename(code.co_filename), code.co_name.rpartition(".")[2]) for code in entries]
    return [("<string>" if file == "<script>" else file, name) for file, name in found]
"""

CROSS = (
    SHOWN
    + """
import border
def fails():
    raise ValueError("bad")
def crosses(function):
    border.call(function)
assert stacksplice.foreign_frames() is True  # also where another interpreter has switched them off
for switched_on in (True, False):
    stacksplice.foreign_frames(switched_on)
    try:
        crosses(fails)
    except ValueError as exc:
        native = [("border.c", "call")] if switched_on else []
        assert shown(exc)[1:] == [("<string>", "crosses"), *native, ("<string>", "fails")], shown(exc)
        assert not switched_on or "border_raise(stacksplice_python_originate())" in traceback.format_exc()
        stack = stacksplice.error_info(exc).stack
        assert {f.interpreter for f in stack if f.function == "fails"} == {NAME}, stack
        seen = exc
    else:
        raise AssertionError
assert stacksplice.peek_error() is None
try:
    border.fail(0x80070057, "native")
except stacksplice.HResultError as exc:
    assert str(exc) == "native" and isinstance(exc, ValueError)
    assert shown(exc)[1:] == [], shown(exc)
    stacksplice.foreign_frames(True)
    try:
        border.fail(0x80070057, "native")
    except ValueError as exc:
        assert shown(exc)[1:] == [("border.c", "fail")], shown(exc)
"""
)


@BOTH_KINDS
def test_a_border_is_crossed_inside_of_one(child, isolated):
    child(f"""
import border, stacksplice
stacksplice.foreign_frames(False)
for _ in range(3):  # one after the other in one process
    made = create({isolated})
    run(made, "NAME = 'interpreter %d'" % made + {CROSS!r})
    interpreters.destroy(made)
NAME = None
assert stacksplice.foreign_frames(True) is False
exec({CROSS!r})  # and ours is as it was
""")


def test_lua_is_crossed_inside_of_one(child, crossing_folder):
    inside = (
        SHOWN
        + """
import crossing
def fails(*_):
    raise ValueError("bad")
def crosses():
    return crossing.run(CHUNK, fails)
try:
    crosses()
except ValueError as exc:
    files = [file for file, _ in shown(exc)]
    lua = files.index("pricing.lua")
    assert "crossing.c" in files[:lua] and "crossing.c" in files[lua:], files
    assert shown(exc)[-1] == ("<string>", "fails") and shown(exc)[lua][1] == "price"
else:
    raise AssertionError
crossing.close()
"""
    )
    child(f"""
made = create(False)
chunk = "package.path = '{crossing_folder}/?.lua;' .. package.path " \
    "local p = require('pricing').price({{count = 3}}, (...)) return p"
run(made, f"import sys; sys.path.insert(0, {str(crossing_folder)!r}); CHUNK = {{chunk!r}}" + {inside!r})
interpreters.destroy(made)
""")


# ---- From one to another ---------------------------------------------------------------------------


@BOTH_KINDS
def test_an_exception_of_another_arrives_by_value(child, isolated):
    child(
        SHOWN
        + f"""
import border
made = create({isolated})
run(made, {FAIL!r})
try:
    peeked = stacksplice.peek_error()
    border.raise_error(peeked.hresult)
except stacksplice.HResultError as exc:
    assert str(exc) == "of the other interpreter" and isinstance(exc, ValueError)
    info = stacksplice.error_info(exc)
    assert info == peeked and info.language_exception is None and not hasattr(exc, "of_its_own")
    frames = [f for f in info.stack if f.kind == "script"]
    assert (frames[0].function, frames[0].interpreter) == ("fails", f"interpreter {{int(made)}}")
    assert shown(exc)[-1] == ("<string>", "fails"), shown(exc)
    assert not [file for file, _ in shown(exc) if file == "<gap: {RETURNED}>"]
    assert exc.__traceback__.tb_frame is sys._getframe()
    kept = exc
interpreters.destroy(made)
assert "fails" in "".join(traceback.format_exception(kept)) and info.language_exception is None
"""
    )


@BOTH_KINDS
def test_an_exception_comes_home_as_itself(child, isolated):
    passes_on = """
import border, stacksplice
try:
    border.raise_error(HRESULT)
except stacksplice.HResultError as exc:
    assert str(exc) == "mine", exc
    border.originate(exc)
else:
    raise AssertionError
"""
    child(f"""
import border, stacksplice
mine = RuntimeError("mine")
hresult = border.originate(mine)
made = create({isolated})
run(made, f"HRESULT = {{hresult}}" + {passes_on!r})
try:
    border.raise_error(hresult)
except RuntimeError as exc:
    assert exc is mine
else:
    raise AssertionError
assert len(stacksplice.error_info(mine).propagation) == 2  # there and here
assert stacksplice.peek_error() is None
interpreters.destroy(made)
""")


def test_a_pickled_one_says_where_it_was(child):
    done = child.behind(INTERPRETERS)("""
reading, writing = os.pipe()
number = run(f'''
import os, pickle, stacksplice
def inside():
    raise KeyError("of the other one")
try:
    inside()
except KeyError as exc:
    stacksplice.originate(exc)
    stacksplice.winrt.RoClearError()
    os.write({writing}, pickle.dumps(exc))
''')
exc = pickle.loads(os.read(reading, 1_000_000))
info = stacksplice.error_info(exc)
assert type(exc) is KeyError and kinds(info.stack)[0] == "inside"
assert info.process["id"] == os.getpid() and info.process["interpreter"] == int(number)
assert f" in interpreter {int(number)} of process {os.getpid()} " in info.format()
print("good")
""")
    assert done.stdout == "good\n"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor is new in 3.14")
def test_interpreter_pool_executor(child):
    done = child.behind(INTERPRETERS)("""
import concurrent.futures, os, process_jobs, stacksplice
with concurrent.futures.InterpreterPoolExecutor(1) as pool:
    exc = pool.submit(process_jobs.originates, "x").exception()
info = stacksplice.error_info(exc)
print(type(exc).__name__, info.message, info.stack[0].function, info.process["id"] == os.getpid())
assert info.process["interpreter"] > 0 and info.language_exception is exc
""")
    assert done.stdout == "ValueError x plain True\n"


# ---- The first import of a process ------------------------------------------------------------------

BEGINS = """
import os, sys
os.read(READ_END, 1)  # until all are here
import stacksplice
def innermost():
    return stacksplice.capture()
def through():
    return list(map(lambda _: innermost(), [0]))[0]
for _ in range(50):
    stack = through()
    found = [frame.function for frame in stack if frame.kind == "script"]
    assert found[:4] == ["innermost", "through.<locals>.<lambda>", "through", "<module>"], found
    assert not [frame.reason for frame in stack if frame.kind == "gap"], stack
"""


def test_the_first_import_in_many_at_once(child):
    """With locks of their own, they examine the interpreter at the same time."""
    child(f"""
import os
assert "stacksplice" not in sys.modules
READ_END, write_end = os.pipe()
made = [create(True) for _ in range(6)]
wrong = []
def work(number):
    try:
        run(number, f"READ_END = {{READ_END}}" + {BEGINS!r})
    except BaseException as exc:
        wrong.append(exc)
threads = [threading.Thread(target=work, args=(number,)) for number in made]
for thread in threads:
    thread.start()
os.write(write_end, b"x" * len(made))
for thread in threads:
    thread.join()
assert not wrong, wrong
for number in made:
    interpreters.destroy(number)
""")
