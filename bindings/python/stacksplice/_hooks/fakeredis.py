"""fakeredis answers the error of a script with a new one of the same text: the first becomes its cause."""

from __future__ import annotations

import sys

from .._base.hints import Any

_socket: Any = None  # the class of fakeredis with the method that makes the answer
_plain: Any = None  # that method, while ours stands in its place


def _decode_error(self: Any, error: BaseException) -> Any:
    from .._stacksplice import _own_info

    answer, behind = _plain(self, error), error.__context__
    info = _own_info(behind) if behind is not None else None
    if info is not None and any([frame.language == "lua" for frame in info.stack]):
        answer.__cause__ = behind
    return answer


def begin() -> None:
    """Called for each runtime of lupa, as fakeredis makes one."""
    global _socket, _plain
    for name in ("fakeredis._socket._base", "fakeredis._basefakesocket"):  # now, in older ones
        kind: Any = getattr(sys.modules.get(name), "BaseFakeSocket", None)
        plain = getattr(kind, "_decode_error", None)
        if plain not in (None, _decode_error):
            _socket, _plain, kind._decode_error = kind, plain, _decode_error


def end() -> None:
    """Notice no more answers."""
    if _socket is not None and _socket._decode_error is _decode_error:
        _socket._decode_error = _plain
