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
    DeadlineExceeded,
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
from ._errors import ErrorInfo, Propagation
from ._frames import Frame, Stack
from ._groups import HResultErrorGroup

# Where the rest is.  It is imported when it is first asked for: every program waits for this import,
# and few need all of it.
_LATER = {
    "attach": "_lupa",
    "deadline": "_deadline",
    "detach": "_lupa",
    "doctor": "_doctor",
    "format_exc": "_report",
    "format_exception": "_report",
    "install": "_install",
    "load_ipython_extension": "_install",
    "print_exc": "_report",
    "print_exception": "_report",
    "redaction": "_redaction",
    "saved_error": "_slot",
    "uninstall": "_install",
    "unload_ipython_extension": "_install",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import winrt as winrt
    from ._deadline import deadline as deadline
    from ._doctor import doctor as doctor
    from ._install import install as install
    from ._install import load_ipython_extension as load_ipython_extension
    from ._install import uninstall as uninstall
    from ._install import unload_ipython_extension as unload_ipython_extension
    from ._lupa import attach as attach
    from ._lupa import detach as detach
    from ._report import format_exc as format_exc
    from ._report import format_exception as format_exception
    from ._report import print_exc as print_exc
    from ._report import print_exception as print_exception
    from ._redaction import redaction as redaction
    from ._slot import saved_error as saved_error
else:

    def __getattr__(name):
        if name == "winrt":
            value = __import__(f"{__name__}.{name}", fromlist=[name])
        elif name in _LATER:
            value = getattr(__import__(f"{__name__}.{_LATER[name]}", fromlist=[name]), name)
        else:  # HResultError's twins, such as HResultValueError, are found where they say they are
            value = _stacksplice.__getattr__(name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "DeadlineExceeded",
    "ErrorInfo",
    "Frame",
    "HResultError",
    "HResultErrorGroup",
    "Propagation",
    "Stack",
    "__version__",
    "attach",
    "capture",
    "deadline",
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
    "redaction",
    "report_unhandled",
    "saved_error",
    "set_max_frames",
    "take_error",
    "uninstall",
    "winrt",
]

_stacksplice._register(ErrorInfo, ("_handle", "_data", "_details", "_stack"), Stack, HResultErrorGroup)
