"""Builds the extension and the core library through CMake, the one build list of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
HEADER = ROOT / "core" / "include" / "stacksplice" / "stacksplice.h"


def version() -> str:
    """The version stands in one place, the public header."""
    text = HEADER.read_text(encoding="utf-8")
    parts = re.findall(r"#define STACKSPLICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    if len(parts) != 3:
        sys.exit(f"{HEADER} has no version")
    return ".".join(parts)


class CMakeBuild(build_ext):
    """Runs CMake for this interpreter and takes the extension and the core library from there."""

    def run(self) -> None:
        if shutil.which("cmake") is None:
            sys.exit("stacksplice is built with CMake (3.22 or newer), which was not found: install cmake")
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
        if "CMAKE_GENERATOR" not in os.environ and shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        subprocess.run(configure, check=True)
        jobs = str(self.parallel or os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1)
        build = ["cmake", "--build", str(build_dir), "--target", "stacksplice_python_package"]
        subprocess.run([*build, "--parallel", jobs], check=True)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        built = Path(self.build_temp).resolve() / "cmake" / "python" / "stacksplice"
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        target.mkdir(parents=True, exist_ok=True)
        for file in [*built.glob("_stacksplice*.so"), *built.glob("libstacksplice.so.*")]:
            shutil.copy2(file, target / file.name)


setup(
    version=version(),
    ext_modules=[Extension("stacksplice._stacksplice", [])],
    cmdclass={"build_ext": CMakeBuild},
)
