"""Whether code that may call Python back is in the process: extension modules that are not Python's.

Until there is any, raises cost nothing.
"""

from __future__ import annotations

import sys
from importlib.machinery import BuiltinImporter, ExtensionFileLoader
from types import ModuleType

from .._base.hints import Any
from . import at_raise
from .lock import add_finder, lock, remove_finder

# Their frames are never another language's: src/stack/foreign_code.c knows the same ones.
_KNOWN = {*sys.stdlib_module_names, "greenlet", "stacksplice"} - {"_ctypes"}


def _may_call_back(name: str) -> bool:
    """Whether the native module of that NAME may call Python for code of another language."""
    return name.partition(".")[0] not in _KNOWN


def _is_native(module: object) -> bool:
    if not isinstance(module, ModuleType):
        return False
    # No attribute is asked for: a lazy module would be loaded.
    spec = ModuleType.__getattribute__(module, "__dict__").get("__spec__")
    loader = getattr(spec, "loader", None)
    return isinstance(loader, ExtensionFileLoader) or loader is BuiltinImporter


def _is_loaded() -> bool:
    return any([_may_call_back(name) and _is_native(module) for name, module in list(sys.modules.items())])


class _Finder:
    """Stands first in sys.meta_path and notices what is built into the program: it has no file."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in sys.builtin_module_names and _may_call_back(name):
            _found()


_finder = _Finder()
_loader: Any = ExtensionFileLoader  # whose __init__ is exchanged
_plain_init: Any = _loader.__init__


def _init(self: ExtensionFileLoader, name: str, path: str) -> None:
    """ExtensionFileLoader.__init__, called with each extension module that is found."""
    _plain_init(self, name, path)
    if _may_call_back(name):
        _found()


def _found() -> None:
    end()
    at_raise.begin_below_others()


def begin() -> None:
    """Have stacks taken at the raise, as soon as others' code may be on them."""
    global _plain_init
    if sys.version_info < (3, 12):
        return  # there is no event for it
    if _is_loaded():
        _found()
        return
    with lock:
        if _loader.__init__ is not _init:
            _plain_init = _loader.__init__
            _loader.__init__ = _init
            add_finder(_finder)


def end() -> None:
    """Notice no more."""
    with lock:
        if _loader.__init__ is _init:
            _loader.__init__ = _plain_init
        remove_finder(_finder)
