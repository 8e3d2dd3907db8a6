"""Frames and stacks: addresses are captured at once and become names only when somebody looks."""

from __future__ import annotations

# Loaded at every start of Python, unlike the package `collections`.
from _collections_abc import Sequence

from .. import _stacksplice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal, overload
else:

    def overload(function):
        return function


class Frame:
    """One frame as people read it.  Unknown fields are None.

    - kind: "native", "script" or "gap" (frames that are known to be missing; reason says why).
    - language: "native", "python", "lua", ...
    - function, file, line, end_line, column, end_column: where; columns count UTF-8 bytes from 1.
    - module, module_offset, build_id: the binary of a native frame.
    - trust: "exact" (read from the live stack), "inferred", or "traceback" (from the record that the
      interpreter kept while unwinding).
    - inlined: the next frame is the function this one was inlined into.
    - interpreter: name of the sub-interpreter or lua_State, None for the main one.
    - address: the element of the captured stack.
    - asynchronous: a gap where two stacks are joined: the outer frames await the inner ones, or
      re-raised their exception.
    - glue: what reports hide: the inside of an interpreter, a call into it, or a gap that its own
      tracebacks never mention.
    - function_offset: of a native frame: its address minus the first of the function.
    - calls: of a script frame: its name for the native function that it calls, which is the frame before it
      if the stack has that.
    """

    def __init__(
        self,
        kind: str,
        language: str,
        function: str | None = None,
        file: str | None = None,
        line: int | None = None,
        end_line: int | None = None,
        column: int | None = None,
        end_column: int | None = None,
        module: str | None = None,
        module_offset: int | None = None,
        build_id: str | None = None,
        trust: str = "exact",
        inlined: bool = False,
        reason: str | None = None,
        interpreter: str | None = None,
        address: int = 0,
        asynchronous: bool = False,
        glue: bool = False,
        function_offset: int | None = None,
        calls: str | None = None,
    ) -> None:
        self.kind = kind
        self.language = language
        self.function = function
        self.file = file
        self.line = line
        self.end_line = end_line
        self.column = column
        self.end_column = end_column
        self.module = module
        self.module_offset = module_offset
        self.build_id = build_id
        self.trust = trust
        self.inlined = inlined
        self.reason = reason
        self.interpreter = interpreter
        self.address = address
        self.asynchronous = asynchronous
        self.glue = glue
        self.function_offset = function_offset
        self.calls = calls

    __slots__ = __init__.__code__.co_varnames[1:]  # its arguments

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frame:
        """The frame that `to_dict`, or a JSON report, describes.

        Raises ValueError if data is not of that form.
        """
        try:
            values = {name: data[name] for name in cls.__slots__ if data.get(name) is not None}
            values.setdefault("kind", "script")  # as brief reports leave out
            if isinstance(values.get("address"), str):
                values["address"] = int(values["address"], 16)
            return cls(**values)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"data is not a frame as to_dict() gives it: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """What is known of the frame, by the names of the fields."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in ("asynchronous", "glue"):
            if not values[name]:
                del values[name]
        return {name: value for name, value in values.items() if value is not None}

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __reduce__(self) -> tuple[type[Frame], tuple[Any, ...]]:
        return type(self), self._values()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        if self.kind == "gap":
            return f"<Frame gap: {self.reason}>"
        place = self.file or self.module or hex(self.address)
        if self.file and self.line:
            place += f":{self.line}"
        return f"<Frame {self.language} {self.function or '?'} at {place}>"

    def __str__(self) -> str:
        """One line of a report."""
        import json

        return _stacksplice._format_frame(json.dumps(self.to_dict()))


class Stack(Sequence[Frame]):
    """One combined stack, newest frame first.

    addresses: the captured elements; the frames are looked up when they are asked for.  There can
    be more frames than addresses, where functions were inlined.
    """

    __slots__ = ("_epoch", "_frames", "_left_out", "addresses")

    def __init__(self, addresses: Iterable[int] = ()) -> None:
        self.addresses: tuple[int, ...] = tuple(addresses)
        self._frames: tuple[Frame, ...] | None = None
        self._left_out: int | None = None
        self._epoch = _stacksplice._code_epoch()

    @classmethod
    def from_frames(cls, frames: Iterable[Frame], frames_left_out: int = 0) -> Stack:
        """A stack of frames that are already known."""
        stack = cls()
        stack._left_out = frames_left_out
        stack._frames = tuple(frames)
        addresses: list[int] = []
        for inner, frame in zip((None, *stack._frames), stack._frames):
            if inner is None or not inner.inlined or inner.address != frame.address:  # they share an element
                addresses.append(frame.address)
        stack.addresses = tuple(addresses)
        return stack

    @property
    def frames_left_out(self) -> int:
        """How many frames are not here because the stack was longer than `set_max_frames` allows: 0, or
        what the gap between its two ends says."""
        if self._left_out is None:
            self._left_out = _stacksplice._frames_left_out(self.addresses)
        return self._left_out

    def _resolved(self) -> tuple[Frame, ...]:
        if self._frames is None:
            self._frames = _stacksplice._frames_of(self.addresses, self._epoch, Frame)
        return self._frames

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        return self._resolved()[index]

    def __len__(self) -> int:
        return len(self._resolved())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stack):
            return NotImplemented
        return self.addresses == other.addresses

    def __hash__(self) -> int:
        return hash(self.addresses)

    def __reduce__(self) -> tuple[Any, tuple[tuple[Frame, ...], int]]:
        # By value: addresses mean nothing in another process.
        return type(self).from_frames, (self._resolved(), self.frames_left_out)

    def format(
        self, order: Literal["newest_first", "newest_last"] = "newest_last", *, all_frames: bool = False
    ) -> list[str]:
        """The stack as lines for people, each ending in a newline.

        order: "newest_last", as Python shows a traceback, or "newest_first"; all_frames: the inside of
        interpreters too, which is otherwise hidden.  Of a cycle of up to eight frames, what comes after
        three rounds is counted.  Raises ValueError for another order.
        """
        from .._base.lines import folded

        if order not in ("newest_first", "newest_last"):
            raise ValueError(f"order must be 'newest_first' or 'newest_last', not {order!r}")
        shown = [f"    {frame}\n" for frame in self._resolved() if all_frames or not frame.glue]
        return [*folded(shown if order == "newest_first" else shown[::-1])]

    def __str__(self) -> str:
        return "".join(self.format())

    def __repr__(self) -> str:
        return f"<Stack of {len(self.addresses)} elements>"
