"""deadline: a report of every thread when a block is not done in time."""

from __future__ import annotations

from math import ceil

from .. import _stacksplice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

_MOST = 0xFFFFFFFF  # milliseconds
_SUSPENDED = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def milliseconds(seconds: float, name: str = "seconds") -> int:
    """NAME says in errors what SECONDS are."""
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(seconds).__name__}")
    if not 0 <= seconds <= _MOST / 1000:
        raise ValueError(f"{name} must be between 0 and {_MOST // 1000}, not {seconds}")
    return ceil(seconds * 1000)


def _checked_name(name: str | None) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string or None, not {type(name).__name__}")
    if name is not None and "\0" in name:
        raise ValueError("name must have no null character")
    return name


class deadline(_stacksplice._Deadline):
    """``with deadline(5):`` reports the stacks of all threads if the block is not done in 5 seconds.

    The report goes to stderr and to a file, the late thread first, and the program goes on.  NAME
    says in it what is late.

    interrupt: True also ends Lua that the late block runs in runtimes of lupa that are attached, by a
    TimeoutError that Lua's own pcall does not swallow.  The late thread must not block the signal.
    Python and C go on; so does code that LuaJIT has compiled.

    Blocks nest, in any threads.  Before a function, ``@deadline(5)`` stands for a block around it.
    Entering a block raises MemoryError with 16,384 of them begun, and RuntimeError if it is to
    interrupt but no runtime was attached.
    """

    __slots__ = ("_arguments",)

    def __init__(self, seconds: float, *, name: str | None = None, interrupt: bool = False) -> None:
        if not isinstance(interrupt, bool):
            raise TypeError(f"interrupt must be a bool, not {type(interrupt).__name__}")
        self._arguments = (seconds, name, interrupt)
        super().__init__(milliseconds(seconds), _checked_name(name), interrupt)

    def __call__(self, function: _Function, /) -> _Function:
        from functools import wraps

        seconds, name, interrupt = self._arguments
        if name is None:
            name = getattr(function, "__qualname__", None)
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _SUSPENDED:
            raise TypeError(f"{name} runs after its call has returned: use `with deadline(...):` in it")

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with deadline(seconds, name=name, interrupt=interrupt):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]
