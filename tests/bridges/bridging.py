"""Where the tests of bridges find what they need, and the type of their fixture."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import stacksplice

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = Path(stacksplice.__file__).resolve().parent.parent
LUA_MODULES = Path(os.environ.get("STACKSPLICE_BUILD_DIR", ROOT / "build" / "dev")) / "lua" / "5.4"

Run = Callable[..., str]
