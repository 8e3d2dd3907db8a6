"""What the compiler and the linker do against attacks is in every binary: hardening.py COMPILER FILE..."""

import re
import subprocess
import sys


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def has_flag(compiler, flag):
    """Whether the compiler knows the flag."""
    command = [compiler, flag, "-Werror", "-x", "c", "-S", "-o", "/dev/null", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def missing(file, has_canaries, has_landings):
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
    if has_landings and "X86-64" in header:
        code = subprocess.run(["objdump", "-d", file], capture_output=True, text=True, check=True).stdout
        if code.count("endbr64") < 100:
            yield "places to land for indirect branches"


def main():
    compiler, *files = sys.argv[1:]
    has_canaries = has_flag(compiler, "-fstack-protector-strong")
    has_landings = has_flag(compiler, "-fcf-protection")
    bad = [(file, what) for file in files for what in missing(file, has_canaries, has_landings)]
    for file, what in bad:
        print(f"FAILED: {file}: without {what}")
    print("ok" if not bad else f"{len(bad)} missing")
    return bool(bad)


sys.exit(main())
