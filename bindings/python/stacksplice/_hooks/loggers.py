"""The loggers of exceptions that nobody handled: in tasks and callbacks, and in futures' callbacks."""

from __future__ import annotations

import sys

from .._base.hints import Any
from .unhandled import unhandled_record

# Each is named as its module, which imports logging.
_LOGGERS = ("asyncio", "concurrent.futures")


class _Finder:
    """Stands first in sys.meta_path until one of these modules is imported: other programs may not need
    logging, and it takes longer than all of ours."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in _LOGGERS:
            _filter()


_finder = _Finder()


def _filter() -> None:
    import logging

    _forget_finder()
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(unhandled_record)


def _forget_finder() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def begin() -> None:
    """Have combined reports in the records of these loggers."""
    if any([name in sys.modules for name in _LOGGERS]):
        _filter()
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def end() -> None:
    """Put nothing into records any more."""
    _forget_finder()
    if "logging" in sys.modules:
        import logging

        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(unhandled_record)
