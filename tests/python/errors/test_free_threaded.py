"""Without the interpreter's lock: threads that run Python at once, against what Python says in each."""

from __future__ import annotations

import functools
import gc
import logging
import random
import sys
import sysconfig
import threading

import pytest
import stacksplice
from stacksplice import winrt

pytestmark = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="a build with the interpreter's lock"
)
THREADS = 4
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


@pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=pytest.mark.long)])
def test_captures_of_threads_at_once(count):
    def work(number):
        choose = random.Random(number)
        for _ in range(count):
            nested(choose.choices(WAYS, k=choose.randrange(1, 8)), compare)

    together(work)


MADE = """
import sys
def made(again, compare, depth):
{lines}
    if depth:
        return list(map(lambda _: again(depth - 1), (0,)))
    compare()
"""


@pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=pytest.mark.long)])
def test_functions_that_another_thread_makes_again(count):
    functions, ended = [None] * 8, []

    def make(choose):
        names = {}
        source = MADE.format(lines="    pass\n" * choose.randrange(1, 30))
        exec(compile(source, f"made{choose.randrange(50)}", "exec"), names)
        functions[choose.randrange(8)] = names["made"]

    def work(number):
        choose = random.Random(number)
        if number == THREADS:
            while len(ended) < THREADS:
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
    together(work, THREADS + 1)


def raise_it(exc):
    raise exc


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.long)])
def test_each_thread_has_its_own_errors(count):
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

    together(work)


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
            finders = [each for each in sys.meta_path if type(each).__module__.startswith("stacksplice")]
            assert len(finders) == len(set(finders))
            stacksplice.uninstall()

    together(work)
    stacksplice.uninstall()
    assert hooks_of_ours() == []
    left = sys.excepthook, threading.excepthook, sys.unraisablehook, threading.Thread._set_native_id
    assert left == found
