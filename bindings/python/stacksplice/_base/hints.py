"""Names for annotations, without the module `typing`: every program would wait for its import."""

from _collections_abc import Callable, Iterable, Iterator, Sequence  # loaded at every start of Python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object

__all__ = ["Any", "Callable", "Iterable", "Iterator", "Sequence"]
