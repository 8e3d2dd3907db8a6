"""The code on docs/inside/bindings.md is the code of examples/tiny, and each function it names exists."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "inside" / "bindings.md"
FOLDERS = ("examples/tiny", "core/include/stacksplice")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PATH = re.compile(r"`((?:bindings|core|tests|docs)/[\w./-]+)`")


def read(folder):
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.[ch]"))}


def main():
    page = PAGE.read_text(encoding="utf-8")
    sources = [text for folder in FOLDERS for text in read(folder).values()]
    wrong = []
    blocks = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        if not any(block in text for text in sources):
            wrong.append(f"no file of examples/tiny has this code:\n{block}")
    for name in sorted(set(re.findall(r"\bstacksplice_\w+|\bSTACKSPLICE_\w+", page))):
        if not any(name in text for text in sources):
            wrong.append(f"{name}: there is nothing of that name")
    for target in LINK.findall(page):
        if not (PAGE.parent / target).exists():
            wrong.append(f"{target}: there is no such file")
    for path in PATH.findall(page):
        if not (ROOT / path).exists():
            wrong.append(f"{path}: there is no such file")
    for line in wrong:
        print(line)
    print(f"{len(blocks)} pieces of code, {len(wrong)} wrong")
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
