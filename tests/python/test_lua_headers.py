"""The declarations of Lua in bindings/lupa/loadable are those of Lua's own headers."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from building import ran

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "bindings" / "lupa" / "loadable" / "include"
PROGRAM = Path(__file__).with_name("lua_headers.c")


def headers(version: str) -> Path:
    """The folder of a lua.h of that version, or the test is skipped."""
    folders = [Path(f"/usr/include/lua{version}")]
    folders += sorted((ROOT / "build" / "interpreters").glob(f"lua{version}*/src"))
    folders += sorted((ROOT / "build" / "interpreters").glob(f"lua{version}/usr/include/lua{version}"))
    for folder in folders:
        if (folder / "lua.h").exists():
            return folder
    pytest.skip(f"the headers of Lua {version} are not installed")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def printed(output: Path, *flags: str) -> list[str]:
    command = [*compiler(), "-std=gnu11", "-Wall", *flags, str(PROGRAM), "-o", str(output)]
    # Ours declares variables for the functions, which this program does not use.
    ran(*command)
    return subprocess.run([output], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.any_python
@pytest.mark.parametrize("version", ["5.3", "5.4", "5.5"])
def test_they_are_the_same(version: str, tmp_path: Path) -> None:
    lua = headers(version)
    theirs = printed(tmp_path / "theirs", f"-I{lua}", f"-I{OURS}")
    ours = printed(tmp_path / "ours", f"-I{OURS}", f"-DSS_LUA_ABI={version.replace('.', '0')}")
    assert len(theirs) > 60 and ours == theirs
