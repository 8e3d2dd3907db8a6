"""saved_error: what may itself fail, or wait, while an error is on its way out."""

from __future__ import annotations

from .. import _stacksplice


class saved_error:
    """``with saved_error():`` takes the thread's error out of its slot, and puts it back at the end.

    For clean-up that may itself fail, and for an ``await``, between ``originate`` and the return of
    the HRESULT: the slot is the thread's, and other tasks of the thread use it meanwhile.  The error
    comes back into the slot of the thread in which the block ends, whatever is there by then.
    """

    __slots__ = ("_saved",)

    _saved: object

    def __enter__(self) -> None:
        self._saved = _stacksplice._save_error()

    def __exit__(self, *unused: object) -> None:
        saved, self._saved = self._saved, None
        _stacksplice._restore_error(saved)
