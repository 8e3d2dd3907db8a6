"""Names for annotations, without the module `typing`: every program would wait for its import."""

from _collections_abc import Callable as Callable  # loaded at every start of Python
from _collections_abc import Iterable as Iterable
from _collections_abc import Iterator as Iterator
from _collections_abc import Sequence as Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
else:
    Any = object
