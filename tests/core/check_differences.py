"""docs/reference/winrt-differences.md names a test for each choice, and every named test exists.

usage: check_differences.py ROOT
"""

import glob
import os
import re
import sys

TEST = re.compile(r"`([A-Za-z_0-9]+): (test_[A-Za-z_0-9]+)`")


def tests_of(root):
    """(file without extension, test) of all C tests that are really run."""
    found = set()
    for path in glob.glob(os.path.join(root, "tests", "*", "*_test.c")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        stem = os.path.basename(path)[:-2]
        found |= {(stem, name) for name in re.findall(r"^\w*TEST\w*\((test_\w+)", text, re.M)}
    for path in glob.glob(os.path.join(root, "tests", "*", "*_test.py")):
        with open(path, encoding="utf-8") as file:
            found |= {
                (os.path.basename(path)[:-3], name) for name in re.findall(r"def (test_\w+)", file.read())
            }
    return found


def main():
    root = sys.argv[1]
    path = os.path.join(root, "docs", "reference", "winrt-differences.md")
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    known, rows, bad = tests_of(root), 0, 0
    for number, line in enumerate(lines, 1):
        if not re.match(r"\| [0-9a-z]", line):
            continue
        rows += 1
        named = TEST.findall(line)
        if not named:
            bad += 1
            print(f"{path}:{number}: names no test")
        for name in named:
            if name not in known:
                bad += 1
                print(f"{path}:{number}: there is no test {name[1]} in {name[0]}")
    print(f"{rows} choices, {bad} wrong")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
