"""extract.py GUIDE FOLDER: the code blocks of a guide, as the files that they name.

A block that begins with ```LANGUAGE file=NAME is a part of the file NAME; those of one file follow
each other.  What is needed besides stands in the folder rest: NAME.head before the parts of a file, NAME.tail
behind them, whole files, and "output", which is what the program prints.
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
REST = Path(__file__).resolve().parent / "rest"


def main(guide, folder):
    text = Path(guide).read_text(encoding="utf-8")
    files = {}
    for name, body in BLOCK.findall(text):
        files.setdefault(name, []).append(body)
    for file in sorted(REST.iterdir()):
        parts = files.setdefault(file.name.removesuffix(".head").removesuffix(".tail"), [])
        parts.insert(0 if file.suffix == ".head" else len(parts), file.read_text(encoding="utf-8"))
    for name, parts in files.items():
        path = Path(folder, name)
        content = "\n".join(parts)
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    unnamed = re.findall(r"^```(c|cpp|python|lua)$", text, re.MULTILINE)
    if unnamed:
        sys.exit(f"{guide}: {len(unnamed)} blocks of code name no file, and so are not tested")


if __name__ == "__main__":
    main(*sys.argv[1:])
