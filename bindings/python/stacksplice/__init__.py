"""One error, one stack, every language.

Errors that cross between Python, Lua and native code keep one combined stack (all frames, in true
order) and a chain of the languages that received them.  The names follow the standard ``traceback``
module where they do the same:

    import stacksplice

    try:
        host.run()                      # Python -> C -> Lua -> Python ...
    except Exception as exc:
        stacksplice.print_exception(exc)

``originate``, ``propagate``, ``peek_error`` and ``take_error`` are for code that is about to return
an HRESULT to native code: they alone touch the thread's error slot.
"""

from __future__ import annotations

import sys as _sys

if "_stacksplice" in _sys.builtin_module_names:
    # The program that embeds Python has the extension built in: use that one.
    import importlib as _importlib

    globals()["_stacksplice"] = _importlib.import_module("_stacksplice")
    _sys.modules[__name__ + "._stacksplice"] = globals()["_stacksplice"]

try:
    from . import _stacksplice
except ImportError as _exc:
    from ._loading import explain as _explain

    _reason = _explain(_exc, __path__[0])
    if _reason is None:
        raise
    raise _reason from _exc

from ._stacksplice import (
    HResultError,
    __version__,
    capture,
    error_info,
    fail_fast,
    foreign_frames,
    originate,
    peek_error,
    propagate,
    raise_error,
    report_unhandled,
    set_max_frames,
    take_error,
)
from ._doctor import doctor
from ._errors import ErrorInfo, Propagation
from ._frames import Frame, Stack
from ._groups import HResultErrorGroup
from ._install import install, uninstall
from ._install import load_ipython_extension as load_ipython_extension
from ._install import unload_ipython_extension as unload_ipython_extension
from ._lupa import attach, detach
from ._report import format_exc, format_exception, print_exc, print_exception
from ._slot import saved_error

__all__ = [
    "ErrorInfo",
    "Frame",
    "HResultError",
    "HResultErrorGroup",
    "Propagation",
    "Stack",
    "__version__",
    "attach",
    "capture",
    "detach",
    "doctor",
    "error_info",
    "fail_fast",
    "foreign_frames",
    "format_exc",
    "format_exception",
    "install",
    "originate",
    "peek_error",
    "print_exc",
    "print_exception",
    "propagate",
    "raise_error",
    "report_unhandled",
    "saved_error",
    "set_max_frames",
    "take_error",
    "uninstall",
    "winrt",
]

from . import winrt

# HResultError's twins, such as HResultValueError, are found where they say they are.
globals().update({name: value for name, value in vars(_stacksplice).items() if name.startswith("HResult")})
_stacksplice._register(ErrorInfo._make, Stack, HResultErrorGroup)
