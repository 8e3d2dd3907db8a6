"""Frames of files are those of the process, and those of addr2line."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from building import HERE, PACKAGE, ROOT, built, ran
from stacksplice import _stacksplice

pytestmark = pytest.mark.any_python

if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)
if not (shutil.which("addr2line") and shutil.which("objcopy")):
    pytest.skip("no binutils", allow_module_level=True)

COUNT = 1500  # addresses of each binary
CORE = PACKAGE / "libstacksplice.so.0"
LUA = sorted((ROOT / "build" / "interpreters").glob("lua5.4-source/src/*.c"))


def in_file(path: Path, address: int, module: Path | None = None) -> list[dict]:
    """The frames at an address of a file whose first segment is at 0, and which describes MODULE."""
    found = _stacksplice._resolve_file(bytes(path), bytes(module or path), b"", address + 1)
    assert isinstance(found, list), hex(found)
    return found


def start_of(path: Path) -> int:
    """The address that offsets count from: the page of the first segment."""
    loads = [line.split() for line in ran("readelf", "-lW", path).stdout.splitlines() if "  LOAD " in line]
    return min(int(words[2], 16) for words in loads) & ~4095


def some(path: Path) -> list[int]:
    """Offsets of code in .text."""
    found = re.search(r" \.text +PROGBITS +(\w+) +\w+ +(\w+)", ran("readelf", "-SW", path).stdout)
    first, size = int(found[1], 16) - start_of(path), int(found[2], 16)
    return sorted(random.Random(1).sample(range(first, first + size), min(COUNT, size)))


def build(output: Path, compiler: str, *flags: str, sources: list[Path]) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    subprocess.run(
        [compiler, "-g", "-w", "-Wl,--build-id", *flags, "-o", output, *sources, "-lm"], check=True
    )
    return output


# ---- addr2line -----------------------------------------------------------------------------------


def rows(frames: list[dict]) -> list[tuple[str, int]]:
    return [(frame.get("function", "??"), frame.get("line", 0)) for frame in frames]


def by_addr2line(path: Path, offsets: list[int], tool: str = "addr2line") -> list[list[tuple[str, int]]]:
    start = start_of(path)
    given = "".join(f"{start + offset:#x}\n" for offset in offsets)
    answers: list[list[tuple[str, int]]] = []
    lines = iter(ran(tool, "-a", "-f", "-i", "-C", "-e", path, input=given).stdout.splitlines())
    for line in lines:
        if re.fullmatch("0x[0-9a-f]+", line):
            answers.append([])
        else:
            number = re.sub(r" \(discriminator \d+\)$", "", next(lines)).rpartition(":")[2]
            answers[-1].append((line, int(number) if number.isdigit() else 0))
    return answers


def equal(path: Path, tool: str = "addr2line") -> float:
    """For how many addresses addr2line has the same functions and lines.

    It names others where a symbol is missing, or several are in one place.
    """
    offsets = some(path)
    theirs = by_addr2line(path, offsets, tool)
    return sum(rows(in_file(path, at)) == told for at, told in zip(offsets, theirs)) / len(offsets)


@pytest.mark.parametrize(
    ("compiler", "flags", "tool"),
    [
        ("", [], "addr2line"),
        pytest.param("gcc", ["-O2", "-flto"], "addr2line", marks=pytest.mark.long),
        # addr2line of binutils 2.40 finds no inlined functions in what clang writes as DWARF 5.
        pytest.param("clang", ["-O2", "-gdwarf-5"], "llvm-addr2line", marks=pytest.mark.long),
    ],
    ids=["our core", "link-time optimisation", "clang"],
)
def test_libraries_as_addr2line_reads_them(compiler, flags, tool, tmp_path):
    if not shutil.which(tool) or (compiler and not LUA):
        pytest.skip(f"no {tool}, or the sources of Lua are not here")
    sources = [source for source in LUA if source.name not in ("lua.c", "luac.c")]
    flags = [*flags, "-shared", "-fPIC"]
    path = (
        build(tmp_path / "liblua.so", compiler, *flags, sources=sources)
        if compiler
        else built("python/stacksplice/libstacksplice.so.0")
    )
    assert equal(path, tool) > 0.85
    assert sum(len(in_file(path, address)) > 1 for address in some(path)) > COUNT / 10


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_program_of_two_compilers(compiler, tmp_path):
    """clang writes no table of addresses, and its units must not be taken for the one before them."""
    tools = {"program": compiler, "library": {"g++": "clang++", "clang++": "g++"}[compiler]}
    objects = []
    for name, tool in tools.items():
        flags = ("-gdwarf-4", "-O2", "-fno-pie", "-c")
        objects.append(build(tmp_path / f"{name}.o", tool, *flags, sources=[HERE / f"symbol_{name}.cpp"]))
    program = build(tmp_path / "program", "g++", "-no-pie", sources=objects)
    assert equal(program) > 0.9
    names = [[name for name, _ in rows(in_file(program, offset))] for offset in some(program)]
    assert ["shop::half(int)", "shop::Share<int>::of(int)", "shop::shared(int)"] in names
    for name, file in (("_start", None), ("shop::shared(int)", "symbol_library.cpp")):
        (place,) = re.findall(rf"^(\w+) T {re.escape(name)}$", ran("nm", "-C", program).stdout, re.MULTILINE)
        frame = in_file(program, int(place, 16) - start_of(program))[-1]
        assert frame["function"] == name and (Path(frame["file"]).name if file else frame.get("file")) == file
