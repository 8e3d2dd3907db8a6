"""Print what a program needs to embed the Python that runs this, as a CMake list.

The include folder, the library, and the system libraries that a static one needs.
"""

import os
import sys
import sysconfig


def find_library(variables):
    folders = [variables.get(name) for name in ("LIBDIR", "LIBPL")]
    multiarch = variables.get("MULTIARCH")
    if multiarch and variables.get("LIBDIR"):
        folders.append(os.path.join(variables["LIBDIR"], multiarch))
    for name in ("LDLIBRARY", "INSTSONAME", "LIBRARY"):
        for folder in folders:
            path = os.path.join(folder or "", variables.get(name) or "")
            if folder and os.path.isfile(path):
                return path
    return None


def main():
    variables = sysconfig.get_config_vars()
    include = sysconfig.get_path("include")
    if not os.path.isfile(os.path.join(include, "Python.h")):
        return (
            f"{sys.executable}: Python.h is not in {include}.\n"
            "Install the development files of this Python (Debian, Ubuntu: python3-dev)."
        )
    library = find_library(variables)
    if not library:
        return (
            f"{sys.executable} cannot be embedded: it has neither a shared nor a static library"
            f" ({variables.get('LDLIBRARY')} in {variables.get('LIBDIR')}).\n"
            "Install its development files (Debian, Ubuntu: python3-dev), build it with"
            " --enable-shared, or choose another Python with STACKSPLICE_PYTHON."
        )
    system = []
    if library.endswith(".a"):
        system = f"{variables.get('LIBS', '')} {variables.get('SYSLIBS', '')}".split()
    print(";".join([include, library, *system]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
