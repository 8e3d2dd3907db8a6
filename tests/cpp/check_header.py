"""check_header.py INCLUDE... : stacksplice.hpp with every compiler there is and every standard.

Without a warning of theirs, also without RTTI; where it cannot work it says so in one line.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"
USE = """
#include <stacksplice/stacksplice.hpp>
#include <memory>
struct shop_error : stacksplice::error {
    shop_error() : stacksplice::error(E_BOUNDS, "shop") {}
};
HRESULT use(int n, std::unique_ptr<int> &out)
{
    const HRESULT hr = stacksplice::guard([&] { if (n) throw shop_error(); });
    stacksplice::check(hr);
    return stacksplice::guard([&] { return std::make_unique<int>(n); }, out);
}
"""


# Mistakes, and what a compiler says of each.
WRONG = (
    ("stacksplice::guard([] {});", "unused-result]"),
    ("(void)stacksplice::guard([] { return 3; });", "stacksplice::hresult"),
    ("int n; (void)stacksplice::guard([] {}, n);", "this function has no result"),
)


def compile_with(compiler, folder, *options, text=USE):
    source = Path(folder) / "use.cpp"
    source.write_text(text)
    includes = [f"-I{path}" for path in sys.argv[1:]]
    command = [compiler, *includes, *options, "-c", str(source), "-o", str(Path(folder) / "use.o")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    failed = tried = 0
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    with tempfile.TemporaryDirectory() as folder:
        for compiler in compilers:
            newest = "23" if compiler == "g++" else "2b"
            variants = [
                *((f"-std=c++{standard}", "-fsyntax-only") for standard in ("17", "20", newest)),
                ("-std=c++17", "-fno-rtti", "-O1", "-fno-pie"),
                ("-std=c++20", "-O2", "-fPIC", "-flto"),
            ]
            for options in variants:
                done = compile_with(compiler, folder, *WARNINGS.split(), *options)
                tried += 1
                if done.returncode:
                    failed += 1
                    print(f"FAILED {compiler} {options}\n{done.stderr}")
            for mistake, words in WRONG:
                text = f"{USE}void wrong() {{ {mistake} }}\n"
                done = compile_with(compiler, folder, "-std=c++17", "-Werror=unused-result", text=text)
                tried += 1
                if done.returncode == 0 or words not in done.stderr:
                    failed += 1
                    print(f"FAILED {compiler}: of {mistake} it says\n{done.stderr}")
            for options, words in (
                (("-std=c++17", "-fno-exceptions"), "needs C++ exceptions"),
                (("-std=c++14",), "needs C++17"),
            ):
                done = compile_with(compiler, folder, *options)
                tried += 1
                if done.returncode == 0 or words not in done.stderr.split("error:")[1]:
                    failed += 1
                    print(f"FAILED {compiler} {options}: {words!r} is not what it says first\n{done.stderr}")
    print(f"{', '.join(compilers)}: {tried} compilations, {failed} failed")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
