"""The hooks of the interpreter for exceptions that nobody handled.

Polite: each of ours calls the hook it found, unless that is the interpreter's own, and is removed
only where it is still the installed one.  Programs ask whether a hook is the interpreter's own, as
in ``sys.excepthook is sys.__excepthook__``.  Where it was, one of ours has both names.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from .. import _stacksplice
from .._base.hints import Any, Callable
from .lock import lock
from .unhandled import show, tell_failure


class Place:
    """Where the interpreter looks for a hook: sys.excepthook."""

    __slots__ = ("active", "holder", "name", "own", "own_name")

    def __init__(self, holder: Any, name: str) -> None:
        self.active = False
        self.holder = holder
        self.name = name
        self.own_name = f"__{name}__"
        self.own: Callable[..., object] = getattr(holder, self.own_name)

    def occupy(self) -> None:
        """Put a hook there, unless one of ours is there."""
        found = getattr(self.holder, self.name, self.own)
        self.active = True
        hook = found if isinstance(found, Hook) else Hook(self, found)
        setattr(self.holder, self.name, hook)
        if hook.found is self.own:
            setattr(self.holder, self.own_name, hook)

    def leave(self) -> None:
        """Put back what was found if ours is still there.  One that others call only passes on."""
        self.active = False
        for name in (self.own_name, self.name):
            found = current = getattr(self.holder, name, self.own)
            while isinstance(found, Hook):
                found = found.found
            if found is not current:
                setattr(self.holder, name, found)

    def asks(self, exc: BaseException) -> bool:
        """Whether the interpreter shows EXC, maybe through hooks of others.  Programs that call
        its hook themselves want what that shows."""
        return getattr(sys, "last_value", None) is exc or _stacksplice._is_asked(exc)

    def exception(self, *arguments: Any) -> object:
        """The exception that the hook is called with; None if it is not to be shown."""
        return arguments[1]

    def show(self, exc: BaseException, *arguments: Any) -> bool:
        """Whether EXC was shown, or needs not be."""
        try:
            return show(exc)
        finally:
            if type(exc) is KeyboardInterrupt and _ends_program():
                _note_interrupt()


class ThreadPlace(Place):
    """threading.excepthook."""

    __slots__ = ()

    def asks(self, exc: BaseException) -> bool:
        return True

    def exception(self, args: Any) -> object:
        # The interpreter does not show it: a thread ends itself this way.
        return None if isinstance(args.exc_value, SystemExit) else args.exc_value

    def show(self, exc: BaseException, args: Any) -> bool:
        name = args.thread.name if args.thread is not None else get_ident()
        # A thread remembers the sys.stderr of its creation.
        return show(exc, lambda: f"Exception in thread {name}:\n", getattr(args.thread, "_stderr", None))


class UnraisablePlace(Place):
    """sys.unraisablehook."""

    __slots__ = ()

    def asks(self, exc: BaseException) -> bool:
        return True

    def exception(self, unraisable: sys.UnraisableHookArgs) -> object:
        return unraisable.exc_value

    def show(self, exc: BaseException, unraisable: sys.UnraisableHookArgs) -> bool:
        return show(exc, lambda: self._header(unraisable))

    @staticmethod
    def _header(unraisable: sys.UnraisableHookArgs) -> str:
        if unraisable.object is None:
            return f"{unraisable.err_msg}:\n" if unraisable.err_msg else ""
        try:
            what = repr(unraisable.object)
        except Exception:
            what = "<object repr() failed>"
        return f"{unraisable.err_msg or 'Exception ignored in'}: {what}\n"


class Hook:
    """Shows an exception, then calls the hook that was found, unless that is the interpreter's own.

    What a call needs is reached from here: at the end of the interpreter modules lose their contents
    before their functions are called for the last time.
    """

    # Thread and address of what is being shown.  If install() was called again after other hooks
    # were set, those are between two of ours; we show an exception only once.
    _being_shown: set[tuple[int, int]] = set()

    def __init__(self, place: Place, found: Callable[..., object]) -> None:
        # To programs it is the function whose place it takes.  functools would load more than we have.
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            if hasattr(found, name):
                setattr(self, name, getattr(found, name))
        self.__wrapped__ = found
        self.place = place
        self.found = found
        # A second report: tracebacks have other languages' frames.
        self.found_draws = getattr(found, "__module__", None) == "rich.traceback"
        self.offer = _stacksplice._offer_unhandled
        self.ends_here = _stacksplice._ends_here
        self.ident = get_ident
        self.tell_failure = tell_failure

    def __call__(self, *arguments: Any) -> object:
        try:
            exc = self.place.exception(*arguments) if self.place.active else None
        except (AttributeError, IndexError, TypeError):  # whose arguments are wrong
            exc = None
        is_last = self.found is self.place.own
        if not isinstance(exc, BaseException) or (is_last and not self.place.asks(exc)):
            return self.found(*arguments)
        key = (self.ident(), id(exc))
        if key in self._being_shown:
            return None if is_last else self.found(*arguments)
        self._being_shown.add(key)
        try:
            try:
                self.ends_here(exc)  # from here: what called this method is what the exception came to
                shown = self.offer(exc) if self.found_draws else self.place.show(exc, *arguments)
            except Exception as failure:
                self.tell_failure(failure)
                shown = False
            return None if shown and is_last else self.found(*arguments)
        finally:
            self._being_shown.discard(key)


def _ends_program() -> bool:
    """Whether the hook was called by the interpreter, outside of all code of the program."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code in (Hook.__call__.__code__, getattr(sys.excepthook, "__code__", None))


def _note_interrupt() -> None:
    """CPython remembers that an interrupt ended the last text that it executed, and then ends by that
    signal.  A report may import modules that execute texts, as tokenize does."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        pass


_places: list[Place] = []


def occupy_all() -> None:
    """Put a hook of ours into every place where there is none."""
    import threading  # not at the top: many programs never need it

    with lock:
        if not _places:
            _places.append(Place(sys, "excepthook"))
            _places.append(ThreadPlace(threading, "excepthook"))
            _places.append(UnraisablePlace(sys, "unraisablehook"))
        for place in _places:
            place.occupy()


def leave_all() -> None:
    """Put back what was found, wherever ours is still the installed one."""
    with lock:
        for place in _places:
            place.leave()
