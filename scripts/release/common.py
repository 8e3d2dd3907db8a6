"""What the steps of a release share: its folder, its log, what was tried on each file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

GLIBC = "2.28"
# What is compiled for, by the name that wheels have for it, and what zig calls it.
NATIVE = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
ARM = f"manylinux_{GLIBC.replace('.', '_')}_aarch64"
MUSL = "musllinux_1_2_x86_64"
ZIG = {NATIVE: f"x86_64-linux-gnu.{GLIBC}", ARM: f"aarch64-linux-gnu.{GLIBC}", MUSL: "x86_64-linux-musl"}
# Seconds of a step, far more than one needs: a step that hangs fails, and its log says where.
LIMIT = 1200


class Failed(Exception):
    """A step failed; the message is for people."""


@dataclass
class Release:
    """A release of the clean sources TREE: made files below OUT, all else below WORK."""

    tree: Path
    out: Path
    work: Path
    version: str
    tried: dict[Path, list[str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """When the commit was made: the one time that is in any file."""
        return int(os.environ["SOURCE_DATE_EPOCH"])

    @property
    def archive(self) -> Path:
        return self.out / f"stacksplice-{self.version}.tar.gz"

    def note(self, file: Path, text: str) -> None:
        self.tried.setdefault(file, []).append(text)
        say(f"{file.relative_to(self.out)}: {text}")

    def leave_out(self, text: str) -> None:
        self.left_out.append(text)
        say(f"left out: {text}")

    def folder(self, name: str) -> Path:
        place = self.work / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def run(self, name: str, *command: str | Path, status: int = 0, **options) -> str:
        """The output of COMMAND, which is in a log from its first line on."""
        log = self.folder("logs") / f"{name}.log"
        words = [str(word) for word in command]
        outputs = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "start_new_session": True}
        with log.open("wb") as file, subprocess.Popen(words, stdout=file, **outputs, **options) as started:
            try:
                ended = started.wait(LIMIT)
            except subprocess.TimeoutExpired:
                ended = None
            finally:
                # Nothing that it left behind goes on, whatever the reason is.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(started.pid, signal.SIGKILL)
        output = log.read_text(encoding="utf-8", errors="replace")
        if ended != status:
            reason = f"not done after {LIMIT} s" if ended is None else f"status {ended}"
            raise Failed(f"{output}\n{name}: {reason} of: {' '.join(words)}")
        return output


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def outside() -> dict[str, str]:
    """The environment without what leads to a build tree."""
    hidden = ("PYTHONPATH", "LUA_PATH", "LUA_CPATH", "CMAKE_TOOLCHAIN_FILE")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def zig(platform: str) -> dict[str, str]:
    """The environment in which CMake builds for PLATFORM, one of ZIG."""
    import ziglang

    return {
        **outside(),
        "STACKSPLICE_ZIG": str(Path(ziglang.__file__).with_name("zig")),
        "STACKSPLICE_ZIG_TARGET": ZIG[platform],
        # Found by wheels, whose other tools lie beside this Python.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def pack(target: Path, files: dict[str, Path], epoch: int) -> None:
    """Write a zip archive that has equal bytes whenever FILES have."""
    when = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, when)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if os.access(files[name], os.X_OK) else 0o644) << 16
            archive.writestr(info, files[name].read_bytes())


def files_below(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
