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

PYTEST_DONT_REWRITE: pytest need not read asserts in what was imported before it.
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
    from ._base.loading import explain as _explain

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
    report_on_signal,
    report_unhandled,
    set_max_frames,
    take_error,
)
from ._errors.info import ErrorInfo, Propagation
from ._errors.frames import Frame, Stack
from ._errors.groups import HResultErrorGroup

# Where the rest is.  It is imported when it is first asked for: every program waits for this import,
# and few need all of it.
_LATER = {
    "attach": "_hooks.lupa",
    "deadline": "_hooks.deadline",
    "detach": "_hooks.lupa",
    "doctor": "_tools.doctor.findings",
    "format_exc": "_errors.report",
    "format_exception": "_errors.report",
    "hide": "_base.hiding",
    "install": "_hooks.install",
    "load_ipython_extension": "_hooks.install",
    "print_exc": "_errors.report",
    "print_exception": "_errors.report",
    "redaction": "_base.redaction",
    "saved_error": "_errors.slot",
    "uninstall": "_hooks.install",
    "unload_ipython_extension": "_hooks.install",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import winrt
    from ._base.hiding import hide
    from ._base.redaction import redaction
    from ._errors.report import format_exc, format_exception, print_exc, print_exception
    from ._errors.slot import saved_error
    from ._hooks.deadline import deadline
    from ._hooks.install import install, uninstall
    from ._hooks.lupa import attach, detach
    from ._tools.doctor.findings import doctor
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
    "hide",
    "install",
    "originate",
    "peek_error",
    "print_exc",
    "print_exception",
    "propagate",
    "raise_error",
    "redaction",
    "report_on_signal",
    "report_unhandled",
    "saved_error",
    "set_max_frames",
    "take_error",
    "uninstall",
    "winrt",
]

_stacksplice._register(
    ErrorInfo, ("_handle", "_data", "_details", "_stack", "_file"), Stack, HResultErrorGroup
)
