#!/usr/bin/env python3
"""Newer interpreters for the tests, unpacked beside the build and never installed.

    interpreters.py [--cache FOLDER]

Takes CPython 3.14 and 3.15, Lua 5.5 and the sources of Lua from the distribution's newer suites,
by the machine's own mirror and keys, into FOLDER (build/interpreters).  Prints one line for each:
its name, version and path, or why it cannot be had.  What is there already is not fetched again.
FOLDER/index.json says the same to programs, with the flags that link a program for the newer C
library those interpreters bring.  Where there is no apt or no network everything is skipped, with
status 0: the tests then run with what the machine has.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Newest last: the first suite that has a package is the one least likely to be in upheaval.
SUITES = ["testing", "unstable", "experimental"]
# Name -> packages that bring it with all that it needs, and packages of which nothing more is taken.
BINARIES = {
    "python3.14": (["python3.14-dev", "python3.14-venv", "libstdc++6"], ["python3-greenlet"]),
    "python3.15": (["python3.15-dev", "python3.15-venv", "libstdc++6"], ["python3-greenlet"]),
    "lua5.5": (["lua5.5", "liblua5.5-dev"], []),
}
SOURCES = ["lua5.1", "lua5.2", "lua5.4", "lua5.5"]


class Unavailable(Exception):
    """What was asked for cannot be had; str() is the reason, in one line."""


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


def run(command: list[str], log: Path, cwd: Path | None = None) -> str:
    """The output of COMMAND, which is also appended to LOG."""
    done = subprocess.run(
        command,
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
    )
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(command)}\n{done.stdout}")
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("E:", "dpkg"))]
        reason = (errors or lines or ["it said nothing"])[0]
        raise Unavailable(f"{command[0]}: {reason} (the log is {log})")
    return done.stdout


# ---- The machine's own package sources -----------------------------------------------------------


def one_line_entries(text: str) -> Iterator[dict[str, list[str]]]:
    """Lines of the form: deb [signed-by=...] URI SUITE COMPONENT..."""
    for line in text.splitlines():
        words = line.partition("#")[0].replace("[", " [ ").replace("]", " ] ").split()
        if not words or words[0] != "deb":
            continue
        entry: dict[str, list[str]] = {}
        if "[" in words and "]" in words:
            for option in words[words.index("[") + 1 : words.index("]")]:
                key, _, value = option.partition("=")
                entry[key.lower()] = value.split(",")
            words = words[:1] + words[words.index("]") + 1 :]
        if len(words) >= 3:
            yield entry | {"uris": words[1:2], "suites": words[2:3], "components": words[3:]}


def deb822_entries(text: str) -> Iterator[dict[str, list[str]]]:
    """Stanzas of "Field: values"; a line that begins with a space goes on with the last field."""
    for stanza in text.split("\n\n"):
        entry: dict[str, list[str]] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and key:
                entry[key] += line.split()
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                entry[key] = value.split()
        if "deb" in entry.get("types", []) and entry.get("enabled") != ["no"]:
            yield entry


def codename() -> str:
    release = platform.freedesktop_os_release()
    return release.get("VERSION_CODENAME", "")


def own_archive(folder: Path = Path("/etc/apt")) -> dict[str, list[str]]:
    """The entry that this distribution itself comes from."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    readers = [(file, one_line_entries) for file in files]
    readers += [(file, deb822_entries) for file in sorted((folder / "sources.list.d").glob("*.sources"))]
    names = {codename(), *SUITES} - {""}
    for file, read in readers:
        if not file.is_file():
            continue
        for entry in read(file.read_text(encoding="utf-8", errors="replace")):
            if names & set(entry.get("suites", [])) and entry.get("uris"):
                return entry
    raise Unavailable(f"no package source of this distribution was found below {folder}")


# ---- One newer suite -----------------------------------------------------------------------------


class Suite:
    """A suite in an apt tree of its own: the machine's lists and packages are neither read nor changed."""

    def __init__(self, name: str, archive: dict[str, list[str]], cache: Path) -> None:
        self.name = name
        self.folder = cache / "apt" / name
        self.log = cache / "log"
        self.ready: bool | Unavailable = False
        for part in ("state/lists/partial", "cache/archives/partial", "parts"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        signed = archive.get("signed-by")
        options = f" [signed-by={','.join(signed)}]" if signed and signed[0].startswith("/") else ""
        components = " ".join(archive.get("components") or ["main"])
        # Packages of the last stage need those of the one before.
        names = [name, "unstable"] if name == "experimental" else [name]
        (self.folder / "sources.list").write_text(
            "".join(
                f"{kind}{options} {archive['uris'][0]} {suite} {components}\n"
                for suite in names
                for kind in ("deb", "deb-src")
            )
        )

    def apt(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        folder = str(self.folder)
        settings = {
            "Dir::State": f"{folder}/state",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": f"{folder}/cache",
            "Dir::Etc::sourcelist": f"{folder}/sources.list",
            "Dir::Etc::sourceparts": f"{folder}/parts",
            "Dir::Etc::preferencesparts": f"{folder}/parts",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
            "Acquire::http::Timeout": "20",
            "Acquire::Retries": "1",
            "APT::Update::Error-Mode": "any",
            "APT::Sandbox::User": "",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        return run([tool, *options, *arguments], self.log, cwd)

    def update(self) -> None:
        if self.ready is False:
            say(f"fetching the package lists of {self.name}")
            try:
                self.apt("apt-get", "update", "--allow-releaseinfo-change")
                self.ready = True
            except Unavailable as reason:
                self.ready = reason
        if isinstance(self.ready, Unavailable):
            raise self.ready

    def version(self, package: str, source: bool = False) -> str | None:
        """The newest version of PACKAGE in this suite."""
        self.update()
        kind = "Sources" if source else "Packages"
        for line in self.apt("apt-cache", "madison", package).splitlines():
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 3 and fields[0] == package and fields[2].endswith(kind):
                return fields[1]
        return None

    def download(self, packages: list[str], alone: list[str], folder: Path) -> list[Path]:
        """The files of PACKAGES and of all they need, and of those ALONE; apt has checked their sums."""
        (folder / "partial").mkdir(parents=True, exist_ok=True)
        place = ["-o", f"Dir::Cache::archives={folder}"]
        wanted = ["install", "--download-only", "--yes", "--no-install-recommends"]
        self.apt("apt-get", *place, *wanted, *packages)
        if alone:
            self.apt("apt-get", "download", *alone, cwd=folder)
        return sorted(folder.glob("*.deb"))

    def source(self, package: str, version: str, folder: Path) -> None:
        """The authors' own source of PACKAGE into FOLDER, by the sum in the signed list."""
        wanted = ["source", "--download-only", "--tar-only", f"{package}={version}"]
        self.apt("apt-get", *wanted, cwd=folder)
        for file in folder.glob("*.orig.tar.*"):
            run(["tar", "-xf", file.name, "--strip-components=1"], self.log, folder)
            file.unlink()


# ---- Unpacking -----------------------------------------------------------------------------------


def loader_of(program: Path) -> str:
    """The loader that an ELF program asks for (PT_INTERP), 32 and 64 bit, of this byte order."""
    data = program.read_bytes()
    wide = data[4] == 2
    offset = struct.unpack_from("Q" if wide else "I", data, 32 if wide else 28)[0]
    size, count = struct.unpack_from("HH", data, 54 if wide else 42)
    for position in range(offset, offset + size * count, size):
        if struct.unpack_from("I", data, position)[0] == 3:
            start = struct.unpack_from("Q" if wide else "I", data, position + (8 if wide else 4))[0]
            return data[start : data.index(b"\0", start)].decode()
    raise Unavailable(f"{program} has no loader")


def library_folders(root: Path) -> list[Path]:
    found = {file.parent for file in root.glob("**/libc.so.6")}
    found |= {file.parent for file in root.glob("usr/lib/**/libm.so.6")}
    return sorted(folder for folder in found if not folder.is_symlink())


def wrap(root: Path, name: str) -> tuple[Path, list[str]]:
    """Put a script in the place of the program NAME that runs it by the loader and the C library it
    was built for.  The script's own path, and what flags link a program for that library."""
    program = root / "usr" / "bin" / name
    hidden = root / "usr" / "libexec" / name
    asked = loader_of(program)
    loaders = [root / "usr" / asked[1:], root / asked[1:]]
    loader = next((file.resolve() for file in loaders if file.exists()), None)
    if not loader:
        raise Unavailable(f"its loader {asked} was not among the packages")
    hidden.parent.mkdir(exist_ok=True)
    program.rename(hidden)
    folders = [str(folder) for folder in library_folders(root)]
    command = [str(loader), "--library-path", ":".join(folders)]
    # The interpreter finds its files by the name it was called with.
    program.write_text(
        f'#!/bin/sh\nexec {shlex.join(command)} --argv0 "$0" {shlex.quote(str(hidden))} "$@"\n'
    )
    program.chmod(0o755)
    # Old tags: the path then counts for the libraries of libraries, too.
    flags = ["-Wl,--allow-shlib-undefined,--disable-new-dtags", f"-Wl,--dynamic-linker={loader}"]
    return program, flags + [f"-Wl,-rpath,{folder}" for folder in folders]


def mend_python(root: Path, name: str, flags: list[str]) -> None:
    """Let a Python's files name those beside them instead of the installed ones, and tell who links
    that Python into a program the FLAGS for its C library."""
    # In flags a space needs a backslash, and that one needs another in Python's quotes.
    escaped = str(root).replace(" ", r"\\ ")
    for file in (root / "usr" / "lib" / name).glob("_sysconfigdata_*.py"):
        if file.is_symlink():
            continue
        text = file.read_text(encoding="utf-8")
        for folder in ("lib", "include", "share"):
            for mark, there in (("'", root), (" ", escaped), ("-L", escaped), ("-I", escaped)):
                text = text.replace(f"{mark}/usr/{folder}", f"{mark}{there}/usr/{folder}")
        mark = "'SYSLIBS': '"
        added = " ".join(flag.replace(" ", r"\\ ") for flag in flags)
        file.write_text(text.replace(mark, f"{mark}{added} "), encoding="utf-8")
    # The header of that name only chooses by architecture, in the installed folders.
    for file in (root / "usr" / "include").glob(f"*/{name}/pyconfig.h"):
        shutil.copyfile(file, root / "usr" / "include" / name / "pyconfig.h")


def unpack(name: str, suite: Suite, root: Path) -> dict[str, object]:
    packages, alone = BINARIES[name]
    say(f"fetching {name} of {suite.name}")
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    for file in suite.download(packages, alone, partial / "debs"):
        run(["dpkg-deb", "-x", str(file), str(partial)], suite.log)
    shutil.rmtree(partial / "debs")
    partial.rename(root)
    program, flags = wrap(root, name)
    if name.startswith("python"):
        mend_python(root, name, flags)
        question = ["-c", "import platform; print(platform.python_version())"]
    else:
        question = ["-e", "print(_VERSION)"]
    version = run([str(program), *question], suite.log).strip()
    return {"version": version, "path": str(program), "root": str(root), "link_flags": flags}


# ---- The command ---------------------------------------------------------------------------------


def fetch(name: str, suites: list[Suite], cache: Path) -> dict[str, object]:
    """NAME from the first suite that has it and lets it be had."""
    reason = Unavailable("no suite of " + ", ".join(suite.name for suite in suites) + " has it")
    for suite in suites:
        try:
            if name in BINARIES:
                if suite.version(BINARIES[name][0][0]):
                    return unpack(name, suite, cache / name)
                continue
            package = name.removesuffix("-source")
            version = suite.version(package, source=True)
            if version:
                say(f"fetching the source of {package} of {suite.name}")
                folder = cache / name
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                suite.source(package, version, folder)
                return {"version": version, "path": str(folder)}
        except (Unavailable, OSError) as failed:
            reason = Unavailable(str(failed))
    raise reason


def is_there(entry: dict[str, object] | None) -> bool:
    return entry is not None and Path(str(entry["path"])).exists()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch newer interpreters for the tests.")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "interpreters")
    cache = parser.parse_args().cache.resolve()
    index_file = cache / "index.json"
    try:
        index = json.loads(index_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        index = {}
    names = [*BINARIES, *(f"{name}-source" for name in SOURCES)]
    suites: list[Suite] = []
    try:
        if not all(is_there(index.get(name)) for name in names):
            for tool in ("apt-get", "dpkg-deb"):
                if shutil.which(tool) is None:
                    raise Unavailable(f"this machine has no {tool}")
            archive = own_archive()
            cache.mkdir(parents=True, exist_ok=True)
            suites = [Suite(name, archive, cache) for name in SUITES]
    except (Unavailable, OSError) as reason:
        print(f"newer interpreters: skipped: {reason}")
        return 0
    for name in names:
        try:
            if not is_there(index.get(name)):
                index[name] = fetch(name, suites, cache)
                index_file.write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
            print(f"{name}: {index[name]['version']}, {index[name]['path']}", flush=True)
        except Unavailable as reason:
            print(f"{name}: not available: {reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
