"""Why the extension cannot be loaded, when an older core library came into the process first.

There is one core in a process: whoever comes first brings it, and the loader gives that one to all.
"""

from __future__ import annotations

import os
import re

CORE = "libstacksplice.so.0"

# The loaders' messages for a core that lacks something: glibc names the wanted version (that of the
# release that added the function), musl only the function.
_WANTED = r"STACKSPLICE_(?P<version>\d+(\.\d+)*)|\bstacksplice_\w+: symbol not found"


def loaded_core() -> tuple[str, str] | None:
    """File and version of the core that this process has, or None; loads nothing."""
    try:
        import ctypes
    except ImportError:  # this Python does not have it
        return None

    try:
        core = ctypes.CDLL(CORE, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        dladdr = ctypes.CDLL(None).dladdr
    except (OSError, AttributeError):
        return None
    core.stacksplice_version.restype = ctypes.c_char_p
    place = (ctypes.c_void_p * 4)()  # Dl_info: its first word is the name of the file
    dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if not dladdr(ctypes.cast(core.stacksplice_version, ctypes.c_void_p), place) or not place[0]:
        return None
    return os.path.abspath(os.fsdecode(ctypes.string_at(place[0]))), core.stacksplice_version().decode()


def explain(exc: ImportError, package: str) -> ImportError | None:
    """The reason of EXC in words, if it is a core that came before the one in the folder PACKAGE."""
    wanted = re.search(_WANTED, str(exc))
    loaded = loaded_core() if wanted else None
    if wanted is None or loaded is None:
        return None
    file, version = loaded
    needed = f"version {wanted['version']} or newer" if wanted["version"] else "a newer one"
    return ImportError(
        "this process has already loaded an older stacksplice core, and can have only one:\n"
        f"  loaded: {file}, version {version}\n"
        f"  needed: {needed}, by {package}\n"
        f"Upgrade the installation in {os.path.dirname(file)}, or import stacksplice first.",
        name=exc.name,
        path=exc.path,
    )
