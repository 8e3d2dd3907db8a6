"""check_binaries.py LIBRARY INCLUDE... : binaries.cpp and two plugins with every compiler and C++ library.

Hidden are the symbols of classes in each module of pybind11 and in most plug-ins.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = Path(sys.argv[1]).resolve()
OPTIONS = ["-std=c++17", "-O1", *(f"-I{path}" for path in sys.argv[2:])]
LINK = [str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}", "-ldl", "-pthread"]


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


COMPILERS = (
    ["g++", "-fvisibility=hidden"],
    ["clang++"],
    ["clang++", "-stdlib=libc++", "-fvisibility=hidden"],
)


def compilers(folder):
    """Those that make a program here."""
    source = folder / "empty.cpp"
    source.write_text("#include <string>\nint main() { return std::string().size(); }\n")
    for words in COMPILERS:
        if shutil.which(words[0]) and run(*words, source, "-o", folder / "empty").returncode == 0:
            yield words


def wrong(folder, words):
    """What the compiler or the program says if it fails; else nothing."""
    plugins = [folder / "one.so", folder / "two.so"]
    program = folder / "program"
    builds = [[*words, *OPTIONS, "-fPIC", "-shared", HERE / "plugin.cpp", "-o", plugins[0], *LINK]]
    builds.append([*words, *OPTIONS, HERE / "binaries.cpp", "-o", program, *LINK])
    for build in builds:
        done = run(*build)
        if done.returncode:
            return done.stderr
    shutil.copy(*plugins)
    done = run(program, *plugins)
    return f"status {done.returncode}: {done.stdout}{done.stderr}" if done.returncode else ""


def main():
    failed = tried = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in compilers(folder):
            tried += 1
            said = wrong(folder, words)
            failed += bool(said)
            print(f"{' '.join(words)}: {said or 'right'}")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
