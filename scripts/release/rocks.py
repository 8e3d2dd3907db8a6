"""The rocks: one of the sources, and one for each Lua that LuaRocks can build for on this machine."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from common import NATIVE, Failed, Release, files_below, outside, pack, zig
from wheels import unpack_source

# The name, the version that LuaRocks is told, and where Debian has the headers.
LUAS = (
    ("lua5.1", "5.1", "lua5.1"),
    ("lua5.2", "5.2", "lua5.2"),
    ("lua5.3", "5.3", "lua5.3"),
    ("lua5.4", "5.4", "lua5.4"),
    ("luajit", "5.1", "luajit-2.1"),
)
SHOWN = '{code = 409, message = "the seat is taken", seat = "12A"}'


def versioned(release: Release, url: str) -> Path:
    """The rockspec of this version, from that of the sources."""
    text = (release.tree / "stacksplice-scm-0.rockspec").read_text(encoding="utf-8")
    archive = release.archive.name
    source = f'url = "{url + "/" if url else "file://"}{archive}",\n   dir = "stacksplice-{release.version}"'
    text = text.replace('version = "scm-0"', f'version = "{release.version}-1"')
    text = text.replace('url = "."', source)
    text = re.sub(r"^-- `luarocks make`.*\n", "", text, flags=re.MULTILINE)
    file = release.out / f"stacksplice-{release.version}-1.rockspec"
    file.write_text(text, encoding="utf-8")
    release.note(
        file, "luarocks lint " + (release.run("lint", "luarocks", "lint", file).strip() or "says nothing")
    )
    return file


def make_source_rock(release: Release, rockspec: Path) -> Path:
    rock = rockspec.with_name(f"{rockspec.stem}.src.rock")
    pack(rock, {file.name: file for file in (rockspec, release.archive)}, release.epoch)
    return rock


def luarocks(version: str, tree: Path) -> list[str | Path]:
    """LuaRocks for one Lua, and the folder that it installs into."""
    return ["luarocks", "--lua-version", version, "--tree", tree]


def example(release: Release) -> str:
    """README's first program of Lua."""
    text = (release.tree / "README.md").read_text(encoding="utf-8")
    return text.partition("```lua\n")[2].partition("```")[0]


def try_tree(release: Release, lua: str, version: str, tree: Path) -> None:
    """README's example with what is installed in TREE."""
    folder = release.folder(f"lua/{lua}")
    (folder / "tickets.lua").write_text(example(release), encoding="utf-8")
    environment = {
        **outside(),
        "LUA_PATH": f"{tree}/share/lua/{version}/?.lua;{tree}/share/lua/{version}/?/init.lua;;",
        "LUA_CPATH": f"{tree}/lib/lua/{version}/?.so;;",
    }
    text = release.run(
        f"example-{lua}", lua, "-lstacksplice", "tickets.lua", status=1, cwd=folder, env=environment
    )
    if SHOWN not in text or "tickets.lua:3: in " not in text:
        raise Failed(f"{lua}: the example does not show its error:\n{text}")


def make_rock(release: Release, rockspec: Path, lua: str, version: str, headers: str) -> Path:
    """Through LuaRocks for one Lua.  What does not depend on it is compiled once."""
    source = unpack_source(release)
    include = f"LUA_INCDIR=/usr/include/{headers}"
    environment = {
        **zig(NATIVE),
        "CMAKE_TOOLCHAIN_FILE": str(source / "cmake" / "toolchains" / "zig.cmake"),
        "CMAKE_GENERATOR": "Ninja",
        # One header of Debian's Lua is among those of the C library, which zig has its own of.
        "CFLAGS": "-idirafter /usr/include/x86_64-linux-gnu",
    }
    tree, made = release.work / "trees" / lua, release.folder(f"rocks/{lua}")
    shutil.rmtree(tree, ignore_errors=True)
    command = luarocks(version, tree)
    release.run(f"rock-{lua}", *command, "make", rockspec, include, cwd=source, env=environment)
    release.run(f"pack-{lua}", *command, "pack", "stacksplice", cwd=made, env=outside())
    (packed,) = made.glob("*.rock")
    content = made / "content"
    shutil.rmtree(content, ignore_errors=True)
    shutil.unpack_archive(packed, content, "zip")
    rock = release.out / "rocks" / lua / packed.name
    rock.parent.mkdir(parents=True, exist_ok=True)
    pack(rock, {str(file.relative_to(content)): file for file in files_below(content)}, release.epoch)
    packed.unlink()
    return rock


def try_rock(release: Release, rock: Path, lua: str, version: str) -> None:
    """Installed into a fresh tree."""
    there = release.work / "trees" / f"{lua}-fresh"
    shutil.rmtree(there, ignore_errors=True)
    release.run(f"install-{lua}", *luarocks(version, there), "install", rock, env=outside())
    try_tree(release, lua, version, there)
    release.note(rock, f"luarocks install, README's example ran with {lua}")


def make_rocks(release: Release, url: str, untried: bool) -> None:
    if not shutil.which("luarocks"):
        release.leave_out("the rocks: there is no luarocks")
        return
    rockspec = versioned(release, url)
    source = make_source_rock(release, rockspec)
    for lua, version, headers in LUAS:
        if shutil.which(lua) and Path(f"/usr/include/{headers}/lua.h").exists():
            rock = make_rock(release, rockspec, lua, version, headers)
            if not untried:
                try_rock(release, rock, lua, version)
        else:
            release.leave_out(f"the rock for {lua}: there is none, or no lua.h")
    release.leave_out("the rock for Lua 5.5: LuaRocks finds no version in its headers")
    if untried:
        return
    tree = release.work / "trees" / "source"
    shutil.rmtree(tree, ignore_errors=True)
    command = luarocks("5.4", tree)
    release.run("install-source", *command, "install", source, env=outside())
    try_tree(release, "lua5.4", "5.4", tree)
    release.note(source, "luarocks install compiled it, README's example ran with lua5.4")
