"""Tokens of Python frames are found by the address of an instruction: never that of other code."""

from __future__ import annotations

import sys
import threading

import pytest
import stacksplice

SOURCE = """
def {name}(capture):
{blank}    return capture()
"""


def make(number: int):
    """A function of its own name, file and line, and what its frame must be."""
    name, blank, file = f"short_{number}", "\n" * (number % 7), f"/tmp/orders_{number % 11}.py"
    space: dict[str, object] = {}
    exec(compile(SOURCE.format(name=name, blank=blank), file, "exec"), space)
    return space.pop(name), (file, name, 3 + number % 7)


def innermost(stack):
    frame = next(frame for frame in stack if frame.language == "python")
    return (frame.file, frame.function, frame.line)


class Churn:
    """Code objects that live for one capture; counts those whose address had been another's."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.reused = 0
        self.wrong: list[object] = []

    def run(self, number: int, look) -> None:
        function, expected = make(number)
        self.reused += id(function.__code__) in self.seen
        self.seen.add(id(function.__code__))
        for _ in range(2):  # the second time it is known
            found = look(function)
            if found != expected:
                self.wrong.append((found, expected))

    def assert_good(self, least_reused: int) -> None:
        assert not self.wrong, self.wrong[0]
        assert self.reused >= least_reused


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_short_lived_code(border, count):
    def live(function):
        return innermost(function(stacksplice.capture))

    def from_outside(function):
        return innermost(stacksplice.Stack(function(border.capture_both)[1]))

    def without_lock(function):
        return innermost(stacksplice.Stack(function(border.capture_both_without_lock)[1]))

    def passed(function):
        try:
            function(lambda: 1 // 0)
        except ZeroDivisionError as exc:
            error = exc
        stack = stacksplice.originate(error).stack
        frames = [frame for frame in stack if frame.trust == "traceback"]
        return (frames[1].file, frames[1].function, frames[1].line)

    churn = Churn()
    looks = [live, from_outside, without_lock, passed]
    for number in range(count):
        churn.run(number, looks[number % len(looks)])
    churn.assert_good(count // 2)


ASPECTS = {
    "file": "shop_{number}.py|one|def {name}(capture):\n    return capture()",
    "name": "shop.py|one_{number}|def {name}(capture):\n    return capture()",
    "first line": "shop.py|one|{lines}def {name}(capture):\n    return capture()",
    "line": "shop.py|one|def {name}(capture):\n{lines}    return capture()",
    "column": "shop.py|one|def {name}(capture):\n    return {spaces}capture()",
}


@pytest.mark.parametrize("aspect", ASPECTS)
def test_code_that_differs_from_the_code_before_in_one_thing(border, aspect):
    """Captures that a host takes: nobody is told when such code dies."""
    churn = Churn()
    for number in range(500):
        file, name, source = (
            part.format(
                number=number % 7, name="{name}", lines="\n" * (number % 7), spaces=" " * (number % 7)
            )
            for part in ASPECTS[aspect].split("|")
        )
        text, space = source.format(name=name), {}
        exec(compile(text, file, "exec"), space)
        function = space.pop(name)
        churn.reused += id(function.__code__) in churn.seen
        churn.seen.add(id(function.__code__))
        lines = text.split("\n")
        want = (file, name, len(lines), lines[-1].index("capture") + 1)
        for _ in range(2):  # the second time it is known
            stack = stacksplice.Stack(function(border.capture_both)[1])
            frame = next(frame for frame in stack if frame.language == "python")
            found = (frame.file, frame.function, frame.line, frame.column)
            if found != want:
                churn.wrong.append((found, want))
    churn.assert_good(100)


def test_threads_that_capture_without_the_lock_while_code_dies(border):
    stop = threading.Event()
    wrong: list[object] = []

    def steady(number):
        function, expected = make(1_000_000 + number)

        while not stop.is_set():
            function(stacksplice.capture)
            for _ in range(20):
                found = innermost(stacksplice.Stack(function(border.capture_both_without_lock)[1]))
                if found != expected:
                    wrong.append((found, expected))

    threads = [threading.Thread(target=steady, args=(number,)) for number in range(2)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in threads:
            thread.start()
        churn = Churn()
        for number in range(300):
            churn.run(number, lambda function: innermost(function(stacksplice.capture)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(switch)
    assert not wrong, wrong[0]
    churn.assert_good(20)


def test_a_line_that_was_set_by_hand_is_not_that_of_the_next_traceback():
    def fail():
        raise ValueError("a line of its own")

    def lines_of(change):
        try:
            fail()
        except ValueError as exc:
            last = exc.__traceback__.tb_next
            entry = change(type(last)(None, last.tb_frame, last.tb_lasti, last.tb_lineno))
            stack = stacksplice.originate(exc.with_traceback(entry)).stack
        return [(f.line, f.column) for f in stack if f.trust == "traceback" and f.function.endswith("fail")]

    def moved(entry, lasti=0, line=0):
        return type(entry)(None, entry.tb_frame, entry.tb_lasti + lasti, entry.tb_lineno + line)

    plain = lines_of(lambda entry: entry)
    assert plain[0][0] == fail.__code__.co_firstlineno + 1
    assert lines_of(lambda entry: moved(entry, line=100)) == [(plain[0][0] + 100, None)]
    assert lines_of(lambda entry: entry) == plain
    # An instruction far outside of its code, where that of others may lie.
    for lasti in (1 << 12, 1 << 20, -2000):
        assert lines_of(lambda entry: moved(entry, lasti=lasti)) == [(plain[0][0], None)]
    assert lines_of(lambda entry: entry) == plain


def test_code_that_is_freed_while_another_interpreter_is_current(border):
    """Destructors of code extras would not be called: they are those of the current interpreter."""
    seen, reused, wrong, turn = set(), 0, [], 0
    while turn < 4 or reused < 100:
        assert turn < 40, f"the memory of only {reused} code objects was used again"
        functions = []
        for number in range(turn * 300, turn * 300 + 300):
            function, expected = make(number)
            reused += id(function.__code__) in seen
            seen.add(id(function.__code__))
            for _ in range(2):  # the second time it is known
                found = innermost(function(stacksplice.capture))
                if found != expected:
                    wrong.append((found, expected))
            functions.append(function)
        del function
        border.drop_elsewhere(functions)
        assert not functions
        turn += 1
    assert not wrong, (len(wrong), wrong[0])


FROZEN = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters
code = '''
import stacksplice, abc, os
frames = []
class Path:
    def __fspath__(self):
        stack = stacksplice.capture()
        frames.extend((f.function, f.interpreter is None) for f in stack if f.language == "python")
        return "x"
for _ in range(3):
    frames.clear()
    os.fsdecode(Path())
print(frames, flush=True)
'''
import stacksplice
exec(code)
arguments = ("legacy",) if sys.version_info >= (3, 13) else ()
options = {} if sys.version_info >= (3, 13) else {"isolated": False}
made = interpreters.create(*arguments, **options)
interpreters.run_string(made, code)
interpreters.destroy(made)
exec(code)
"""


def test_code_that_interpreters_share(child):
    """Frozen modules' code is one object for all: each interpreter's frames are its own."""
    lines = child(FROZEN).stdout.splitlines()
    main, sub, again = ([entry for entry in eval(line) if "<module>" not in entry] for line in lines)
    assert [name for name, _ in main] == ["Path.__fspath__", *[name for name, _ in main[1:]]]
    assert "fsdecode" in main[1][0]
    assert [name for name, _ in sub] == [name for name, _ in main] == [name for name, _ in again]
    assert all(is_main for _, is_main in main + again)
    # The <module> frame outside of the sub-interpreter's is the main one's.
    assert not any(is_main for _, is_main in sub)
