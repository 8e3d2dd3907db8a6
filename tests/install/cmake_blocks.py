"""Each block of CMake of a page, behind the first lines of a project, is configured and built.

usage: cmake_blocks.py CMAKE GENERATOR PREFIX BUILD PYTHON PAGE...
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HEAD = "cmake_minimum_required(VERSION 3.22)\nproject(page LANGUAGES C)\n"
MAIN = "int main(void)\n{\n    RoClearError();\n    return 0;\n}\n"
SOURCES = re.compile(r"add_executable\(\w+ (.+)\)")


def build(cmake, generator, prefix, python, folder, block):
    sources = SOURCES.findall(block)
    if not sources:
        sys.exit(f"this block makes no program:\n{block}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(HEAD + block)
    header = "lua" if "LUA_INCLUDE_DIR" in block else "stacksplice"
    for name in " ".join(sources).split():
        (folder / name).write_text(f"#include <stacksplice/{header}.h>\n{MAIN}")
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPython3_EXECUTABLE={python}"]
    options += ["-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF"]
    subprocess.run([cmake, "-G", generator, "-S", folder, "-B", folder / "build", *options], check=True)
    subprocess.run([cmake, "--build", folder / "build"], check=True)


def main(cmake, generator, prefix, work, python, *pages):
    for page in map(Path, pages):
        blocks = re.findall(r"^```cmake\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        if not blocks:
            sys.exit(f"{page} has no CMake")
        for number, block in enumerate(blocks):
            build(cmake, generator, prefix, python, Path(work, f"{page.stem}{number}"), block)
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
