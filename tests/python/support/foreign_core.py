"""Core files of 64-bit Arm programs, which user-mode emulation writes when they crash."""

from __future__ import annotations

import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import ROOT, TESTS

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = ["qemu-aarch64", "-cpu", "max"]  # with pointer authentication
CROSS = "/usr/aarch64-linux-gnu"
PROGRAM_HEADER = "<IIQQQQQQ"
LOAD, NOTES, FILES = 1, 4, 0x46494C45


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")


def programs() -> Path:
    """The files of a machine that has Python and Lua."""
    needs(EMULATOR[0], "apt-get", "dpkg-deb")
    where = str(ROOT / "build" / "targets" / "arm64-programs")
    done = subprocess.run(
        [sys.executable, TESTS / "target_root.py", "arm64-programs", where],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode == 3:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0
    return Path(done.stdout.strip()).parent


def start(root: str | Path, *command: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """COMMAND, emulated with the files of ROOT.  It has to write its /proc/self/maps to the file maps."""
    limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    return subprocess.Popen(
        [*EMULATOR, "-L", str(root), *map(str, command)],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limit),
    )


def core_of(child: subprocess.Popen[str], root: str | Path, cwd: Path) -> Path:
    """The core file of CHILD, which has crashed or is about to."""
    with child:
        child.wait(timeout=60)
    for own in cwd.glob("core*"):
        own.unlink()  # that of the emulator
    (core,) = cwd.glob("qemu_*.core")
    name_files(core, (cwd / "maps").read_text().replace(str(root), ""))
    return core


def name_files(core: Path, maps: str) -> None:
    """Add the note about mapped files, which the kernel writes and the emulator does not."""
    rows, names = [], b""
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            start, end = (int(address, 16) for address in fields[0].split("-"))
            rows.append((start, end, int(fields[2], 16) // 4096))
            names += fields[5].encode() + b"\0"
    content = (
        struct.pack("<QQ", len(rows), 4096) + b"".join(struct.pack("<QQQ", *row) for row in rows) + names
    )
    note = struct.pack("<III", 5, len(content), FILES) + b"CORE\0\0\0\0" + content + bytes(-len(content) % 4)
    data = bytearray(core.read_bytes())
    (place,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    size = struct.calcsize(PROGRAM_HEADER)
    headers = data[place : place + count * size]
    headers += struct.pack(PROGRAM_HEADER, NOTES, 0, len(data), 0, 0, len(note), 0, 4)
    data += note
    struct.pack_into("<Q", data, 32, len(data))
    struct.pack_into("<H", data, 56, count + 1)
    core.write_bytes(data + headers)


def loaded(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The place in the file, the address and the size of each segment that is in DATA."""
    (place,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    size = struct.calcsize(PROGRAM_HEADER)
    for at in range(place, place + count * size, size):
        kind, _, offset, address, _, in_file, _, _ = struct.unpack_from(PROGRAM_HEADER, data, at)
        if kind == LOAD:
            yield offset, address, in_file


def address_of(data: bytes, place: int) -> int:
    return next(address + place - at for at, address, size in loaded(data) if at <= place < at + size)


def place_of(data: bytes, wanted: int) -> int:
    return next(at + wanted - start for at, start, size in loaded(data) if start <= wanted < start + size)
