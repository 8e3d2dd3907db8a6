"""The wheel and the rock with an older C library: that of Debian 11, in a root of its own."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from common import Failed, Release, outside
from rocks import SHOWN, example
from wheels import SHOWN as SHOWN_BY_PYTHON
from wheels import download_lupa

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from interpreters import SUITES, Suite, Unavailable, codename, own_archive

SUITE = "bullseye"
# Kept between releases, with its Python.
ROOT = Path(__file__).resolve().parents[2] / "build" / "roots" / f"{SUITE}-python"
# Lua, and what a CPython is compiled with, as Debian 11 has none that the package is for.
PACKAGES = "lua5.4,gcc,make,libc6-dev,zlib1g-dev,libffi-dev"
COMPILE = "cd /python$0 && ./configure -q && make -s -j$(nproc) && make -s altinstall && rm -r /python$0"
GLIBC_THERE = "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))"


def make_root(release: Release) -> Path | None:
    if (ROOT / "done").exists():
        return ROOT
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        release.leave_out("an older C library: that needs root and mmdebstrap")
        return None
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.parent.mkdir(exist_ok=True)
    try:
        release.run("older-root", "mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, ROOT)
    except Failed:
        release.leave_out(f"an older C library: no root of {SUITE} could be made")
        return None
    (ROOT / "done").touch()
    return ROOT


def has_python(release: Release, root: Path, version: str) -> bool:
    """In ROOT, by now: compiled of the authors' source, if a suite of this machine's archive has it."""
    if (root / f"usr/local/bin/python{version}").exists():
        return True
    package = f"python{version}"
    source = root / package
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    for name in (codename(), *SUITES):
        try:
            suite = Suite(name, own_archive(), release.folder("older"))
            if there := suite.version(package, source=True):
                suite.source(package, there, source)
                break
        except (Unavailable, OSError):
            continue
    else:
        return False
    release.run(f"older-{package}", "chroot", root, "sh", "-c", COMPILE, version, env=outside())
    return True


def try_wheel(release: Release, root: Path) -> None:
    """That of the first version whose Python can be had."""
    for wheel in sorted(release.out.glob("*_x86_64.whl")):
        tag = wheel.name.split("-")[2]
        version = f"{tag[2]}.{tag[3:]}"
        if not has_python(release, root, version):
            continue
        place = root / "wheels"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(wheel, place)
        if not download_lupa(release, version, "x86_64", place):
            continue
        python = ["chroot", root, f"python{version}"]
        pip = [*python, "-m", "pip", "install", "-q", "--no-index", "--force-reinstall"]
        files = [f"/wheels/{file.name}" for file in place.glob("*.whl")]
        release.run("older-install", *pip, "--root-user-action=ignore", *files, env=outside())
        shutil.copytree(release.tree / "examples" / "python", root / "example", dirs_exist_ok=True)
        program = ["chroot", root, "sh", "-c", f"cd /example && python{version} shop.py"]
        text = release.run("older-wheel", *program, status=1, env=outside())
        if SHOWN_BY_PYTHON not in text:
            raise Failed(f"{wheel.name} on {SUITE}: the example shows no Lua:\n{text}")
        there = release.run("older-glibc", *python, "-c", GLIBC_THERE, env=outside()).strip()
        release.note(wheel, f"installed on {SUITE} ({there}), README's example ran there with lupa")
        return
    release.leave_out(f"a wheel on {SUITE}: there is no source of a Python for it, or no lupa")


def try_rock(release: Release, root: Path) -> None:
    place = root / "rock"
    shutil.rmtree(place, ignore_errors=True)
    for rock in (release.out / "rocks" / "lua5.4").glob("*.rock"):
        with zipfile.ZipFile(rock) as archive:
            archive.extractall(place)
        (place / "tickets.lua").write_text(example(release), encoding="utf-8")
        paths = {"LUA_PATH": "/rock/lua/?.lua;;", "LUA_CPATH": "/rock/lib/?.so;;"}
        command = ["chroot", root, "lua5.4", "-lstacksplice", "/rock/tickets.lua"]
        text = release.run("older-rock", *command, status=1, env={**outside(), **paths})
        if SHOWN not in text:
            raise Failed(f"{rock.name} on {SUITE}: {text}")
        release.note(rock, f"README's example ran on {SUITE}")


def try_all(release: Release) -> None:
    if root := make_root(release):
        try_wheel(release, root)
        try_rock(release, root)
