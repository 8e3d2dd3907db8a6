"""The library's static probes have as many arguments as the events have parameters.

usage: check_probes.py LIBSTACKSPLICE
"""

import re
import subprocess
import sys

# Bytes of each argument; negative: signed.
WANTED = {"originate_error": [-4, 4, 8], "transform_error": [-4, -4, 4, 8]}


def main():
    notes = subprocess.run(
        ["readelf", "-W", "-n", sys.argv[1]], check=True, text=True, capture_output=True
    ).stdout
    found = {}
    for name, arguments in re.findall(
        r"Provider: stacksplice\s+Name: (\w+)\s.*?Arguments: ([^\n]*)", notes, flags=re.S
    ):
        found.setdefault(name, [int(size) for size in re.findall(r"(-?\d+)@", arguments)])
    print(found)
    return 0 if found == WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
