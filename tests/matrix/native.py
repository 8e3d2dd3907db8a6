"""The module matrix, compiled as somebody else would: against the public headers only."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(HERE), str(TESTS), str(TESTS / "lua")]

import extension  # noqa: E402
import test_luas as luas  # noqa: E402

TINY = ["libstacksplice-tiny.a", "libtiny.a"]
C_FILES = ["module.c", "facts.c", "log.c", "c_side.c", "lua_side.c", "tiny_side.c"]


def of_the_build():
    """The Lua that the build in $STACKSPLICE_BUILD_DIR was made for: its headers, what is linked."""
    cache = (luas.BUILD / "CMakeCache.txt").read_text()
    values = dict(re.findall(r"^(\w+):\w+=(.*)$", cache, re.M))
    binding = next(luas.BUILD.glob("bindings/lua/libstacksplice-lua.a"))
    return values["STACKSPLICE_LUA_INCLUDE_DIR"], [str(binding), values["LUA_SHARED"]]


def of_version(version):
    """That version of Lua, built here, with the binding compiled against it."""
    build = luas.build_named("gcc-O2")
    library = luas.lua_library(version, build)
    include = luas.installed_headers(version) if version in luas.INSTALLED else luas.lua_source(version)
    return include, [str(file) for file in luas.compile_with_binding([], version, build, []) + library]


def compile_cpp(folder, include):
    output = folder / "cpp_side.o"
    flags = ["-std=c++17", "-g", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden"]
    includes = [f"-I{extension.ROOT / 'bindings' / name / 'include'}" for name in ("cpp", "lua")]
    includes += [f"-I{extension.ROOT / 'core' / 'include'}", f"-isystem{include}"]
    command = [os.environ.get("CXX", "c++"), *flags, *includes, "-c", HERE / "cpp_side.cpp", "-o", output]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(output)


def build(folder, lua):
    include, libraries = of_the_build() if lua == "build" else of_version(lua)
    return extension.compile_extension(
        folder,
        "matrix",
        [HERE / name for name in C_FILES],
        compile_cpp(folder, include),
        f"-isystem{include}",
        f"-I{extension.ROOT / 'bindings' / 'lua' / 'include'}",
        f"-I{extension.ROOT / 'examples' / 'tiny'}",
        f"-I{extension.ROOT / 'examples' / 'tiny' / 'include'}",
        *libraries,
        *(str(luas.BUILD / "examples" / "tiny" / name) for name in TINY),
        "-lstdc++",
        "-Wl,-z,nodelete",
        "-fno-optimize-sibling-calls",
        "-fvisibility=hidden",
    )
