"""The rock: LuaRocks builds, tests, packs and installs it, without a network.

It runs for each Lua that LuaRocks and this machine have; STACKSPLICE_LUAROCKS is another command
than luarocks, and STACKSPLICE_LUAJIT_ROOT a folder with Lua 5.1, 5.2 and LuaJIT as packages install them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLDER = Path(os.environ.get("STACKSPLICE_LUAJIT_ROOT", "/usr"))
LUAROCKS = os.environ.get("STACKSPLICE_LUAROCKS", "luarocks")


def copy_sources(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    if listed.returncode != 0:
        pytest.skip("the sources are no git repository")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


@pytest.mark.parametrize("name", ["5.1", "5.2", "5.3", "5.4", "5.5", "luajit"])
def test_rock(name: str, tmp_path: Path) -> None:
    version = "5.1" if name == "luajit" else name  # whose API and folders it has
    root = OLDER if version < "5.3" else Path("/usr")
    program = name if name == "luajit" else f"lua{version}"
    lua, include = root / "bin" / program, root / "include" / ("luajit-2.1" if name == "luajit" else program)
    if not shutil.which(LUAROCKS) or not lua.exists() or not (include / "lua.h").exists():
        pytest.skip(f"LuaRocks or {program} with its headers is not installed")
    sources, tree, other = tmp_path / "sources", tmp_path / "tree", tmp_path / "other"
    copy_sources(sources)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LUA_PATH", "LUA_CPATH"))}
    environment |= {"HOME": str(tmp_path), "LUAROCKS_CONFIG": str(tmp_path / "config.lua")}
    environment["C_INCLUDE_PATH"] = str(root / "include" / sysconfig.get_config_var("MULTIARCH"))
    places = {"LUA_DIR": root, "LUA_BINDIR": root / "bin", "LUA_INCDIR": include, "LUA": lua}
    variables = ", ".join(f'{key} = "{place}"' for key, place in places.items())
    config = f'rocks_servers = {{}}\nlua_interpreter = "{program}"\nvariables = {{{variables}}}\n'
    (tmp_path / "config.lua").write_text(config)

    def luarocks(*words: object) -> str:
        done = subprocess.run(
            [LUAROCKS, f"--lua-version={version}", *map(str, words)],
            cwd=sources,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    rockspec = "stacksplice-scm-0.rockspec"
    luarocks("lint", rockspec)
    luarocks("make", "--tree", tree, rockspec)
    assert " 0 failures" in luarocks("test", rockspec)
    luarocks("pack", "stacksplice", "--tree", tree)
    (packed,) = sources.glob("stacksplice-scm-0.*.rock")
    luarocks("install", "--tree", other, packed)

    script = tmp_path / "fails.lua"
    script.write_text("error({code = 2})")
    failed = subprocess.run(
        [lua, "-lstacksplice", script],
        env=environment | {"LUA_CPATH": f"{other}/lib/lua/{version}/?.so;;"},
        text=True,
        capture_output=True,
    )
    assert failed.returncode == 1
    assert ": {code = 2}\nstack traceback:" in failed.stderr
    assert list(other.rglob("stacksplice.d.lua")), "the types for editors are left out"
    assert (other / "share" / "lua" / version / "stacksplice" / "busted.lua").exists()
