"""install() and uninstall(): combined reports wherever exceptions are shown that nobody handled."""

from __future__ import annotations

import sys

from .._base.hints import Any, Callable


def _running_shell() -> Any:
    """The shell of IPython, if this is one."""
    shell = getattr(sys.modules.get("IPython.core.interactiveshell"), "InteractiveShell", None)
    return shell.instance() if shell is not None and shell.initialized() else None


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext stacksplice``: install(), in this shell of IPython."""
    install()


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext stacksplice``: uninstall()."""
    uninstall()


def install(
    *,
    capture_at_raise: bool = False,
    locals: bool = False,
    redact: bool | Callable[[str, str], str] | None = None,
    crash: bool = False,
    others_first: bool = False,
    lua_pcall: bool = False,
    bridges: bool = False,
    newest_first: bool = False,
    dedup: float | None = None,
) -> None:
    """Show unhandled exceptions that passed code of several languages with their combined stack.

    Attaches every LuaRuntime of lupa, those that exist and those made later: see attach().  Once
    code of another language that may call Python is loaded (ctypes, cffi, extension modules), an
    exception raised below such code keeps the stack of its raise, on CPython 3.12 and newer; other
    raises pay for a few comparisons.

    Sets sys.excepthook, which the interactive prompt calls too, threading.excepthook and
    sys.unraisablehook.  Where nobody had set one, also sys.__excepthook__ and its like, so that programs
    that compare the two see no difference.  Every event loop of asyncio, and concurrent.futures, log the
    combined report of an unhandled exception in place of its traceback; a loop's own exception handler is
    called as before.  IPython and rich show their own, with other languages' frames.  Other exceptions are
    shown as before.  Our hooks also call the hooks that they found, unless those are the interpreter's own.

    If the program that embeds Python set a handler (stacksplice_set_unhandled_handler), it is asked
    first about each such exception.  What it handles is not shown here.

    redact: True, False or a hook: the same as redaction(), redaction(False) and redaction(hook=...).
    None changes nothing; reports leave out secrets from the start.

    crash: True also reports crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGSYS, so fatal errors
    of the interpreter, too) on stderr and in a file, and then lets the process die as before.  With
    others_first=True, the handlers of these signals that are there already run first, and only what they do
    not handle is reported: for a process in which Java started before.

    locals: True shows the local variables of Python's frames in all reports of living exceptions, and those
    of Lua's frames if the error was born in lupa.  Values of the builtin types are shown, of others the type
    alone: no __repr__ or other code of the program runs.  Secrets are left out as everywhere.  Only frames
    of tracebacks are read; on CPython 3.11 this copies the variables of a frame that still runs to its
    f_locals, as every reader does there.

    lua_pcall: True replaces pcall and xpcall in the runtimes of lupa, those that exist and those made later.
    An error of Lua that a script caught and raises again then has the frames of the place where it was raised
    first, and one that was made of its text has it as its context in reports.  An exception of Python is then
    the LuaError's __context__, too.  debug.traceback shows a script the frames of coroutines and of Python.
    Else the scripts notice nothing.  LuaJIT keeps its pcall and xpcall.

    bridges: True keeps the entries of lupa's own functions (lupa/lua54.pyx) in __traceback__, for those who
    look for a fault in lupa.  Without it they are taken out where an exception leaves a call of lupa for
    Python: our reports never show them, and no tool that reads tracebacks has them then.  Those of lupa's
    other operations, such as reading a table whose metamethod fails, stay.

    newest_first: True has the reports of exceptions that crossed a border begin with the error and its
    innermost frame, as those of `show --newest-first`: in hooks, logs, print_exception and all other texts of
    living exceptions.  What led to an error then stands below it.  A report with a limit keeps Python's
    order.

    dedup: seconds in which equal exceptions, those of one fingerprint, are shown once by these hooks and in
    the logs of asyncio and concurrent.futures.  The others are counted and told in one line with their
    number, when the first and the last came, and the last one's message: with the next unhandled exception
    after that time, by uninstall(), and when the interpreter ends; a process that ends by os._exit() tells
    nothing.  Handlers that the host or others set are called for each, and at the interactive prompt each is
    shown.  Raises ValueError unless it is between 0 and 4,294,967.

    Calling it again puts our hooks first again and can add capture_at_raise, locals, crash, lua_pcall,
    bridges and newest_first.  With dedup it tells what was counted, and counts anew.
    Each sub-interpreter has its own hooks and needs its own call.

    capture_at_raise captures the stack of every exception except StopIteration, StopAsyncIteration
    and GeneratorExit where this interpreter first sees it: in the Python frame that raises it, or
    that calls the C function that does, with the native frames outside.  Without it, the stack of
    other exceptions is assembled from __traceback__ when they cross a border, and a gap says what is
    missing.  Each raise costs about as much as a capture.  Raises NotImplementedError before CPython
    3.12, and RuntimeError when others hold the tool ids 3, 4 and 5 of sys.monitoring.
    """
    from .. import _stacksplice
    from . import at_raise, interpreter, lupa, others, storms, unhandled

    if dedup is not None:
        storms.begin(dedup)
    if redact is not None:
        from .._base.redaction import redaction

        redaction(redact is not False, hook=None if isinstance(redact, bool) else redact)
    if capture_at_raise:
        at_raise.begin()
    if locals:
        _stacksplice._show_locals(True)
    if newest_first:
        from .._errors.live import set_newest_first

        set_newest_first(True)
    if crash:
        from . import crash as _crash

        _crash.begin(bool(others_first))
    interpreter.occupy_all()
    lupa.begin(lua_pcall, bridges)
    others.begin()
    unhandled.begin_in_logs()
    shell = _running_shell()
    if shell is not None:
        shell.events.register("post_run_cell", unhandled.offer_after_cell)  # once, however often


def uninstall() -> None:
    """Put back the hooks that install() found, wherever ours is still the installed one; captures
    at the raise and reports of crashes end, equal exceptions are no longer counted, and reports show no
    local variables and end with the newest frame."""
    from .. import _stacksplice
    from .._errors.live import set_newest_first
    from . import at_raise, interpreter, lupa, others, storms, unhandled
    from . import crash as _crash

    lupa.end()
    others.end()
    unhandled.end_in_logs()
    storms.end()
    at_raise.end()
    _crash.end()
    _stacksplice._show_locals(False)
    set_newest_first(False)
    interpreter.leave_all()
    shell = _running_shell()
    if shell is not None and unhandled.offer_after_cell in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", unhandled.offer_after_cell)
