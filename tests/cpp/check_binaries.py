"""check_binaries.py LIBRARY INCLUDE... : programs built and run with every compiler and C++ library.

binaries.cpp loads plugin.cpp twice, the second time with another version of the header; format.cpp
formats a trace by what there is.  Hidden are the symbols of classes in each module of pybind11 and in
most plug-ins.
"""

import re
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


UNDEFINED = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]  # also of what only has an interface
COMPILERS = (
    ["g++", "-fvisibility=hidden", *UNDEFINED],
    ["clang++", *UNDEFINED],
    ["clang++", "-stdlib=libc++", "-fvisibility=hidden"],
)
STATIC = ["-static-libgcc", "-static-libstdc++"]  # a second copy of the unwinder in the process


def compilers(folder):
    """Those that make a program here."""
    source = folder / "empty.cpp"
    source.write_text("#include <string>\nint main() { return std::string().size(); }\n")
    for words in COMPILERS:
        if shutil.which(words[0]) and run(*words, source, "-o", folder / "empty").returncode == 0:
            yield words


def write_other_version(folder):
    """Into FOLDER: the headers of C++ as a version has them whose errors have more members."""
    for path in sys.argv[2:]:
        for header in Path(path).glob("stacksplice/*.hpp"):
            text = re.sub(r"\bv1\b", "v2", header.read_text())
            if header.name == "error.hpp":
                state = "    com_ptr<detail::error_state> state_;"
                assert text.count(state) == 1
                text = text.replace(state, "    long more_[4] = {};" + state)
            (folder / header.name).write_text(text)


def unique_symbols(library):
    """What keeps a library mapped for ever: symbols that are one in the whole process."""
    lines = run("nm", "-D", "--defined-only", library).stdout.splitlines()
    return [line.split()[-1] for line in lines if line.split()[1] == "u"]


def wrong_symbols(folder, words):
    """The header's unique symbols, with each inline function in the library."""
    library = folder / "all.so"
    keep = ["-fkeep-inline-functions"] if words[0] == "g++" else []
    done = run(
        words[0], *keep, "-std=c++17", "-fPIC", "-shared", *OPTIONS, HERE / "plugin.cpp", "-o", library
    )
    if done.returncode:
        return done.stderr
    found = [name for name in unique_symbols(library) if "stacksplice" in name]
    return f"unique symbols: {found}" if found else ""


def wrong_build(*builds):
    """What the compiler says of the first of these commands that fails; else nothing."""
    for build in builds:
        done = run(*build)
        if done.returncode:
            return done.stderr
    return ""


def compiled(folder, words):
    """What the compiler says against the program and the plugin in both versions: objects in FOLDER."""
    plugin = ["-fPIC", "-c", HERE / "plugin.cpp", "-o"]
    return wrong_build(
        [*words, *plugin, folder / "one.o", *OPTIONS],
        [*words, f"-I{folder / 'v2'}", *plugin, folder / "two.o", *OPTIONS],
        [*words, "-c", HERE / "binaries.cpp", "-o", folder / "binaries.o", *OPTIONS],
    )


def wrong(folder, words, of_plugins=(), of_program=()):
    """What the linker or the program says if it fails; else nothing.  The objects are compiled."""
    plugins = [folder / "one.so", folder / "two.so"]
    return wrong_build(
        *([*words, "-shared", *of_plugins, each.with_suffix(".o"), "-o", each, *LINK] for each in plugins),
        [*words, *of_program, folder / "binaries.o", "-o", folder / "binaries", *LINK],
    ) or failed_run(folder / "binaries", *plugins)


def failed_run(*command):
    done = run(*command)
    return f"status {done.returncode}: {done.stdout}{done.stderr}" if done.returncode else ""


def wrong_format(folder, words):
    # Without optimisation: std::format takes compilers longer than all else here together.
    options = [*OPTIONS, "-std=c++20", "-O0"]
    done = run(*words, *options, HERE / "format.cpp", "-o", folder / "format", *LINK)
    return done.stderr if done.returncode else failed_run(folder / "format")


def cases(folder, words):
    yield "", compiled(folder, words) or wrong(folder, words)
    yield "format", wrong_format(folder, words)
    yield "symbols", wrong_symbols(folder, words)
    if "-stdlib=libc++" not in words:
        plain = [word for word in words if word not in UNDEFINED]
        said = compiled(folder, plain)  # once for both
        yield "static in the plugins", said or wrong(folder, plain, of_plugins=STATIC)
        yield "static in the program", said or wrong(folder, plain, of_program=[*STATIC, "-rdynamic"])


def main():
    failed = tried = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "v2" / "stacksplice").mkdir(parents=True)
        write_other_version(folder / "v2" / "stacksplice")
        for words in compilers(folder):
            for case, said in cases(folder, words):
                tried += 1
                failed += bool(said)
                print(f"{' '.join(words)} {case}: {said or 'right'}")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
