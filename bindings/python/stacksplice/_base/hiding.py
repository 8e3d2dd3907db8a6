"""hide(): what brief reports count in one line, beside the frameworks that they know."""

from __future__ import annotations

from .. import _stacksplice


def _checked(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__}")
    if not value or "\0" in value:
        raise ValueError(f"{what} must be a name, not {value!r}")
    return value


def hide(*libraries: str, module: str | None = None, file: str | None = None) -> None:
    """Have reports hide the frames of libraries, from now on, as they hide frameworks.

    Where a frame of the user is further in, one line counts them: ``... 9 frames of pandas hidden``.  It is
    for the whole process and all languages.  all_frames shows them, and the JSON always has them.
    ``STACKSPLICE_HIDE=pandas:/srv/shop/vendor/`` in the environment does the same for a program that nobody
    can change, and for the commands that show reports.

    libraries: as they are imported ("pandas", "company.middleware"), in the folders where Python and Lua have
    their libraries.

    module: one of your own, wherever its file is: "shop.middleware".

    file: a part of a path, in which "*" stands for the rest of a name: "/srv/shop/vendor/".

    Raises TypeError for other types or without any, ValueError for an empty text, one of more than 1023
    bytes, and a library with a "/"; MemoryError, also when 256 were hidden.
    """
    if not libraries and module is None and file is None:
        raise TypeError("hide() needs a library, module= or file=")
    for library in [_checked("a library", each) for each in libraries]:
        _stacksplice._hide(library, None)
    if module is not None:
        path = _checked("module", module).replace(".", "/")
        _stacksplice._hide(module, f"/{path}/")
        _stacksplice._hide(module, f"/{path}.")
    if file is not None:
        _stacksplice._hide(_checked("file", file), file)
