"""A library of C++, and saved reports with its frames: what the tests of symbolize share."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import stacksplice
from building import HERE, command
from stacksplice import _stacksplice


class Library:
    """A library, a frame of it, and the files that a distribution makes of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "here" / "libshop.so"
        self.path.parent.mkdir()
        source = HERE / "symbol_library.cpp"
        subprocess.run(
            ["c++", "-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id", source, "-o", self.path], check=True
        )
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
        self.stack: list[int] = []
        capture = callback(lambda value: self.stack.extend(stacksplice.capture().addresses) or value)
        ctypes.CDLL("libstdc++.so.6")
        ctypes.CDLL(str(self.path)).enter(capture, 3)
        frames = [[frame for frame in _stacksplice.resolve(address)] for address in self.stack]
        self.live = [group for group in frames if group[-1].get("module") == str(self.path)]
        self.debug = folder / "libshop.so.debug"
        self.stripped = folder / "libshop.so"
        subprocess.run(["objcopy", "--only-keep-debug", self.path, self.debug], check=True)
        subprocess.run(["strip", "-o", self.stripped, self.path], check=True)

    @property
    def build_id(self) -> str:
        return self.live[0][0]["build_id"]

    def known(self) -> list[dict]:
        """The frames as this process knows them, in the form of a report."""
        return [dict(frame, address=hex(frame["address"])) for group in self.live for frame in group]

    def saved(self) -> list[dict]:
        """The frames as a machine without debug information saves them."""
        names = ("kind", "trust", "language", "module", "module_offset", "build_id", "inlined", "address")
        frames = [frame for frame in self.known() if not frame["inlined"]]
        return [{name: frame[name] for name in names} for frame in frames]


def library_of(folders: pytest.TempPathFactory) -> Library:
    """What the fixtures of tests give; skips where it cannot be made."""
    if not (shutil.which("objcopy") and shutil.which("c++")):
        pytest.skip("no binutils, or no C++ compiler")
    return Library(folders.mktemp("symbols"))


def report(frames: list[dict], **more: object) -> dict:
    """A report with these frames as the stack of its error."""
    try:
        raise ValueError("bad amount")
    except ValueError as exc:
        info = stacksplice.originate(exc)
    assert info is not None
    return {**json.loads(info.to_json()), "stack": frames, **more}


def symbolized(tmp_path: Path, document: object, *arguments: str, status: int = 0):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    done = command("symbolize", *arguments, str(path), status=status)
    return json.loads(done.stdout) if done.stdout else None, done.stderr


def elsewhere(frames: list[dict]) -> list[dict]:
    """The frames of a process on a machine that has the library at another path."""
    return [{**frame, "module": "/elsewhere/lib/libshop.so"} for frame in frames]


def hide(folder: Path, name: str, monkeypatch) -> None:
    """Let no program load the library of that name."""
    (folder / name).touch()
    known = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}:{known}" if known else str(folder))
    load = ["-c", f"import ctypes; ctypes.CDLL({name!r})"]
    if subprocess.run([sys.executable, *load], check=False, capture_output=True).returncode == 0:
        pytest.skip("the loader of this Python was given its folders and takes no others")
