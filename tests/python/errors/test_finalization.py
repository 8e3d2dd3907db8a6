"""The interpreter ends with errors in flight: nothing crashes, and nothing is asked of it."""

from __future__ import annotations

import re

import pytest

HELD = {
    "in the slot": "border.originate(ValueError('last'))",
    "of C": "border.hold(ValueError('last'))",
    "in another thread's slot": """
import threading, time
ready = threading.Event()
def work():
    border.originate(ValueError('of a thread'))
    ready.set()
    time.sleep(1000)
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "pending": """
class Ends(ValueError):
    def __del__(self):
        border.originate(KeyError('from __del__'))
sys.keep = Ends()
border.originate(sys.keep)
""",
    "released afterwards": """
for _ in range(100):
    border.release_later(border.hold(ValueError('later')))
""",
    "with a cause and a group": """
exc = ExceptionGroup('all', [ValueError('one'), KeyError('two')])
exc.__cause__ = OSError(2, 'cause')
border.originate(exc)
sys.keep = stacksplice.peek_error()
""",
}


@pytest.mark.parametrize("where", HELD)
@pytest.mark.parametrize("end", ["", "sys.modules.clear()"], ids=["ends", "without modules"])
def test_an_error_in_flight_at_the_end(child, where, end):
    done = child(f"import sys, border, stacksplice\n{HELD[where]}\n{end}")
    assert done.stderr == ""


def test_what_an_error_held_ends_while_modules_are_there(child):
    done = child("""
import border, stacksplice
class Local:
    def __del__(self):
        import fractions  # not imported before
        print(fractions.Fraction(1, 2))
def fails():
    local = Local()
    raise ValueError("last")
try:
    fails()
except ValueError as exc:
    border.originate(exc)
""")
    assert (done.stdout, done.stderr) == ("1/2\n", "")


@pytest.mark.parametrize("where", HELD)
def test_a_fork_with_an_error_in_flight(child, where):
    done = child(
        f"import sys, os, warnings, border, stacksplice\nwarnings.simplefilter('ignore')\n{HELD[where]}\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    border.originate(ValueError('of the child'))\n"
        "    sys.exit(7 if stacksplice.take_error().message == 'of the child' else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert done.stdout == "7\n"


LATE = """
import sys, os, codecs, border, stacksplice
def fails(ValueError=ValueError):
    raise ValueError('of __del__')
class Late:
    def __call__(self, *_):
        pass
    calls = (border.fail, 0x80004005, 'of C'), (border.call, fails)
    def __del__(self, write=os.write, type=type, BaseException=BaseException): # builtins go, too
        for call, *arguments in self.calls:
            try:
                call(*arguments)
            except BaseException as exc:
                write(1, f'{type(exc).__name__}: {exc}\\n'.encode())
late = Late()
"""
# What is finalized later and later; the last two by the interpreter itself, after all modules.
KEPT = {
    "global": "",
    "of sys": "sys.keep = late; del late",
    "codec": "codecs.register(late); del late",
    "at fork": "os.register_at_fork(before=late); del late",
}


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("end", ["", "sys.modules.clear()"], ids=["ends", "without modules"])
def test_a_border_that_is_crossed_at_the_end_raises(child, where, end):
    """Never NULL without an exception, whatever of the interpreter and of ours is left."""
    done = child(f"{LATE}\n{KEPT[where]}\n{end}")
    assert done.stderr == ""
    told = done.stdout.splitlines()
    if where == "global":
        assert told == ["HResultError: of C", "ValueError: of __del__"]
    for line, whole in zip(told, ["HResultError: of C", "ValueError: of __del__"], strict=True):
        ended = (
            "SystemError: the interpreter (has been finalized|"
            "is shutting down; stacksplice is already closed in it)"
        )
        assert line == whole or re.fullmatch(ended, line)


# ---- In the hands of C++ and of Lua ----------------------------------------------------------------


FAILS = """
import sys
sys.path.insert(0, sys.argv[1])
def fails(*_):
    raise ValueError('of Python')
def caught():
    try:
        fails()
    except ValueError as exc:
        return exc
"""


@pytest.mark.parametrize("close", ["close_at_exit()", "objects()"], ids=["closed last", "never closed"])
@pytest.mark.parametrize("end", ["", "sys.modules.clear()"], ids=["ends", "without modules"])
def test_an_error_in_a_registry_of_lua_outlives_the_interpreter(child, crossing_folder, close, end):
    done = child(
        f"""{FAILS}
import crossing
crossing.run("local ok, e = pcall(py, ...) debug.getregistry().kept = e _G.kept = e", fails)
crossing.run("_G.wrapped = select(2, pcall(stacksplice.error, {{}}, kept))")
assert crossing.run("return kept.message") == "of Python"
crossing.{close}
{end}""",
        str(crossing_folder),
    )
    assert (done.stdout, done.stderr) == ("closed\n" if "exit" in close else "", "")


def test_a_registry_of_lua_that_is_closed_while_the_interpreter_ends(child, crossing_folder):
    done = child(
        f"""{FAILS}
import crossing, os
class Closes:
    def __del__(self, close=crossing.close, run=crossing.run, write=os.write):
        run("assert(kept.message == 'of Python')")
        close()
        write(1, b"closed")
crossing.run("_G.kept = select(2, pcall(py, ...))", fails)
sys.keep = Closes()  # the error keeps this module: its traceback has a frame of it
""",
        str(crossing_folder),
    )
    assert (done.stdout, done.stderr) == ("closed", "")


# ---- A release that must not wait ------------------------------------------------------------------


def test_a_release_beside_a_thread_that_keeps_the_lock(child):
    """It neither waits for the lock, which nobody lets go, nor drops the object without it."""
    done = child("""
import border, gc, stacksplice, weakref
gc.disable()
class Held(ValueError):
    pass
for _ in range(100):
    exc = Held("held")
    dead = weakref.ref(exc)
    number = border.hold(exc)
    del exc
    assert dead() is not None
    border.release_beside(number)
    stacksplice.peek_error()  # at our next entry at the latest it is dropped
    assert dead() is None
print("all")
""")
    assert (done.stdout, done.stderr) == ("all\n", "")
