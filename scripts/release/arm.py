"""Wheels for 64-bit Arm: compiled for it here, and tried by a Python of that machine that is emulated."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import wheels
from common import ARM, Failed, Release, outside

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from interpreters import SUITES, Unavailable, codename, own_archive, run
from target_root import ForeignSuite

# Kept between releases.
PYTHONS = Path(__file__).resolve().parents[2] / "build" / "targets" / "arm64-pythons"
MACHINE = "aarch64"
CAPTURE = "import stacksplice; print(len(stacksplice.capture()))"


def unpack_python(suites: list[ForeignSuite], version: str) -> Path:
    """Debian's Python of that version for that machine, with its headers."""
    root = PYTHONS / version
    if (root / "done").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    for suite in suites:
        if suite.version(f"libpython{version}-dev"):
            packages = [f"python{version}", f"libpython{version}-dev"]
            for package in suite.download(packages, [], root / "packages"):
                run(["dpkg-deb", "-x", str(package), str(root)], suite.log)
            if not (root / "lib").exists():  # newer systems have a link there, which no package brings
                (root / "lib").symlink_to("usr/lib")
            # The header of that name only chooses by machine, in the installed folders.
            include = root / "usr" / "include"
            chosen = include / f"{MACHINE}-linux-gnu" / f"python{version}" / "pyconfig.h"
            shutil.copyfile(chosen, include / f"python{version}" / "pyconfig.h")
            (root / "done").touch()
            return root
    raise Unavailable("Debian has no such Python for that machine")


def crossing(release: Release, root: Path, version: str) -> dict[str, str]:
    """What makes this machine's Python answer as that one: platform, names of files, where headers are."""
    place = release.folder(f"sysconfig/{version}")
    data = root / "usr" / "lib" / f"python{version}" / f"_sysconfigdata__{MACHINE}-linux-gnu.py"
    base = str(root / "usr")
    (place / data.name).write_text(
        f"{data.read_text(encoding='utf-8')}\n"
        f"build_time_vars.update(installed_base={base!r}, installed_platbase={base!r})\n",
        encoding="utf-8",
    )
    return {
        "_PYTHON_HOST_PLATFORM": f"linux-{MACHINE}",
        "_PYTHON_SYSCONFIGDATA_NAME": data.stem,
        "PYTHONPATH": str(place),
    }


def emulate(release: Release, wheel: Path, root: Path, version: str) -> None:
    """README's example, with what pip would unpack there."""
    site = release.folder(f"arm64/{version}")
    if not wheels.download_lupa(release, version, MACHINE, site):
        release.note(wheel, "there is no lupa for this Python, which README's example needs")
    for file in (wheel, *site.glob("lupa-*.whl")):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(site)
    python = ["qemu-aarch64", "-cpu", "max", "-L", root, root / "usr" / "bin" / f"python{version}"]
    environment = {**outside(), "PYTHONPATH": str(site)}
    shown = release.run(f"import-{version}", *python, "-c", CAPTURE, env=environment)
    release.note(wheel, f"unpacked for an emulated Python, which captured {shown.strip()} frames")
    if not any(site.glob("lupa-*.whl")):
        return
    example = release.tree / "examples" / "python"
    text = release.run(f"emulated-{version}", *python, "shop.py", status=1, cwd=example, env=environment)
    if wheels.SHOWN not in text:
        raise Failed(f"{wheel.name}: the example shows no Lua:\n{text}")
    release.note(wheel, "README's example ran there with lupa")


def make_all(release: Release, pythons: dict[str, str], untried: bool) -> list[Path]:
    """For each Python that Debian has for that machine; of the others it is said."""
    made: list[Path] = []
    try:
        suites = [ForeignSuite(name, own_archive(), PYTHONS) for name in (codename(), *SUITES)]
    except (Unavailable, OSError) as reason:
        release.leave_out(f"the wheels for 64-bit Arm: {reason}")
        return made
    for tag, python in pythons.items():
        version = f"{tag[2]}.{tag[3:]}"
        try:
            root = unpack_python(suites, version)
        except (Unavailable, OSError) as reason:
            release.leave_out(f"the wheel of {version} for 64-bit Arm: {reason}")
            continue
        wheel = wheels.make_wheel(release, python, tag, ARM, crossing(release, root, version))
        made.append(wheel)
        if not untried:
            emulate(release, wheel, root, version)
    return made
