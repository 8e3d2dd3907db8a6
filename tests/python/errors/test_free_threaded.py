"""Without the interpreter's lock: threads that run Python at once, against what Python says in each."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import pickle
import random
import re
import sys
import sysconfig
import threading

import pytest
import stacksplice
from building import command
from stacksplice import winrt

pytestmark = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="a build with the interpreter's lock"
)
THREADS = 4
# How many threads, and how often each does its work: as often in all, and 20,000 times where it is long.
STORMS = pytest.mark.parametrize(
    "threads, count",
    [
        (4, 300),
        (16, 75),
        pytest.param(4, 5_000, marks=pytest.mark.long),
        pytest.param(16, 1_250, marks=pytest.mark.long),
    ],
)
E_FAIL = -2147467259


def together(work, threads=THREADS):
    """WORK(number) in threads that begin at once; what they raised first is raised."""
    begin = threading.Barrier(threads)
    failed = []

    def run(number):
        begin.wait()
        try:
            work(number)
        except BaseException as exc:
            failed.append(exc)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for exc in failed:
        raise exc
    assert not sys._is_gil_enabled()


def of_python(stack):
    scripts = [frame for frame in stack if frame.language == "python" and frame.kind == "script"]
    return [(frame.file, frame.function.rpartition(".")[2], frame.line) for frame in scripts]


def by_python(frame):
    found = []
    while frame:
        found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def compare():
    seen, real = of_python(stacksplice.capture()), by_python(sys._getframe())
    assert seen == real
    return 0


# Ways by which C code calls Python, and two without C.
def by_map(way):
    return list(map(lambda _: way(), (0,)))


def by_sort(way):
    return sorted([1], key=lambda _: way() or 0)


def by_generator(way):
    def one():
        yield way()

    return next(one())


def by_plain_call(way):
    return way()


def by_length(way):
    class Sized:
        def __len__(self):
            way()
            return 1

    return len(Sized())


def by_partial(way):
    return functools.partial(way)()


WAYS = [by_map, by_sort, by_generator, by_plain_call, by_length, by_partial]


def nested(ways, innermost):
    return ways[0](functools.partial(nested, ways[1:], innermost)) if ways else innermost()


def test_the_lock_stays_off():
    assert not sys._is_gil_enabled()
    assert stacksplice._stacksplice.frames_unavailable() is None


@pytest.mark.parametrize("asked, state", [("0", "ok"), ("1", "note")])
def test_doctor_says_whether_the_lock_is_off(asked, state):
    findings = json.loads(command("doctor", "--json", status=None, PYTHON_GIL=asked).stdout)["findings"]
    found = {finding["subject"]: finding for finding in findings}
    assert found["GIL"]["state"] == state
    assert ("PYTHON_GIL=0" in found["GIL"]["advice"]) == (state == "note")


@STORMS
def test_captures_of_threads_at_once(threads, count):
    def work(number):
        choose = random.Random(number)
        for _ in range(count):
            nested(choose.choices(WAYS, k=choose.randrange(1, 8)), compare)

    together(work, threads)


MADE = """
import sys
def made(again, compare, depth):
{lines}
    if depth:
        return list(map(lambda _: again(depth - 1), (0,)))
    compare()
"""


@STORMS
def test_functions_that_another_thread_makes_again(threads, count):
    functions, ended = [None] * 8, []

    def make(choose):
        names = {}
        source = MADE.format(lines="    pass\n" * choose.randrange(1, 30))
        exec(compile(source, f"made{choose.randrange(50)}", "exec"), names)
        functions[choose.randrange(8)] = names["made"]

    def work(number):
        choose = random.Random(number)
        if number == threads:
            while len(ended) < threads:
                make(choose)
                if choose.randrange(200) == 0:
                    gc.collect()
            return

        def again(depth):
            return (choose.choice(functions) or by_plain_call)(again, compare, depth)

        try:
            for _ in range(count):
                again(choose.randrange(5))
        finally:
            ended.append(number)

    first = random.Random(-1)
    while None in functions:
        make(first)
    together(work, threads + 1)


def raise_it(exc):
    raise exc


@STORMS
def test_each_thread_has_its_own_errors(threads, count):
    def work(number):
        for turn in range(count):
            text = f"{number} {turn}"
            try:
                list(map(lambda _: raise_it(ValueError(text)), (0,)))
            except ValueError as exc:
                info = stacksplice.originate(exc)
                assert info.message == text
                functions = [function for _, function, _ in of_python(info.stack)]
                assert functions[:3] == ["raise_it", "<lambda>", "work"]
                with pytest.raises(ValueError) as raised:
                    stacksplice.raise_error(info.hresult)
                assert raised.value is exc
                if turn % 50 == 0:
                    assert text in "".join(stacksplice.format_exception(exc))

    together(work, threads)


def numbers_in(text):
    return set(re.findall(r"<[0-9]+[.][0-9]+>", text))


@STORMS
def test_causes_groups_and_copies_are_of_their_own_thread(threads, count):
    def fail(text):
        try:
            list(map(lambda _: raise_it(KeyError(text)), (0,)))
        except KeyError as inner:
            raise ExceptionGroup(text, [inner, ValueError(text)]) from inner

    def work(number):
        for turn in range(count):
            text = f"<{number}.{turn}>"
            with pytest.raises(ExceptionGroup) as raised:
                fail(text)
            exc = raised.value
            exc.add_note(f"a note of {text}")
            info = stacksplice.originate(exc)
            assert numbers_in(info.to_json(brief=True)) == {text}
            if turn % 10:
                continue
            shown = "".join(stacksplice.format_exception(exc))
            assert numbers_in(shown) == {text} and "in raise_it" in shown and "direct cause" in shown
            copy = pickle.loads(pickle.dumps(exc))
            assert [str(each) for each in copy.exceptions] == [str(each) for each in exc.exceptions]
            assert "raise_it" in "".join(stacksplice.format_exception(copy))

    together(work, threads)


@pytest.mark.parametrize("threads, count", [(4, 25), (16, 8)])
def test_tasks_of_a_loop_in_each_thread(threads, count):
    """What awaits them belongs to their own loop."""

    async def innermost(text, stacks):
        await asyncio.sleep(0)
        stacks[text] = stacksplice.capture(awaited_by=True)
        raise ValueError(text)

    async def middle(text, stacks):
        await innermost(text, stacks)

    async def main(number, turn):
        stacks = {}
        names = [f"<{number}.{100 * turn + each}>" for each in range(5)]
        found = await asyncio.gather(*(middle(name, stacks) for name in names), return_exceptions=True)
        for name, exc in zip(names, found):
            functions = [function for _, function, _ in of_python(stacks[name])]
            assert functions[:2] == ["innermost", "middle"]
            assert "main" in functions[2:]  # beyond the border of the task
            assert numbers_in("".join(stacksplice.format_exception(exc))) == {name}

    def work(number):
        for turn in range(count):
            asyncio.run(main(number, turn))

    together(work, threads)


IN_ANOTHER_INTERPRETER = """
import stacksplice
def inside():
    return [f.function for f in stacksplice.capture() if f.language == "python" and f.kind == "script"]
for _ in range(5):
    assert inside()[:2] == ["inside", "<module>"], inside()
    try:
        raise ValueError("of another interpreter")
    except ValueError as exc:
        assert stacksplice.originate(exc).message == "of another interpreter"
stacksplice.take_error()
"""


@pytest.mark.parametrize("threads, count", [(4, 3), (16, 1)])
def test_interpreters_that_end_while_others_capture(threads, count):
    interpreters = pytest.importorskip("_interpreters")
    left = [threads]

    def work(number):
        if number >= threads:
            while left[0] > 0:
                nested([by_map, by_sort], compare)
            return
        try:
            for _ in range(count):
                made = interpreters.create("isolated")
                failed = interpreters.run_string(made, IN_ANOTHER_INTERPRETER)
                interpreters.destroy(made)
                assert failed is None, failed
        finally:
            with lock:
                left[0] -= 1

    lock = threading.Lock()
    together(work, threads + 2)


def test_one_native_error_is_one_exception_in_all_threads():
    """Each thread asks for the same error at the same moment."""
    turn, error, got = threading.Barrier(THREADS), [None], [None] * THREADS

    def work(number):
        for again in range(200):
            if number == 0:
                winrt.RoOriginateError(E_FAIL, f"native {again}")
                error[0] = winrt.GetRestrictedErrorInfo()
            turn.wait()
            winrt.SetRestrictedErrorInfo(error[0])
            with pytest.raises(stacksplice.HResultError) as raised:
                stacksplice.raise_error(E_FAIL)
            got[number] = raised.value
            del raised
            turn.wait()
            if number == 0:
                assert len({id(exc) for exc in got}) == 1
                assert f"native {again}" in str(got[0])
            turn.wait()

    together(work)


def test_one_exception_is_one_error_in_all_threads():
    turn, raised, infos = threading.Barrier(THREADS), [None], [None] * THREADS

    def work(number):
        for again in range(200):
            if number == 0:
                try:
                    raise ValueError(f"shared {again}")
                except ValueError as exc:
                    raised[0] = exc
            turn.wait()
            infos[number] = stacksplice.originate(raised[0])
            turn.wait()
            if number == 0:
                assert {info.message for info in infos} == {f"shared {again}"}
                references = {info.to_dict()["reference"] for info in infos}
                assert len(references) == 1
            turn.wait()

    together(work)


def test_one_exception_that_all_threads_raise_again():
    exc = ValueError("again and again")

    def work(number):
        for _ in range(50):
            try:
                raise_it(exc)
            except ValueError as caught:
                assert caught is exc
                assert stacksplice.originate(caught).message == "again and again"

    together(work)
    assert stacksplice.format_exception(exc)


@pytest.fixture
def shows_locals():
    stacksplice._stacksplice._show_locals(True)
    yield
    stacksplice._stacksplice._show_locals(False)


def test_local_variables_that_another_thread_changes(shows_locals):
    shared = {"dict": {}, "list": [], "ends": False}

    def change():
        number = 0
        while not shared["ends"]:
            number += 1
            shared["dict"][f"key{number % 50}"] = [str(number)]
            shared["dict"].pop(f"key{(number + 25) % 50}", None)
            shared["list"].append(str(number))
            del shared["list"][:-20]

    def fail(each, items):
        raise ValueError(len(items) + len(each))

    def work(number):
        if number == 0:
            return change()
        try:
            for _ in range(100):
                with pytest.raises(ValueError) as raised:
                    fail(shared["dict"], shared["list"])
                text = "".join(stacksplice.format_exception(raised.value))
                assert "each = {" in text and "items = [" in text
        finally:
            shared["ends"] = True

    together(work)


def test_no_memory_grows():
    def work(_):
        for number in range(100):
            try:
                raise_it(ValueError(str(number)))
            except ValueError as exc:
                stacksplice.originate(exc)
                stacksplice.take_error()

    def count():
        gc.collect()
        return sum(isinstance(each, ValueError) for each in gc.get_objects())

    together(work)
    before = count()
    for _ in range(3):
        together(work)
    assert count() <= before


def hooks_of_ours():
    """Where install() puts something of ours."""
    ours = [sys.excepthook, sys.unraisablehook, threading.excepthook, *sys.meta_path]
    filters = [each for name in ("asyncio", "concurrent.futures") for each in logging.getLogger(name).filters]
    modules = [getattr(each, "__module__", None) or type(each).__module__ for each in ours + filters]
    return [name for name in modules if name.startswith("stacksplice")]


@pytest.mark.parametrize("rounds", [100, pytest.param(3_000, marks=pytest.mark.long)])
def test_no_hook_is_put_twice_or_left_behind(rounds):
    """By threads that install and uninstall at once; each finder and each watch of threads is there once."""
    stacksplice.uninstall()  # also what the import of the package put there
    assert hooks_of_ours() == []
    found = sys.excepthook, threading.excepthook, sys.unraisablehook, threading.Thread._set_native_id

    def work(number):
        for _ in range(rounds):
            stacksplice.install(crash=True)
            now = list(sys.meta_path)  # at once: others insert at its beginning
            finders = [each for each in now if type(each).__module__.startswith("stacksplice")]
            assert len(finders) == len(set(finders))
            stacksplice.uninstall()

    together(work)
    stacksplice.uninstall()
    assert hooks_of_ours() == []
    left = sys.excepthook, threading.excepthook, sys.unraisablehook, threading.Thread._set_native_id
    assert left == found
