"""check_page_program.py PAGE FILE COMPILER LIBRARY INCLUDE : the program FILE that PAGE shows in parts.

It compiles without a warning, and each line of the page's text is a line of its output, in that order.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WARNINGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]


def run(*command):
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command[0]}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def main(page, file, compiler, library, include):
    blocks = BLOCK.findall(Path(page).read_text(encoding="utf-8"))
    library = Path(library).resolve()
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, file), Path(folder, "program")
        source.write_text("\n".join(text for info, text in blocks if info == f"c file={file}"))
        link = [library, f"-Wl,-rpath,{library.parent}"]
        run(compiler, *WARNINGS, f"-I{include}", source, "-o", program, *link)
        output = run(program)
    lines = iter(output.splitlines())
    for wanted in "".join(text for info, text in blocks if info == "text").splitlines():
        if wanted not in lines:
            sys.exit(
                f"{page} shows {wanted!r}, which is not there, or not in this order.  Printed is:\n{output}"
            )
    if "[gap" in output:
        sys.exit(f"a stack of the program has a gap:\n{output}")
    print(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
