"""Captures at the raise itself, through sys.monitoring of CPython 3.12 and newer."""

from __future__ import annotations

import sys
from types import CodeType

from .. import _stacksplice
from .._base.hints import Any, Callable
from .lock import lock

_monitoring: Any = getattr(sys, "monitoring", None)  # from CPython 3.12 on
# Our tool id of sys.monitoring, while captures at the raise are on.
_tool: int | None = None
_TOOL_NAME = "stacksplice"
# The ids without a predefined name come first; debuggers, coverage and profilers keep theirs.
_TOOLS = (4, 3, 5)


def begin() -> None:
    """Have the stack of each exception taken where it is raised."""
    with lock:
        _take_tool("RAISE", _stacksplice._raised)


def begin_below_others() -> None:
    """Have it taken where the exception leaves Python for code of another language, if that can be had:
    without, what the exception shows at the border must do."""
    if _monitoring is None:
        return
    with lock:
        if _tool is None:
            try:
                # Not RAISE: most exceptions are handled in the frame that raises them, and leave none.
                _take_tool("PY_UNWIND", _stacksplice._unwound)
            except RuntimeError:
                pass


def end() -> None:
    """The tool id is given back, unless somebody else took it meanwhile."""
    global _tool
    with lock:
        tool, _tool = _tool, None
        if tool is not None and _monitoring.get_tool(tool) == _TOOL_NAME:
            _listen(tool, "NO_EVENTS", None)
            _monitoring.free_tool_id(tool)


def _take_tool(event: str, callback: Callable[[CodeType, int, BaseException], None]) -> None:
    global _tool
    if _monitoring is None:
        version = sys.version.partition(" ")[0]
        raise NotImplementedError(
            f"capture_at_raise requires sys.monitoring (CPython 3.12 or newer), but this is Python {version}"
        )
    if _tool is not None and _monitoring.get_tool(_tool) == _TOOL_NAME:
        _listen(_tool, event, callback)
        return
    for tool in _TOOLS:
        try:
            _monitoring.use_tool_id(tool, _TOOL_NAME)
        except ValueError:  # in use
            continue
        try:
            _listen(tool, event, callback)
        except BaseException:  # without memory
            _monitoring.free_tool_id(tool)
            raise
        _tool = tool
        return
    holders = ", ".join([f"{tool} by {_monitoring.get_tool(tool)!r}" for tool in sorted(_TOOLS)])
    raise RuntimeError(f"capture_at_raise needs a free sys.monitoring tool id; already in use: {holders}")


def _listen(tool: int, event: str, callback: Callable[[CodeType, int, BaseException], None] | None) -> None:
    """Have CALLBACK, and no other of ours, called for EVENT."""
    for name in ("RAISE", "PY_UNWIND"):
        number = getattr(_monitoring.events, name)
        _monitoring.register_callback(tool, number, callback if name == event else None)
    _monitoring.set_events(tool, getattr(_monitoring.events, event))
