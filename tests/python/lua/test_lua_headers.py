"""The declarations of Lua in bindings/lupa/loadable are those of Lua's own headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import versions
from building import ROOT, compiler, ran

OURS = ROOT / "bindings" / "lupa" / "loadable" / "include"
HEADERS = ("lua.h", "lauxlib.h", "lualib.h")
# Each number and text that ours define; the types, and the members of the structures that both sides read.
DEFINED = re.compile(r"^#define (LUAL?_\w+) (.+)$", re.MULTILINE)
TYPES = "lua_Number lua_Integer lua_Unsigned lua_KContext luaL_Reg lua_Debug"
MEMBERS = {
    "luaL_Reg": "name func",
    "lua_Debug": "event name namewhat what source currentline linedefined lastlinedefined nups nparams "
    "isvararg istailcall short_src i_ci",
}
UNUSED = ("lua_Unsigned", "5.2")  # of another size there; ours is what 5.3 has
NEWER_MEMBERS = "srclen ftransfer ntransfer"
# With Lua's own headers the functions are compared, too.
FUNCTIONS = """
#ifndef SS_LUA_ABI
#include "function_list.h"
#define SAME(result, name, parameters) \\
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result parameters), #name);
#if LUA_VERSION_NUM != 504 || LUA_VERSION_RELEASE_NUM >= 50406
SS_LUA_LATER_FUNCTIONS(SAME)
#endif
SS_LUA_COMMON_FUNCTIONS(SAME)
SS_LUA_VERSION_FUNCTIONS(SAME)
#endif
"""


def headers(version: str) -> Path:
    """The folder of a lua.h of that version, or the test is skipped."""
    fetched = ROOT / "build" / "interpreters"
    folders = [Path(f"/usr/include/lua{version}"), *sorted(fetched.glob(f"lua{version}*/src"))]
    folders += sorted(fetched.glob(f"lua{version}/usr/include/lua{version}"))
    found = [folder for folder in folders if (folder / "lua.h").exists()]
    return found[0] if found else pytest.skip(f"the headers of Lua {version} are not installed")


def program(version: str) -> str:
    """Prints what both headers define."""
    lines = []
    known = (*HEADERS, "luaconf.h")
    theirs = "".join((headers(version) / name).read_text(errors="replace") for name in known)

    def is_there(name: str) -> bool:
        return re.search(rf"\b{name}\b", theirs) is not None

    for name, value in dict(DEFINED.findall("".join((OURS / each).read_text() for each in HEADERS))).items():
        if name != "LUA_VERSION_RELEASE_NUM" and is_there(name) and (name, version) != ("LUA_GNAME", "5.3"):
            lines.append(f'"{name} %s", {name}' if '"' in value else f'"{name} %lld", (long long)({name})')
    lines += [
        f'"{name} %zu", sizeof({name})'
        for name in TYPES.split()
        if is_there(name) and (name, version) != UNUSED
    ]
    for name, members in MEMBERS.items():
        newer = NEWER_MEMBERS if name == "lua_Debug" and version > "5.3" else ""
        for each in filter(is_there, f"{members} {newer}".split()):
            lines.append(f'"{name}.{each} %zu %zu", offsetof({name}, {each}), sizeof((({name} *)0)->{each})')
    calls = "".join(f'printf({line}); puts("");\n' for line in lines)
    includes = "".join(f"#include <{name}>\n" for name in ("stddef.h", "stdio.h", *HEADERS))
    return f"{includes}{FUNCTIONS}int main(void)\n{{\n{calls}return 0;\n}}\n"


def printed(folder: Path, version: str, *flags: str) -> list[str]:
    (folder / "program.c").write_text(program(version))
    ran(*compiler(), "-std=gnu11", "-Wall", *flags, folder / "program.c", "-o", folder / "program")
    return ran(folder / "program").stdout.splitlines()


# In the run of a further Python the newest Lua has been fetched.
@pytest.mark.parametrize("version", versions.LUAS)
def test_they_are_the_same(version: str, tmp_path: Path) -> None:
    theirs = printed(tmp_path, version, f"-I{headers(version)}", f"-I{OURS}")
    ours = printed(tmp_path, version, f"-I{OURS}", f"-DSS_LUA_ABI={version.replace('.', '0')}")
    assert len(theirs) > (60 if version >= "5.3" else 45) and ours == theirs
