"""Frames of files are those of the process and of addr2line; each difference has a reason."""

from __future__ import annotations

import ctypes
import ctypes.util
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from binutils_truth import Truth, locations
from building import HERE, PACKAGE, ROOT
from stacksplice import _stacksplice

pytestmark = pytest.mark.any_python

if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)
if not (shutil.which("addr2line") and shutil.which("objcopy")):
    pytest.skip("no binutils", allow_module_level=True)

COUNT = 1500  # addresses of each binary
LUA = sorted((ROOT / "build" / "interpreters").glob("lua5.4-source/src/*.c"))


def in_file(path: Path, address: int, module: Path | None = None) -> list[dict]:
    """The frames at an address of a file whose first segment is at 0, and which describes MODULE."""
    found = _stacksplice._resolve_file(bytes(path), bytes(module or path), b"", address + 1)
    assert isinstance(found, list), hex(found)
    return found


def some(addresses: range, count: int = COUNT) -> list[int]:
    return sorted(random.Random(1).sample(addresses, min(count, len(addresses))))


def build(output: Path, compiler: str, *flags: str, sources: list[Path]) -> Path:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    command = [compiler, "-g", "-w", "-shared", "-fPIC", "-Wl,--build-id", *flags, "-o", output, *sources]
    subprocess.run([*command, "-lm"], check=True, capture_output=True)
    return output


def lua_sources() -> list[Path]:
    if not LUA:
        pytest.skip("the sources of Lua are not here")
    return [source for source in LUA if source.name not in ("lua.c", "luac.c")]


def mapped(function: object) -> tuple[Path, int]:
    """The binary of this process that has the function, and its load address."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    frame = _stacksplice.resolve(address + 1)[-1]
    return Path(frame["module"]), address + 1 - frame["module_offset"]


def system_lua() -> ctypes.CDLL:
    name = ctypes.util.find_library("lua5.4")
    if not name:
        pytest.skip("no shared library of Lua")
    return ctypes.CDLL(name)


SYSTEM = {
    "python": lambda: mapped(ctypes.pythonapi.Py_Initialize),
    "libc": lambda: mapped(ctypes.CDLL(None).qsort),
    "core": lambda: mapped(ctypes.CDLL(str(PACKAGE / "libstacksplice.so.0")).stacksplice_resolve),
    "liblua": lambda: mapped(system_lua().lua_newstate),
}


# ---- addr2line -----------------------------------------------------------------------------------


def compare(truth: Truth, equal: float = 0.85) -> None:
    """Compare many addresses; fail at a difference without a reason, or if too few are EQUAL."""
    addresses = some(truth.text)
    theirs = truth.locations(addresses)
    reasons: Counter[str] = Counter()
    for address in addresses:
        ours = locations(in_file(truth.path, address - truth.start))
        reason = truth.why(address, ours, theirs[address])
        assert reason, f"{truth.path} {address:#x}\n{ours}\n{theirs[address]}"
        reasons[reason] += 1
    print(reasons)
    assert reasons["none"] > equal * len(addresses)


@pytest.mark.parametrize("name", SYSTEM)
def test_binaries_of_this_process_as_addr2line_reads_them(name):
    truth = Truth(SYSTEM[name]()[0])
    compare(truth, 0.05 if truth.is_stripped else 0.85)


@pytest.mark.long
@pytest.mark.parametrize(
    ("compiler", "flags", "tool"),
    [
        ("gcc", ["-O2", "-flto"], "addr2line"),
        # addr2line of binutils 2.40 finds no inlined functions in what clang writes as DWARF 5.
        ("clang", ["-O2", "-gdwarf-5"], "llvm-addr2line"),
    ],
    ids=["link-time optimisation", "clang"],
)
def test_builds_of_lua_as_addr2line_reads_them(compiler, flags, tool, tmp_path):
    if not shutil.which(tool):
        pytest.skip(f"no {tool}")
    truth = Truth(build(tmp_path / "liblua.so", compiler, *flags, sources=lua_sources()), tool)
    compare(truth)
    assert sum(len(in_file(truth.path, address)) > 1 for address in some(truth.text)) > COUNT / 10


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_names_of_cxx_as_addr2line_reads_them(compiler, tmp_path):
    flags = ["-O2", "-gdwarf-4", "-gz"]
    path = build(tmp_path / "libshop.so", compiler, *flags, sources=[HERE / "symbol_library.cpp"])
    truth = Truth(path)
    theirs = truth.locations(list(truth.text))
    for address in truth.text:
        ours = locations(in_file(truth.path, address))
        assert truth.why(address, ours, theirs[address]), (hex(address), ours, theirs[address])
    found = {tuple(frame.function for frame in frames) for frames in theirs.values()}
    assert ("shop::half(int)", "shop::Share<int>::of(int)", "shop::shared(int)") in found


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_program_of_two_compilers_as_addr2line_reads_it(compiler, tmp_path):
    """clang writes no table of addresses, and its units must not be taken for the one before them."""
    if not shutil.which("clang++"):
        pytest.skip("no clang++")
    other = {"g++": "clang++", "clang++": "g++"}[compiler]
    objects = [tmp_path / "program.o", tmp_path / "library.o"]
    flags = ["-g", "-gdwarf-4", "-O2", "-fno-pie", "-c"]
    for tool, output, name in (
        (compiler, objects[0], "symbol_program.cpp"),
        (other, objects[1], "symbol_library.cpp"),
    ):
        subprocess.run([tool, *flags, HERE / name, "-o", output], check=True)
    program = tmp_path / "program"
    subprocess.run(["g++", "-no-pie", "-Wl,--build-id", *objects, "-o", program], check=True)
    truth = Truth(program)
    compare(truth, 0.9)
    for name in ("_start", "shop::shared(int)"):
        (at,) = truth.places_of(name)
        frame = in_file(program, at - truth.start)[-1]
        assert (frame["function"], frame.get("file", "")[-18:]) == (
            (name, "") if name == "_start" else (name, "symbol_library.cpp")
        )


# ---- The process, and the parts of a stripped binary ---------------------------------------------


def without(frames: list[dict], *names: str) -> list[dict]:
    return [{name: value for name, value in frame.items() if name not in names} for frame in frames]


def reported(frames: list[dict]) -> list[dict]:
    """What a file can tell.  No report shows the start of a function without a name."""
    native = [frame for frame in frames if frame["kind"] == "native"]  # no gaps in scripts
    native = without(native, "address", "module", "build_id")
    return [frame if "function" in frame else without([frame], "function_offset")[0] for frame in native]


@pytest.mark.parametrize("name", SYSTEM)
def test_files_as_the_process_reads_them(name):
    path, start = SYSTEM[name]()
    truth = Truth(path)
    for address in some(truth.text):
        offset = address - truth.start
        live = _stacksplice.resolve(start + offset + 1)
        assert reported(in_file(path, offset)) == reported(live), hex(address)


def test_a_separate_debug_file_tells_all_that_the_binary_told(tmp_path):
    path, _ = SYSTEM["core"]()
    debug, stripped = tmp_path / "core.debug", tmp_path / "stripped.so"
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["strip", "-o", stripped, path], check=True)
    functions = 0
    for address in some(Truth(path).text):  # of a library, which starts at 0
        whole = in_file(path, address)
        assert in_file(debug, address, path) == whole, hex(address)
        (bare,) = in_file(stripped, address, path)
        assert "file" not in bare
        assert bare.get("function") in (None, whole[-1].get("function")), hex(address)
        functions += "function" in bare
    assert functions > COUNT / 20
