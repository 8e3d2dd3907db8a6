"""A program that tests inspect from outside: threads that handle exceptions.  It needs no other module.

It prints one line of JSON: for each thread, by its number, the exceptions that it handles, each with those
behind it, as the traceback module sees them.  Then it waits for its standard input to end.
"""

import json
import sys
import threading
import traceback


class OwnError(Exception):
    pass


seen: dict = {}


def row(relation: str, exc: BaseException) -> list:
    frames = [[f.filename, f.name, f.lineno] for f in traceback.extract_tb(exc.__traceback__)]
    return [relation, type(exc).__name__, str(exc), frames[::-1]]


def note(*handled: BaseException) -> None:
    rows = []
    for exc in handled:
        chain = [row("handled", exc)]
        while exc.__cause__ or exc.__context__ and not exc.__suppress_context__:
            relation = "cause" if exc.__cause__ else "context"
            exc = exc.__cause__ or exc.__context__
            chain.append(row(relation, exc))
        rows.append(chain)
    seen[threading.get_native_id()] = rows


def fail(error: BaseException, depth: int) -> None:
    if depth:
        fail(error, depth - 1)
    raise error


def in_context() -> None:
    try:
        fail(OwnError("a text", 3), 2)
    except OwnError:
        try:
            {}["missing"]
        except KeyError as inner:
            note(inner)
            rest()


def with_cause() -> None:
    try:
        try:
            open("/missing/file")
        except OSError as exc:
            raise ValueError("ключ \U0001f511") from exc
    except ValueError as exc:
        note(exc)
        rest()


def suppressed() -> None:
    try:
        try:
            fail(RuntimeError(), 0)
        except RuntimeError:
            raise TypeError("alone") from None
    except TypeError as exc:
        note(exc)
        rest()


def in_a_generator() -> None:
    def generate():
        try:
            fail(ValueError("inner"), 1)
        except ValueError as exc:
            yield exc

    values = generate()
    inner = next(values)
    assert inner
    try:
        fail(IndexError(7), 0)
    except IndexError as exc:
        note(exc)
        rest()


def nothing() -> None:
    try:
        fail(ValueError("over"), 0)
    except ValueError:
        pass
    note()
    rest()


def rest() -> None:
    ready.wait()
    end.wait()


threads = [in_context, with_cause, suppressed, in_a_generator, nothing]
ready, end = threading.Barrier(len(threads) + 1), threading.Event()
for function in threads:
    threading.Thread(target=function, daemon=True).start()
ready.wait()
print(json.dumps(seen), flush=True)
sys.stdin.read()
