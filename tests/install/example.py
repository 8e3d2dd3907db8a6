"""What an example of the folder examples prints is what stands beside it.

usage: example.py EXAMPLE PREFIX BUILD COMMAND...   run COMMAND in the folder EXAMPLE
       example.py --code PAGE EXAMPLES              code in C, C++ and CMake and output of PAGE are theirs
       example.py --readme README EXAMPLES          README shows code and output of them

PREFIX is where stacksplice is installed, BUILD where the example was built.  With
STACKSPLICE_WRITE_EXPECTED=1 in the environment the files are written instead of compared:
STACKSPLICE_WRITE_EXPECTED=1 ctest --test-dir build/dev -R '^install[.](prefix|example|readme)'
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


def same_everywhere(text, places):
    """TEXT without what differs between machines and runs."""
    for place, name in places:
        text = text.replace(str(place), name)
    text = re.sub(r"thread \d+", "thread 6628", text)
    return re.sub(r"0x[0-9a-f]{9,}", "0x55d0c0ffee00", text)


def without_counts(text):
    """How many frames a machine has below main, or inside an interpreter, is its own affair."""
    return re.sub(r"\d+ (glue|outer) frames?", r"some \1 frames", text)


def output_of(folder, prefix, build, command):
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    places = [(prefix, "/opt/stacksplice"), (build, "/srv/shop"), (folder, "/srv/shop")]
    status = f"exit status {done.returncode}\n" if done.returncode else ""
    return same_everywhere(done.stdout, places) + status


def compare(what, file, found, write):
    expected = file.read_text(encoding="utf-8") if file.exists() else ""
    if without_counts(found) == without_counts(expected):
        return
    if not write:
        sys.exit(f"{what} is not what {file} shows.  It is:\n{found}")
    file.write_text(found, encoding="utf-8")


def check_code(page, examples):
    sources = [file.read_text(encoding="utf-8") for file in examples.glob("*/shop.*")]
    builds = [file.read_text(encoding="utf-8").splitlines() for file in examples.glob("*/CMakeLists.txt")]
    for info, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        language = info.partition(" ")[0]
        if language in ("c", "cpp"):
            shown = any(code in source for source in sources)
        elif language == "cmake":  # the lines that matter
            shown = any(set(code.splitlines()) <= {*lines, ""} for lines in builds)
        else:
            continue
        if not shown:
            sys.exit(f"this {language} code of {page} is in no program of {examples}:\n{code}")


def check_output(page, examples):
    known = [without_counts(file.read_text(encoding="utf-8")) for file in examples.glob("*/expected.txt")]
    for info, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if info == "text" and not any(without_counts(text) in output for output in known):
            sys.exit(f"this text of {page} is printed by no program of {examples}:\n{text}")


def check_readme(readme, examples, write):
    check_code(readme, examples)
    text = readme.read_text(encoding="utf-8")
    reports = [block for info, block in BLOCK.findall(text) if not info and "in rate" in block]
    expected = (examples / "c_python" / "expected.txt").read_text(encoding="utf-8")
    report = expected.partition("\n")[2]  # after the price of the order that is right
    if len(reports) != 1:
        sys.exit(f"{readme} has {len(reports)} reports with a function rate")
    compare("the report of c_python", readme, text.replace(reports[0], report), write)


def main(arguments):
    write = os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1"
    if arguments[0] == "--code":
        check_code(Path(arguments[1]), Path(arguments[2]))
        check_output(Path(arguments[1]), Path(arguments[2]))
    elif arguments[0] == "--readme":
        check_readme(Path(arguments[1]), Path(arguments[2]), write)
    else:
        folder, prefix, build = map(Path, arguments[:3])
        found = output_of(folder, prefix, build, arguments[3:])
        compare("the output", folder / "expected.txt", found, write)
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1:])
