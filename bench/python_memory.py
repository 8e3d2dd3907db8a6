"""Whether memory grows while Python exceptions are originated and forgotten.

usage: python_memory.py [--quick | --tiny]
"""

import json
import resource
import sys

import stacksplice


def resident():
    """Kibibytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def fail(depth):
    if depth:
        fail(depth - 1)
    raise ValueError("no such order")


def originate(count):
    for number in range(count):
        try:
            fail(number % 20)
        except ValueError as exc:
            stacksplice.originate(exc)
    stacksplice.take_error()


def main():
    count = 10_000 if "--tiny" in sys.argv else 250_000 if "--quick" in sys.argv else 1_000_000
    originate(count // 10)
    before = resident()
    originate(count)
    print(
        json.dumps(
            {
                "row": f"memory, growth over {count} Python exceptions",
                "unit": "KiB",
                "method": "stacksplice.originate",
                "p50": resident() - before,
                "p90": resident() - before,
                "samples": 1,
                "frames": 0,
            }
        )
    )


main()
