"""install(dedup=SECONDS): of equal exceptions that nobody handled, the first is shown."""

from __future__ import annotations

import atexit
import sys

from .._base.hints import Any
from .._errors.counts import Counts, text_of_count
from .._errors.report import write

_window = 0.0  # 0: all are shown
# By the logger that tells of them; "": those of the interpreter's hooks.
_tables: dict[str, Counts] = {}


def _print(counts: dict[str, Any]) -> None:
    if sys.stderr is not None:
        write(sys.stderr, text_of_count(counts) + "\n")


def _log(name: str, counts: dict[str, Any]) -> None:
    import logging

    logging.getLogger(name).error(text_of_count(counts), extra={"stacksplice": counts})


def _take_for(name: str) -> Any:
    return (lambda counts: _log(name, counts)) if name else _print


def is_counted(exc: BaseException, logger: str = "") -> bool:
    """Whether EXC, which LOGGER or else a hook is to show, is one of those that are told later."""
    # A person at the prompt sees each.
    if not _window or hasattr(sys, "ps1"):
        return False
    table = _tables.get(logger)
    if table is None:
        table = _tables.setdefault(logger, Counts(_window, "dedup"))
        # Again: what was imported since then, as logging, ends after what is registered now.
        atexit.register(end)
    table.tell_ended(_take_for(logger))
    # Another thread may have told all meanwhile: rather shown than lost.
    return table.is_counted(exc) and _tables.get(logger) is table


def begin(seconds: float) -> None:
    """Count equal ones from now on."""
    global _window

    first = Counts(seconds, "dedup")  # which refuses what is no number of seconds
    end()
    _tables[""] = first
    _window = seconds
    atexit.register(end)


def end() -> None:
    """Tell what was counted; from now on all are shown, also those at the end of the interpreter."""
    global _window

    _window = 0.0
    atexit.unregister(end)
    while True:
        try:
            name, table = _tables.popitem()
        except KeyError:  # also where another thread told the last
            break
        table.tell(_take_for(name))
