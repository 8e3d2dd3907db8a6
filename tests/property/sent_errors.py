"""Errors of every kind, by what raises them and the ways that they went, and what loggers write of them.

As a program it reads such errors, a line of JSON for each, and answers with what the loggers write without
stacksplice: it never installs it.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # for gap_reasons.py

import ways  # noqa: E402

# ---- Errors ----------------------------------------------------------------------------------------


class Custom(Exception):
    """Tools prefer a member of this name to str()."""

    message = "of its own"


def of_lua_by(code):
    """A leaf that runs CODE in Lua."""

    def leaf():
        ways.lua()  # the runtime of this thread
        ways.lua().load(code)()

    leaf.__name__ = f"of_lua_by {code}"
    return leaf


def of_python_by(make):
    def leaf():
        raise make()

    leaf.__name__ = f"of_python_by {make()!r}"
    return leaf


LEAVES = [
    *ways.LEAVES,
    *map(
        of_lua_by,
        (
            "error({code = 7, message = 'no stock'})",
            "error('of two\\nlines')",
            "error()",
            "error(12)",
            "local order = {} return order.total.amount",
            "error(setmetatable({}, {__tostring = function() return 'as text' end}))",
        ),
    ),
    *map(
        of_python_by,
        (
            Custom,
            lambda: OSError(2, "no such thing", "file"),
            lambda: KeyError(("two", 2)),
            lambda: SyntaxError("bad", ("file.py", 3, 1, "x = = 2")),
            lambda: ExceptionGroup("all", [ValueError("never raised"), KeyError("neither")]),
        ),
    ),
]


def with_a_note(inner):
    def noted():
        try:
            inner()
        except BaseException as exc:
            exc.add_note("a note\nof two lines")
            raise

    return noted


def without_a_context(inner):
    def handled():
        try:
            inner()
        except BaseException as exc:
            raise exc from None

    return handled


def by_recursion(inner):
    def recur(calls=12):
        if calls:
            recur(calls - 1)
        else:
            inner()

    return recur


WAYS = [
    *ways.WAYS,
    *[with_a_note, without_a_context, by_recursion, *ways.OTHERS] * 4,
]


def made(version, leaf, chosen):
    ways.use(version)
    return ways.caught(ways.program(leaf, chosen))


def all_of(exc):
    """EXC and all that is behind it or in it, each once."""
    found = [exc]
    for one in found:  # which grows during the loop
        inner = [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        found += [other for other in inner if other is not None and all(other is not f for f in found)]
    return found


# ---- Loggers ---------------------------------------------------------------------------------------


def _by_handler(formatter):
    """Of a handler of logging with FORMATTER; the function takes filters, too."""

    def log(exc, *filters):
        told = type(exc), exc, exc.__traceback__
        record = logging.LogRecord("tests", logging.ERROR, __file__, 1, "failed", (), told)
        for one in filters:
            one.filter(record)
        return formatter.format(record)

    return log


def _by_structlog(processor):
    import structlog

    chosen = [processor(structlog), structlog.processors.JSONRenderer()]
    log = structlog.wrap_logger(structlog.testing.ReturnLogger(), chosen)
    return lambda exc: log.error("failed", exc_info=exc)


def _of_pythonjsonlogger():
    import pythonjsonlogger.json

    return _by_handler(pythonjsonlogger.json.JsonFormatter())


def _of_ecs_logging():
    import ecs_logging

    return _by_handler(ecs_logging.StdlibFormatter())


def _of_loguru():
    import loguru

    def log(exc):
        lines: list[str] = []
        loguru.logger.remove()
        loguru.logger.add(lines.append, serialize=True)
        loguru.logger.opt(exception=exc).error("failed")
        return lines[0]

    return log


HANDLERS = {"python-json-logger": _of_pythonjsonlogger, "ecs-logging": _of_ecs_logging}
LOGGERS = {
    **HANDLERS,
    "structlog": lambda: _by_structlog(lambda structlog: structlog.processors.format_exc_info),
    "structlog, frames as data": lambda: _by_structlog(
        lambda structlog: structlog.processors.dict_tracebacks
    ),
    "loguru": _of_loguru,
}


def main():
    (name,) = sys.argv[1:]
    log = LOGGERS[name]()
    for line in sys.stdin:
        version, leaf, chosen = json.loads(line)
        print(log(made(version, LEAVES[leaf], [WAYS[way] for way in chosen])).strip(), flush=True)


if __name__ == "__main__":
    main()
