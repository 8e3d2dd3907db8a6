"""The versions of CPython and Lua that are known, the oldest first, from the header that has them."""

import re
from pathlib import Path

_HEADER = Path(__file__).resolve().parent.parent / "bindings" / "shared" / "versions.h"


def _listed(name: str) -> list[str]:
    (text,) = re.findall(rf'#define {name} "(.*)"', _HEADER.read_text(encoding="utf-8"))
    return str(text).split()


CPYTHONS = _listed("SS_CPYTHONS")
LUAS = _listed("SS_LUAS")
# As lupa names its modules, LuaJIT before the first Lua that has nothing of it.
LUPAS = [f"lua{version.replace('.', '')}" for version in LUAS]
LUPAS[2:2] = ["luajit20", "luajit21"]
