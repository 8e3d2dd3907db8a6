"""Random programs for as long as one likes: ``python tests/property/oracle.py SECONDS [SEED]``.

A program is a leaf behind up to ten ways (ways.py): threads, pools, tasks, futures, coroutines, greenlets,
lupa, ctypes, kept exceptions, libraries that are unloaded and files that are edited since.  Checked are

  * at the leaf: Python's frames of a capture against ``sys._getframe``, Lua's against the program's own log;
  * in reports: each line of Python's own traceback, in order, in every reader;
  * after ``dlclose``: the module of the frame that lay in the library;
  * source lines: none of a file that is not the one that ran.

A fault ends it with status 1; its words have the seed and the number of the program, which make it again.
"""

from __future__ import annotations

import _ctypes
import contextvars
import ctypes
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import stacksplice  # noqa: E402
import ways  # noqa: E402
from gap_reasons import OWN_STACK_ENDS  # noqa: E402

FOLDER = Path(tempfile.mkdtemp(prefix="stacksplice-oracle-"))

# ---- The program's own log of its calls of Lua ---------------------------------------------------

# (thread, lines of Lua's frames, the innermost first); a new greenlet begins with none.
_log: contextvars.ContextVar = contextvars.ContextVar("log", default=(0, ()))
_LINES = {"plain": (2,), "kept": (3,), "wrapped": (4, 4), "resumed": (6, 6), "sorted": (9, 9)}


def _logged():
    thread, lines = _log.get()
    return lines if thread == threading.get_ident() else ()


def by_lua(name):
    through = ways.by_lua(name)

    def way(inner):
        call = through(inner)

        def logged():
            before = _log.set((threading.get_ident(), _LINES[name] + _logged()))
            try:
                call()
            finally:
                _log.reset(before)

        return logged

    way.__name__ = f"by_lua_{name}"
    return way


# ---- At the leaf ---------------------------------------------------------------------------------

faults: list[str] = []


def _python_frames():
    frame, found = sys._getframe(1), []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def _compare(what, wanted, given):
    if list(wanted) != list(given):
        faults.append(f"{what}:\n  wanted {list(wanted)}\n  given  {list(given)}")


def _check_capture():
    stack, wanted = stacksplice.capture(), _python_frames()  # on one line
    # Outside of a greenlet stands only what Lua knows of its callers.
    ends = [place for place, f in enumerate(stack) if f.kind == "gap" and f.reason == OWN_STACK_ENDS]
    frames = [f for f in stack[: ends[0] if ends else None] if f.kind == "script"]
    python = [(f.file, f.line, f.function.rpartition(".")[2]) for f in frames if f.language == "python"]
    _compare("Python's frames of a capture", wanted, python)
    lua = [f.line for f in frames if f.language == "lua" and f.file == "ways.lua"]
    _compare("Lua's frames of a capture", _logged(), lua)


def checked(leaf):
    def check():
        _check_capture()
        leaf()

    check.__name__ = leaf.__name__
    return check


# ---- Libraries that are unloaded, files that are edited ------------------------------------------

_SOURCE = "int call_back(int (*f)(void)) { int r = f(); return r + 1; }\n"
_LIBRARY = FOLDER / "libunloaded_ways.so"
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int)


def build_library():
    (FOLDER / "call_back.c").write_text(_SOURCE)
    options = ["-shared", "-fPIC", "-O1", "-g0", "-fno-optimize-sibling-calls"]
    command = ["cc", *options, str(FOLDER / "call_back.c"), "-o", str(_LIBRARY)]
    subprocess.run(command, check=True)


def through_an_unloaded_library(inner):
    def call_and_unload():
        kept = []

        def callback():
            try:
                inner()
            except Exception as exc:
                stacksplice.originate(exc)
                stacksplice.take_error()
                kept.append((exc, _unloaded_frames(exc)))
            return 0

        library = ctypes.CDLL(str(_LIBRARY))
        function = _CALLBACK(callback)
        library.call_back(function)
        _ctypes.dlclose(library._handle)
        exc, before = kept[0]
        _compare("modules after dlclose", before, _unloaded_frames(exc))
        raise exc

    return call_and_unload


def _unloaded_frames(exc):
    stack = stacksplice.error_info(exc).stack
    return [(f.module, f.module_offset) for f in stack if f.module and f.module.endswith(_LIBRARY.name)]


_edited: list[tuple[Exception, str]] = []


def _check_sources():
    for exc, path in _edited:
        frames = stacksplice.error_info(exc).to_dict()["stack"]
        wrong = [f for f in frames if f.get("file") == path and "edited" in (f.get("source") or "")]
        _compare("lines that did not run", [], wrong)
    _edited.clear()


def in_an_edited_file(inner):
    def write_and_edit():
        path = FOLDER / f"edited_{threading.get_ident()}_{random.getrandbits(48):x}.py"
        path.write_text("def run(inner):\n    inner()  # as it ran\n")
        scope: dict = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        try:
            scope["run"](inner)
        except Exception as exc:
            if stacksplice.error_info(exc) is not None:  # later ones are younger than the file
                _edited.append((exc, str(path)))
            raise
        finally:
            time.sleep(0.02)  # a file's time is that of the kernel's last tick
            path.write_text("def run(inner):\n    another()  # edited since\n")

    return write_and_edit


LUA = [by_lua(name) for name in _LINES]
OTHERS = [w for w in ways.WAYS if not w.__name__.startswith("by_lua_")]
WAYS = [*OTHERS, *LUA * 3, through_an_unloaded_library, in_an_edited_file]


# ---- One program ---------------------------------------------------------------------------------


def check_program(random_numbers):
    """What is wrong with the reports of the next program, and its names."""
    leaf = random_numbers.choice(ways.LEAVES)
    chosen = random_numbers.choices(WAYS, k=random_numbers.randrange(1, 11))
    names = " < ".join(way.__name__ for way in (leaf, *chosen))
    faults.clear()
    exc = ways.caught(ways.program(checked(leaf), chosen))
    lost = ways.missing(exc)
    if lost:
        faults.append(f"lost: {lost}")
    _check_sources()
    report = "".join(stacksplice.format_exception(exc)) if faults else ""
    return [*faults, report] if faults else [], names


def main(seconds, seed):
    build_library()
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        wrong, names = check_program(random.Random(f"{seed}/{number}"))
        if wrong:
            print(f"seed {seed}, program {number}: {names}", *wrong, sep="\n")
            return 1
        number += 1
    print(f"{number} programs of seed {seed}: no fault")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else str(time.time_ns())))
