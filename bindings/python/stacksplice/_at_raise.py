"""Captures at the raise itself, through sys.monitoring of CPython 3.12 and newer."""

from __future__ import annotations

import sys

from . import _stacksplice

# The tool id of sys.monitoring that is ours, while captures at the raise are on.
_tool: int | None = None
_TOOL_NAME = "stacksplice"
# Those that have no name of their own come first; debuggers, coverage and profilers keep theirs.
_TOOLS = (4, 3, 5)


def begin() -> None:
    """Have the stack of each exception taken where it is raised."""
    global _tool
    if sys.version_info < (3, 12):
        version = sys.version.partition(" ")[0]
        raise NotImplementedError(
            f"capture_at_raise needs sys.monitoring of CPython 3.12 or newer; this is {version}"
        )
    monitoring = sys.monitoring
    if _tool is not None and monitoring.get_tool(_tool) == _TOOL_NAME:
        return
    for tool in _TOOLS:
        try:
            monitoring.use_tool_id(tool, _TOOL_NAME)
        except ValueError:  # somebody's
            if monitoring.get_tool(tool) == _TOOL_NAME:
                return  # another thread was faster
            continue
        monitoring.register_callback(tool, monitoring.events.RAISE, _stacksplice._raised)
        monitoring.set_events(tool, monitoring.events.RAISE)
        _tool = tool
        return
    holders = ", ".join(f"{tool} by {monitoring.get_tool(tool)!r}" for tool in sorted(_TOOLS))
    raise RuntimeError(f"capture_at_raise needs a tool id of sys.monitoring; held are {holders}")


def end() -> None:
    """The id is given back, unless somebody else took it meanwhile."""
    global _tool
    tool, _tool = _tool, None
    if sys.version_info < (3, 12) or tool is None:
        return
    monitoring = sys.monitoring
    if monitoring.get_tool(tool) == _TOOL_NAME:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.RAISE, None)
        monitoring.free_tool_id(tool)
