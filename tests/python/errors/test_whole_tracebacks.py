"""What Python's own traceback of an error has is in its stack, or counted there, however it came to be."""

from __future__ import annotations

import ast
import random
import sys
import sysconfig
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import stacksplice
from building import HERE, compile_c, ran
from gap_reasons import KEPT, RETURNED
from raising import caught, reasons, report

TOO_LONG = "what the error passed later is not known: its traceback is too long"
ASIDE = "  ... frames of other languages are in error_info(exc).stack: not all of these entries are in it\n"
DEEPEST = 6000


@pytest.fixture(autouse=True)
def deep() -> Iterator[None]:
    recursion, size = sys.getrecursionlimit(), threading.stack_size(256 << 20)
    sys.setrecursionlimit(40_000)
    yield
    sys.setrecursionlimit(recursion)
    threading.stack_size(size)
    stacksplice.set_max_frames(512)


# ---- Ways of an error ----------------------------------------------------------------------------


def down(depth: int, leaf: Callable[[], Any]) -> Any:
    return down(depth - 1, leaf) if depth else leaf()


def by_c(depth: int, leaf: Callable[[], Any]) -> Any:
    """Native frames between all calls."""
    return [*map(lambda _: by_c(depth - 1, leaf), (0,))] if depth else leaf()


def asks(depth: int, leaf: Callable[[], Any]) -> Any:
    """Of an executor."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(down, depth, leaf).result()


def keeps(depth: int, leaf: Callable[[], Any]) -> Any:
    """A future has the exception."""
    kept: Future[Any] = Future()
    kept.set_exception(caught(down, depth, leaf))
    return kept.result()


def again(depth: int, leaf: Callable[[], Any]) -> Any:
    """In the function that caught it, at another line."""
    try:
        return down(depth, leaf)
    except Exception as exc:
        stored = exc
    raise stored


def reads(depth: int, leaf: Callable[[], Any]) -> Any:
    """Somebody looks at the error on its way."""
    try:
        return down(depth, leaf)
    except Exception as exc:
        assert stacksplice.originate(exc) is not None
        raise


def groups(depth: int, leaf: Callable[[], Any]) -> Any:
    """A member leaves its group."""
    try:
        raise ExceptionGroup("group", [caught(down, depth, leaf)])
    except ExceptionGroup as group:
        raise group.exceptions[0]


WAYS = (down, by_c, asks, keeps, again, reads, groups)


def fails() -> None:
    raise ValueError("x")


def originates() -> None:
    try:
        fails()
    except ValueError as exc:
        stacksplice.originate(exc)
        raise


def random_error(chosen: random.Random) -> BaseException:
    leaf: Callable[[], Any] = chosen.choice([fails, originates])
    left = chosen.choice([20, 300, 2500, DEEPEST])
    for _ in range(chosen.randint(1, 5)):
        way = chosen.choice(WAYS)
        depth = chosen.randint(0, min(left, 150 if way is by_c else left))
        left -= depth
        leaf = lambda way=way, depth=depth, leaf=leaf: way(depth, leaf)  # noqa: E731
    return caught(leaf)


# ---- The invariant -------------------------------------------------------------------------------


def lost(exc: BaseException, stack: stacksplice.Stack) -> Counter[Any]:
    own = Counter((f.filename, f.lineno, f.name) for f in traceback.extract_tb(exc.__traceback__))
    own.subtract(
        (f.file, f.line, (f.function or "").rpartition(".")[2]) for f in stack if f.language == "python"
    )
    return +own


@pytest.mark.parametrize("seed", range(24))
def test_every_entry_is_shown_or_counted(seed: int) -> None:
    chosen = random.Random(seed)
    stacksplice.set_max_frames(chosen.choice([64, 512, 512, 20_000]))
    exc = random_error(chosen)
    info = stacksplice.originate(exc)
    assert info is not None
    for _ in range(2):  # the second reader sees the same
        missing = lost(exc, info.stack)
        assert missing.total() <= info.stack.frames_left_out, missing.most_common(5)
        assert not info._handle.loses(exc)
        info = stacksplice.error_info(exc)
        assert info is not None
    assert ASIDE not in report(exc)


@pytest.mark.parametrize("depth", [100, 1500, 2500, DEEPEST])
def test_who_asked_is_in_every_report(depth: int) -> None:
    exc = caught(asks, depth, originates)
    info = stacksplice.error_info(exc)
    assert info is not None
    assert "asks" in [frame.function for frame in info.stack]
    seams = {"error came from another thread", KEPT} & {*reasons(info.stack)}  # the executor kept it
    assert len(seams) == 1
    for text in (report(exc), info.format()):
        assert "in asks" in text and any(seam in text for seam in seams)


CANNOT_BE_COMPARED = """
import sys, traceback, stacksplice
sys.setrecursionlimit(40_000)
stacksplice.set_max_frames(20_000)

def down(depth):
    if depth:
        down(depth - 1)
    raise ValueError("x")

def other(depth, exc):
    if depth:
        other(depth - 1, exc)
    raise exc

def caught(function, *arguments):
    try:
        function(*arguments)
    except ValueError as exc:
        return exc

exc = caught(down, 6000)
stacksplice.originate(exc)
exc.__traceback__ = None
assert caught(other, 6000, exc) is exc
for _ in range(3):
    stack = stacksplice.error_info(exc).stack
    print([frame.reason for frame in stack if frame.kind == "gap"][1:], stack[-1].kind)
plain = "".join(traceback.format_exception(exc))
*frames, title = stacksplice.format_exception(exc)
print(frames.pop(), end="")
assert "".join([*frames, title]) == plain
"""


def test_what_cannot_be_compared_is_said() -> None:
    """A program of its own: a runner of tests outside of the gap would be left out together with it."""
    *read, aside = ran(sys.executable, "-c", CANNOT_BE_COMPARED).stdout.splitlines(keepends=True)
    assert read == [f"['{TOO_LONG}'] gap\n"] * 3 and aside == ASIDE


# ---- Where what came later belongs ---------------------------------------------------------------


@pytest.mark.parametrize("calls, is_inside", [(50, True), (100, False)])
def test_what_is_behind_many_callers_stands_further_out(calls: int, is_inside: bool) -> None:
    """The innermost 64 callers of the frames that came later are looked for in the stack."""

    def shows() -> list[str]:
        try:
            raise stored
        except ValueError as exc:
            info = stacksplice.error_info(exc)
        assert info is not None
        return [f.function or f.reason for f in info.stack if f.kind != "native"]

    def far() -> list[str]:
        nonlocal stored
        stored = caught(originates)
        return down(calls, shows)

    stored: BaseException = ValueError()
    shown = far()
    functions = [name.rpartition(".")[2] for name in shown]
    assert shown[functions.index("shows") - 1] == KEPT
    assert (functions.index("shows") < functions.index("far")) is is_inside


# ---- Entries that C code made --------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / f"made_entry{sysconfig.get_config_var('EXT_SUFFIX')}"
    return compile_c(output, [HERE / "made_entry.c"], "-shared", "-fPIC").parent


MADE = """
import sys
sys.path.insert(0, sys.argv[1])
import made_entry, stacksplice
%s

def rate():
    raise KeyError("x")

def quote():
    return made_entry.call(rate)

def later():
    raise kept

try:
    quote()
except KeyError as exc:
    kept = exc
def shown():
    stack = [f for f in stacksplice.error_info(kept).stack if not f.glue and f.kind != "native"]
    return [f.function or f.reason for f in stack]
stacksplice.originate(kept)
print([name for name in shown() if name != "<module>"])
try:
    later()
except KeyError as exc:
    print([name for name in shown() if name != "<module>"])
    assert "call" in "".join(stacksplice.format_exception(exc))
"""


@pytest.mark.parametrize("install", ["", "stacksplice.install()"])
def test_a_frame_that_c_code_ran_for_its_entry_has_no_seam(made_entry: Path, install: str) -> None:
    first, second = ran(sys.executable, "-c", MADE % install, made_entry).stdout.splitlines()
    assert first == "['rate', 'call', 'quote']"
    assert second == f"['rate', 'call', 'quote', '{KEPT}', 'later']"


WITHOUT_UNWIND_DATA = ["-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"]
NO_DATA = "callers unknown: this code has no unwind data"
PASSED = """
import sys
sys.path.insert(0, sys.argv[1])
import made_entry, stacksplice

def rate():
    try:
        raise KeyError("x")
    except KeyError as exc:
        stacksplice.originate(exc)
        raise

def quote():
    return made_entry.call(rate)

try:
    made_entry.call(quote)
except KeyError as exc:
    "".join(stacksplice.format_exception(exc))
    stack = [f for f in stacksplice.error_info(exc).stack if f.kind != "native"]
    print([f.function or f.reason for f in stack])
"""


def test_code_without_unwind_data_between_stores_nothing(tmp_path: Path) -> None:
    output = tmp_path / f"made_entry{sysconfig.get_config_var('EXT_SUFFIX')}"
    compile_c(output, [HERE / "made_entry.c"], "-shared", "-fPIC", *WITHOUT_UNWIND_DATA)
    shown = ran(sys.executable, "-c", PASSED, tmp_path).stdout
    assert NO_DATA in shown and KEPT not in shown
    functions = [name for name in ast.literal_eval(shown) if name != NO_DATA]
    assert functions == ["rate", "quote", "<module>"]


MANY_MADE = """
import sys, traceback
sys.path.insert(0, sys.argv[1])
import lupa, made_entry, stacksplice
stacksplice.install()
stacksplice.set_max_frames(int(sys.argv[2]))

def rate():
    raise KeyError("x")

def quote(depth):
    return made_entry.call(lambda: quote(depth - 1) if depth else rate())

try:
    lupa.LuaRuntime().eval("function(f) local result = f() return result end")(lambda: quote(99))
except KeyError as exc:
    info, own = stacksplice.error_info(exc), traceback.extract_tb(exc.__traceback__)
script = [f for f in info.stack if f.kind == "script"]
own = [f for f in own if not f.filename.endswith(".pyx")]
print(sum(f.file == "made_entry.c" for f in script), len(own) - len(script) - info.frames_left_out)
"""


def test_no_number_of_entries_of_c_code_is_too_large(made_entry: Path) -> None:
    """Among frames of another language; they stay, or are counted with the frames that do not."""
    pytest.importorskip("lupa", reason="lupa is not installed")
    all_made, lost = ran(sys.executable, "-c", MANY_MADE, made_entry, 1200).stdout.split()
    assert all_made == "100" and int(lost) <= 0
    some, lost = ran(sys.executable, "-c", MANY_MADE, made_entry, 100).stdout.split()
    assert 0 < int(some) < 100 and int(lost) <= 0


# ---- A gap that reports hide ---------------------------------------------------------------------


def test_a_gap_that_reports_hide_says_so() -> None:
    info = stacksplice.originate(caught(fails))
    assert info is not None
    (gap,) = [frame for frame in info.stack if frame.reason == RETURNED]
    assert gap.kind == "gap" and gap.glue
    assert RETURNED not in info.format() and RETURNED not in str(info.stack)
    assert RETURNED in info.format(all_frames=True)


# ---- Errors that are made to be read ----------------------------------------------------------------


def raised_again_here(call):
    kept = None
    try:
        call()
    except Exception as exc:
        kept = exc
    raise kept


def lines_of(info):
    """Of raised_again_here(), from its first line on."""
    first = raised_again_here.__code__.co_firstlineno
    return [f.line - first for f in info.stack if f.function == "raised_again_here"]


def test_a_frame_raises_again_in_an_error_that_no_exception_keeps():
    """Only what is behind the exception crossed a border: its own error is made anew for each reader."""

    def crosses():
        exc = KeyError("crossed")
        stacksplice.originate(exc)
        stacksplice.take_error()
        raise exc

    def wraps():
        try:
            crosses()
        except KeyError as exc:
            raise ValueError("wrapped") from exc

    def outermost():
        try:
            raised_again_here(wraps)
        except ValueError as exc:
            raise RuntimeError("the last") from exc

    assert lines_of(stacksplice.error_info(caught(raised_again_here, wraps))) == [3, 6]
    assert lines_of(stacksplice.error_info(caught(outermost)).cause) == [3, 6]
