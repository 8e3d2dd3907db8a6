"""A language in an afternoon: the interpreter is small, and its binding at most 500 lines long."""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples" / "tiny"
BINDING = ("binding.c", "binding.h", "report.c", "source.c", "include/stacksplice/tiny.h")
INTERPRETER = "tiny.c"
MAX_BINDING = 500  # lines that are not blank
MAX_INTERPRETER = 250  # lines with code: no comment, no blank line, no brace alone


def lines(name):
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def code(name):
    text = re.sub(r"/\*.*?\*/", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.S)
    return [line for line in text.splitlines() if line.strip(" {};")]


def main():
    binding = sum(1 for name in BINDING for line in lines(name) if line.strip())
    interpreter = len(code(INTERPRETER))
    print(f"binding {binding} of {MAX_BINDING} lines, interpreter {interpreter} of {MAX_INTERPRETER}")
    wrong = binding > MAX_BINDING or interpreter > MAX_INTERPRETER
    for path in FOLDER.rglob("*.[ch]"):
        if str(path.relative_to(FOLDER)) not in {*BINDING, INTERPRETER, "tiny.h"}:
            wrong = True
            print(f"{path}: not counted")
    if any("<stacksplice/" in line for name in (INTERPRETER, "tiny.h") for line in lines(name)):
        wrong = True
        print("the interpreter knows stacksplice")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
