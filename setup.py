"""Builds the extension and its libraries through CMake, the one build list of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
# Where the sources are to be seen, if that is known: links lead there.
URL = os.environ.get("STACKSPLICE_PROJECT_URL", "").rstrip("/")
HEADER = ROOT / "core" / "include" / "stacksplice" / "stacksplice.h"
# Of the core, and of debuggers.
BESIDE_THE_EXTENSION = ("libstacksplice*.so*", "stacksplice-inspect", "*.schema.json", "_debuggers/*.py")


def version() -> str:
    """The version stands in one place, the public header."""
    text = HEADER.read_text(encoding="utf-8")
    parts = re.findall(r"#define STACKSPLICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    if len(parts) != 3:
        sys.exit(f"{HEADER} has no version")
    return ".".join(parts)


def readme() -> str:
    """README.md as package indexes show it: a link into the sources leads to where they are to be seen,
    or what it leads to is named."""

    def without_link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if not (ROOT / target).exists():  # no link, or one to elsewhere
            return match[0]
        if URL:
            return match[0].replace(f"]({target}", f"]({URL}/{target}")
        return text if text == target else f"{text} ({target})"

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"!?\[([^]]+)\]\(([^)#\s]+)[^)\s]*\)", without_link, text)


def pages() -> list[tuple[str, list[str]]]:
    """The manual page and the completions that a release's source package has of the command:
    stacksplice-inspect is no command here."""
    files = [file for file in sorted((ROOT / "pages").rglob("*")) if file.is_file()]
    places = [(file.relative_to(ROOT), file.relative_to(ROOT / "pages").parent) for file in files]
    return [(f"share/{place}", [str(file)]) for file, place in places if "-inspect" not in file.name]


def check_tools() -> None:
    """What is missing is one line here, and forty from those who look for it later."""
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which("cmake") is None:
        sys.exit("stacksplice is built with CMake (3.22 or newer), which was not found: install cmake")
    if not header.exists():
        sys.exit(f"{header} was not found: install python{minor}-dev (python{minor}-devel), or python3-dev")


def run(*command: str) -> None:
    status = subprocess.run(command).returncode
    if status:
        sys.exit(f"{' '.join(command[:2])} failed with status {status}; what it says stands above")


class CMakeBuild(build_ext):
    """Runs CMake for this interpreter and takes the extension and its libraries from there."""

    def run(self) -> None:
        check_tools()
        if self.debug:
            build_type = "Debug"
        else:
            build_type = os.environ.get("CMAKE_BUILD_TYPE", "Release")
        build_dir = Path(self.build_temp).resolve() / "cmake"
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build_dir),
            f"-DCMAKE_BUILD_TYPE={build_type}",
            f"-DSTACKSPLICE_PYTHON={sys.executable}",
            "-DSTACKSPLICE_LUA=OFF",
            "-DSTACKSPLICE_HOST=OFF",
            "-DSTACKSPLICE_BUILD_TESTS=OFF",
        ]
        ninja = shutil.which("ninja")
        if "CMAKE_GENERATOR" not in os.environ and ninja:
            # That of pip's environment is in another folder at each build.
            configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        try:
            run(*configure)
        except SystemExit:
            shutil.rmtree(build_dir, ignore_errors=True)  # its cache would spoil the next attempt
            raise
        jobs = str(self.parallel or os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1)
        target = "stacksplice_python_package"
        run("cmake", "--build", str(build_dir), "--target", target, "--parallel", jobs)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        # The tree may have been built for other Pythons before.
        for pattern in (f"_stacksplice{sysconfig.get_config_var('EXT_SUFFIX')}", *BESIDE_THE_EXTENSION):
            self.take(pattern, Path(self.get_ext_fullpath(ext.name)).parent)

    def copy_extensions_to_source(self) -> None:
        """For `pip install -e`: setuptools knows of the extension only."""
        super().copy_extensions_to_source()
        for pattern in BESIDE_THE_EXTENSION:
            self.take(pattern, ROOT / "bindings" / "python" / "stacksplice")

    def take(self, pattern: str, target: Path) -> None:
        source = Path(self.build_temp).resolve() / "cmake" / "python" / "stacksplice"
        for file in source.glob(pattern):
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)


setup(
    version=version(),
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls={"Source": URL, "Changes": f"{URL}/CHANGELOG.md"} if URL else {},
    data_files=pages(),
    ext_modules=[Extension("stacksplice._stacksplice", [])],
    cmdclass={"build_ext": CMakeBuild},
)
