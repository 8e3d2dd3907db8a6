"""Who awaits the running asyncio task: suspended coroutines, which no native stack holds.

From Python 3.14 on futures know who awaits them, but up to 3.14.7 not that as_completed() does.
What they do not know is found from both ends: a suspended task hangs its wake-up on the future that
it waits for, and what asyncio waits with (as_completed, gather, shield, wait, wait_for, TaskGroup)
hangs a callback on each future that knows the future or the task behind it.  Only asyncio's own
callbacks are believed.
"""

from __future__ import annotations

import re
import sys
import weakref
from _thread import _local
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType

from .._base.hints import Any, Iterable, Iterator
from .._stacksplice import _AWAITED

# The reason of a gap, the reason of a seam, or a place.
_Item = str | tuple[str] | tuple[CodeType, int]

_MAX_TASKS = 32

# The core keeps names in stacks for ever: so no more than these, at most half of them made up by asyncio.
_MAX_NAMES = 256
_MAX_NAME = 100
_named_tasks: set[str] = set()

# Replaces a task that is unknown because the future cannot be asked.
_UNKNOWN = object()

_SILENT = "awaiting task unknown: its class has no hook"
_MORE = "more awaiting tasks omitted"
_OPAQUE = "task is waiting inside an object that does not expose its frames"


def awaited_by() -> list[_Item | None]:
    """Where the running task begins (None: not known), and what comes outside of that: reasons of gaps,
    seams, places (code, lasti).

    Nothing when no task runs in this thread, or none awaits it.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return []
    task = asyncio.current_task()
    found = [] if task is None else _behind(task)
    frame = _step(task.get_coro())[0] if found else None
    return [frame and (frame.f_code, frame.f_lasti), *found] if found else []


def _behind(running: Any) -> list[_Item]:
    """All that await RUNNING, depth first; tasks are counted from 1, the running one."""
    result: list[_Item] = []
    numbers = {running: 1}
    last = 1  # the task whose frames come just before
    pending = [(1, waiter) for waiter in reversed(_waiters_of(running))]
    while pending:
        awaited, task = pending.pop()
        if task is _UNKNOWN:
            result.append(_SILENT)
        elif task in numbers:
            again = f"task {awaited} (counting outward) is also awaited by task {numbers[task]}"
            result.append(_named(again, task))
        elif len(numbers) == _MAX_TASKS:
            result.append(_MORE)
            break
        else:
            numbers[task] = number = len(numbers) + 1
            branch = f"task {awaited} (counting outward) is also awaited by another task"
            result.append(_named(_AWAITED if awaited == last else branch, task))
            result += _suspended(task)
            last = number
            pending += [(number, waiter) for waiter in reversed(_waiters_of(task))]
    return result


# ---- The thread's error slot ---------------------------------------------------------------------

# .origin: the task of the slot's last error from Python, and that error's reference.
_slot = _local()


def _running_task() -> Any:
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio.current_task()


def note_origin(reference: str) -> None:
    """The error of that name is now in the thread's slot, put there by the running task."""
    task = _running_task()
    _slot.origin = None if task is None else (weakref.ref(task), reference)


def is_of_another_task(reference: str) -> bool:
    """Whether a task other than the running one put the error of that name into the slot."""
    origin = getattr(_slot, "origin", None)
    if origin is None or origin[1] != reference:
        return False
    task = _running_task()
    return task is not None and origin[0]() is not task


# ---- The frames of a suspended task --------------------------------------------------------------

# The results of asend(), athrow(), anext() and a coroutine's __await__() have no attribute for the
# object that they drive; it is the first object they refer to.
_DRIVERS = {"async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper"}


def _named(reason: str, task: Any) -> tuple[str]:
    """The seam before TASK, with its name."""
    name = _name(task)
    name = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."
    if name in ("", "None"):  # a task factory gave none
        return (reason,)
    if name not in _named_tasks:
        most = _MAX_NAMES // 2 if re.fullmatch(r"Task-\d+", name) else _MAX_NAMES
        if len(_named_tasks) >= most:
            return (reason,)
        _named_tasks.add(name)
    return (f"{reason}: {name}",)


def _name(task: Any) -> str:
    try:
        return str(task.get_name())
    except Exception:  # a custom class without it
        return ""


def _suspended(task: Any) -> list[_Item]:
    """The coroutine of TASK and what it awaits, innermost first."""
    frames: list[_Item] = []
    awaitable = task.get_coro()
    while awaitable is not None:
        if type(awaitable) is CoroutineType and (frame := awaitable.cr_frame):  # nearly all
            frames.append((frame.f_code, frame.f_lasti))
            awaitable = awaitable.cr_await
            continue
        frame, inner = _step(awaitable)
        if frame is not None:
            frames.append((frame.f_code, frame.f_lasti))
        elif inner is None and not _is_future_iterator(awaitable):
            frames.append(_OPAQUE)
        awaitable = inner
    return frames[::-1]


def _step(awaitable: Any) -> tuple[FrameType | None, Any]:
    """The frame of AWAITABLE, if it has one, and what it awaits itself."""
    if isinstance(awaitable, CoroutineType):
        return awaitable.cr_frame, awaitable.cr_await
    if isinstance(awaitable, GeneratorType):
        return awaitable.gi_frame, awaitable.gi_yieldfrom
    if isinstance(awaitable, AsyncGeneratorType):
        return awaitable.ag_frame, awaitable.ag_await
    if type(awaitable).__name__ in _DRIVERS and type(awaitable).__module__ == "builtins":
        import gc

        driven = gc.get_referents(awaitable)
        return None, driven[0] if driven else None
    return None, None


def _is_future_iterator(awaitable: Any) -> bool:
    """Where a chain of awaitables ends when the task awaits a future."""
    kind = type(awaitable)
    return kind.__name__ == "FutureIter" and kind.__module__ == "_asyncio"


# ---- Who awaits a future -------------------------------------------------------------------------


def _next_to(future: Any) -> Iterable[Any]:
    """The tasks that await FUTURE, and the futures that do in their place."""
    if sys.version_info >= (3, 14) and (known := getattr(future, "_asyncio_awaited_by", (_UNKNOWN,))):
        return known
    found: list[Any] = [] if hasattr(future, "_callbacks") else [_UNKNOWN]
    for callback, _ in getattr(future, "_callbacks", None) or ():
        owner = getattr(callback, "__self__", None)
        if getattr(owner, "_fut_waiter", None) is future:  # the task's own wake-up
            found.append(owner)
        else:
            found += _behind_callback(callback)
    return found


def _waiters_of(task: Any) -> list[Any]:
    """The tasks that await TASK, directly or through futures, the oldest first."""
    found = []
    seen = {task}
    pending = [task]
    while pending:
        for waiter in _next_to(pending.pop()):
            if waiter in seen:
                continue
            seen.add(waiter)
            if waiter is _UNKNOWN or hasattr(waiter, "get_coro"):
                found.append(waiter)
            else:
                pending.append(waiter)
    return found if len(found) < 2 else sorted(found, key=_age)


def _behind_callback(callback: Any) -> Iterator[Any]:
    """What one of asyncio's own callbacks completes, or the task whose group it belongs to."""
    function = getattr(callback, "func", callback)  # of a functools.partial
    if getattr(function, "__module__", None) not in ("asyncio.tasks", "asyncio.taskgroups"):
        return
    owner = getattr(function, "__self__", None)
    parent = getattr(owner, "_parent_task", None)
    if parent is not None:
        yield parent
    held = [*getattr(callback, "args", ()), *_completed_in(function), getattr(owner, "_done", None)]
    for value in held:
        # as_completed() has a queue, from which its caller reads.
        for future in getattr(value, "_getters", (value,)):
            if isinstance(future, sys.modules["asyncio"].Future) and not future.done():
                yield future


def _completed_in(function: Any) -> Iterator[Any]:
    """What FUNCTION, of as_completed, gather, shield or wait, holds of what it completes."""
    cells = getattr(function, "__closure__", None)
    for name, cell in zip(function.__code__.co_freevars, cells) if cells else ():
        if name in ("done", "outer", "waiter"):
            yield cell.cell_contents


def _age(task: Any) -> tuple[int, str]:
    """Names are given in order: Task-2 is older than Task-10."""
    name = "" if task is _UNKNOWN else _name(task)
    return len(name), name
