"""The lock of install() and uninstall().

Both look what is there and then put or remove something, so no two threads may do it at once.  Who holds it
runs no code of programs and imports nothing: finders of modules take it under the lock of the module.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock  # a handler of a signal may interrupt install() and call it

from .._base.hints import Any

lock = RLock()


def _renew() -> None:
    """Another thread may have held it, and a child does not have that thread."""
    own: Any = lock
    if not own._is_owned():
        own._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def add_finder(finder: Any) -> None:
    """Put FINDER first in sys.meta_path, unless it is there."""
    with lock:
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)


def remove_finder(finder: Any) -> None:
    """Take FINDER from sys.meta_path, if it is there."""
    with lock:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
