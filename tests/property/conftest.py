import os
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import extension  # noqa: E402


@pytest.fixture(scope="session")
def graph(tmp_path_factory):
    """The module of graph.c, with the Lua of the build in $STACKSPLICE_BUILD_DIR."""
    build = Path(os.environ["STACKSPLICE_BUILD_DIR"])
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M))
    path = extension.compile_extension(
        tmp_path_factory.mktemp("graph"),
        "graph",
        [HERE / "graph.c"],
        "-isystem" + cache["STACKSPLICE_LUA_INCLUDE_DIR"],
        f"-I{extension.ROOT / 'bindings' / 'lua' / 'include'}",
        str(next(build.glob("bindings/lua/libstacksplice-lua.a"))),
        cache["LUA_SHARED"],
        "-Wl,-z,nodelete",
        "-fno-optimize-sibling-calls",
    )
    return extension.load_extension(path)
