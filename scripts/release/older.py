"""The wheel's library and the rock with an older C library: that of Debian 11, in a root of its own."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from common import Failed, Release, outside
from rocks import SHOWN, example

SUITE = "bullseye"
# Debian 11 has no Python that the package is for, so its Python asks the library itself.
QUESTION = """
import ctypes, os
library = ctypes.CDLL("/try/libstacksplice.so.0")
library.stacksplice_version.restype = library.stacksplice_build.restype = ctypes.c_char_p
frames = (ctypes.c_void_p * 64)()
library.stacksplice_RtlCaptureStackBackTrace.restype = ctypes.c_ushort
count = library.stacksplice_RtlCaptureStackBackTrace(0, 64, frames, None)
print(os.confstr("CS_GNU_LIBC_VERSION"), library.stacksplice_version().decode(), count, "frames")
"""


def make_root(release: Release) -> Path | None:
    root = release.work.parent / f"root-{SUITE}"
    if (root / "usr/bin/lua5.4").exists():
        return root
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        release.leave_out("an older C library: that needs root and mmdebstrap")
        return None
    shutil.rmtree(root, ignore_errors=True)
    try:
        release.run("older-root", "mmdebstrap", "--variant=minbase", "--include=python3,lua5.4", SUITE, root)
    except Failed:
        release.leave_out(f"an older C library: no root of {SUITE} could be made")
        return None
    return root


def try_all(release: Release) -> None:
    root = make_root(release)
    if not root:
        return
    place = root / "try"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for wheel in release.out.glob("*_x86_64.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (place / "libstacksplice.so.0").write_bytes(archive.read("stacksplice/libstacksplice.so.0"))
        said = release.run("older-wheel", "chroot", root, "python3", "-c", QUESTION, env=outside()).strip()
        version, _, count = said.partition(release.version)
        if int(count.split()[0]) < 5:
            raise Failed(f"{wheel.name}: {said}")
        release.note(wheel, f"its library captured a stack with {version.strip()}")
        break
    for rock in (release.out / "rocks" / "lua5.4").glob("*.rock"):
        with zipfile.ZipFile(rock) as archive:
            archive.extractall(place / "rock")
        (place / "tickets.lua").write_text(example(release), encoding="utf-8")
        paths = {"LUA_PATH": "/try/rock/lua/?.lua;;", "LUA_CPATH": "/try/rock/lib/?.so;;"}
        command = ["chroot", root, "lua5.4", "-lstacksplice", "/try/tickets.lua"]
        text = release.run("older-rock", *command, status=1, env={**outside(), **paths})
        if SHOWN not in text:
            raise Failed(f"{rock.name} on {SUITE}: {text}")
        release.note(rock, f"README's example ran on {SUITE}")
