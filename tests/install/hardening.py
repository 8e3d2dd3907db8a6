"""What the compiler and the linker do against attacks is in each binary: hardening.py COMPILER FOLDER FILE...

FOLDER has the object files."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def has_flag(compiler, flag):
    """Whether the compiler knows the flag."""
    command = [compiler, flag, "-Werror", "-x", "c", "-S", "-o", "/dev/null", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def marks(file):
    """That the processor may check all branches and returns of the file."""
    return re.findall(r"\b(?:IBT|SHSTK)\b", readelf("-n", file))


def marks_of_the_toolchain(compiler):
    """Those of a library that has only what the toolchain links into each."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/empty.so"
        command = [compiler, "-fcf-protection", "-shared", "-fPIC", "-x", "c", "-o", library, "/dev/null"]
        subprocess.run(command, check=True)
        return marks(library)


def unmarked(folder):
    """Object files of ours without the marks, which a linked file has when all of its parts do."""
    files = [
        str(file) for part in ("core", "bindings", "inspect") for file in Path(folder, part).rglob("*.o")
    ]
    for notes in readelf("-n", *files).split("\nFile: ")[1:]:
        if "IBT, SHSTK" not in notes:
            yield notes.partition("\n")[0], "the marks of branches and returns that can be checked"


def missing(file, has_canaries, landing_marks):
    """What the file lacks, in words."""
    header, dynamic, symbols = readelf("-h", "-l", file), readelf("-d", file), readelf("--dyn-syms", file)
    if "GNU_RELRO" not in header:
        yield "RELRO"
    if not re.search(r"BIND_NOW|Flags:.*\bNOW\b", dynamic):
        yield "BIND_NOW"
    if re.search(r"GNU_STACK\s.*\bRWE\b", header):
        yield "a stack without code"
    if has_canaries and "__stack_chk_fail" not in symbols:
        yield "stack protector"
    if not re.search(r"\b__(?!stack)\w+_chk\b", symbols):
        yield "_FORTIFY_SOURCE"
    if re.search(r"PATH\).*\[:|PATH\).*::|PATH\).*:\]", dynamic):
        yield "a search path whose elements are all folders"
    if "X86-64" in header and landing_marks is not None:
        if marks(file) != landing_marks:
            yield f"the marks {landing_marks}"
        code = subprocess.run(["objdump", "-d", file], capture_output=True, text=True, check=True).stdout
        if code.count("endbr64") < 100:
            yield "places to land for indirect branches"


def main():
    compiler, folder, *files = sys.argv[1:]
    has_canaries = has_flag(compiler, "-fstack-protector-strong")
    landing_marks = marks_of_the_toolchain(compiler) if has_flag(compiler, "-fcf-protection") else None
    bad = [(file, what) for file in files for what in missing(file, has_canaries, landing_marks)]
    if landing_marks is not None:
        bad += unmarked(folder)
    for file, what in bad:
        print(f"FAILED: {file}: without {what}")
    print("ok" if not bad else f"{len(bad)} missing")
    return bool(bad)


sys.exit(main())
