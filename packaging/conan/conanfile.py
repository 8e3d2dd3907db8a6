"""The library of stacksplice with its headers for C and C++, and stacksplice-inspect.

conan create packaging/conan

The bindings for Lua and Python are compiled against the headers of the host's own interpreter, so a host
that embeds one builds stacksplice by add_subdirectory or cmake --install.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

PARTS = ("CMakeLists.txt", "LICENSE", "bindings/*", "cmake/*", "core/*", "crash/*", "inspect/*")


class Stacksplice(ConanFile):
    name = "stacksplice"
    description = "One error, one stack, every language: native, Python and Lua frames in true order"
    license = "MIT"
    topics = ("stacktrace", "error", "debugging", "lua", "python", "winrt", "hresult")
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    # There is no option "shared": a process has one core, which its programs and modules share.
    package_type = "shared-library"

    @property
    def _tree(self) -> Path:
        return Path(self.recipe_folder).parents[1]

    def set_version(self):
        header = self._tree / "core" / "include" / "stacksplice" / "stacksplice.h"
        parts = re.findall(r"#define STACKSPLICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text())
        self.version = ".".join(parts)

    def export_sources(self):
        for part in PARTS:
            copy(self, part, self._tree, self.export_sources_folder, excludes="*.so*")

    def layout(self):
        cmake_layout(self)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("stacksplice is for Linux on x86-64 and 64-bit Arm")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["STACKSPLICE_BUILD_TESTS"] = "OFF"
        toolchain.cache_variables["STACKSPLICE_LUA"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        # Conan's generators write these for the build that asks.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, Path(self.package_folder) / "lib" / folder)

    def package_info(self):
        core = self.cpp_info.components["stacksplice"]
        core.libs = ["stacksplice"]
        winrt = self.cpp_info.components["winrt"]
        winrt.requires = ["stacksplice"]
        winrt.includedirs = ["include/stacksplice/winrt"]
        # Kept in a program that calls none of its names itself: others look them up at run time.
        kept = ["-Wl,--push-state,--no-as-needed,-lstacksplice-winrt,--pop-state"]
        winrt.exelinkflags = winrt.sharedlinkflags = kept
        cpp = self.cpp_info.components["cpp"]
        cpp.requires = ["stacksplice"]
        for name, component in self.cpp_info.components.items():
            component.set_property("cmake_target_name", f"stacksplice::{name}")
            own = name == "stacksplice"
            component.set_property("pkg_config_name", name if own else f"stacksplice-{name}")
