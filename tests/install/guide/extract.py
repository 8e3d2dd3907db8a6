"""extract.py GUIDE FOLDER: the code blocks of a guide, as the files that they name.

A block that begins with ```LANGUAGE file=NAME is a part of the file NAME; those of one file follow
each other.  The block ```text output is what the program prints: the file "output".
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(?:\w+ file=(\S+)|text (output))\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main(guide, folder):
    text = Path(guide).read_text(encoding="utf-8")
    files = {}
    for name, output, body in BLOCK.findall(text):
        files.setdefault(name or output, []).append(body)
    if "output" not in files:
        sys.exit(f"{guide} does not show what its program prints")
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
