"""The headers, the export list and the libraries name the same functions and data.

usage: check_exports.py ROOT LIBSTACKSPLICE LIBSTACKSPLICE_WINRT
"""

import glob
import os
import re
import subprocess
import sys


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def declared(include):
    """Names declared by our headers, and the Windows names."""
    ours, windows = set(), {"GUID_NULL"}
    for path in glob.glob(os.path.join(include, "*.h")):
        ours |= set(
            re.findall(
                r"^(?:extern )?STACKSPLICE_API[^;(]*?\b(stacksplice_\w+)\s*[(;\[]", text_of(path), flags=re.M
            )
        )
    for path in glob.glob(os.path.join(include, "winrt", "*.h")):
        text = re.sub(r"^#define(?:.*\\\n)*.*", "", text_of(path), flags=re.M)
        windows |= set(re.findall(r"STACKSPLICE_WINRT_LINK\((\w+)\)", text))
        windows |= set(re.findall(r"^STACKSPLICE_WINRT_IID\((\w+)\)", text, flags=re.M))
    return ours, windows


def listed(path):
    return set(re.findall(r"^\s+(stacksplice_\w+);", text_of(path), flags=re.M))


def exported(library):
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True
    ).stdout.splitlines()
    symbols = [line.split()[-2:] for line in lines]
    # The address sanitizer exports marks of its own.
    return {
        name.split("@")[0] for kind, name in symbols if kind != "A" and not name.startswith("__odr_asan.")
    }


def compare(what, want, got):
    for name in sorted(want - got):
        print(f"{what}: {name} is missing")
    for name in sorted(got - want):
        print(f"{what}: {name} is too much")
    return want == got


def main():
    root, core, winrt = sys.argv[1:]
    ours, windows = declared(os.path.join(root, "core", "include", "stacksplice"))
    all_names = ours | {"stacksplice_" + name for name in windows}
    ok = [
        len(ours) > 20 and len(windows) > 40,
        compare("core/stacksplice.map", all_names, listed(os.path.join(root, "core", "stacksplice.map"))),
        compare(core, all_names, exported(core)),
        compare(winrt, windows, exported(winrt)),
    ]
    print(f"{len(ours)} of our own and {len(windows)} Windows names")
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
