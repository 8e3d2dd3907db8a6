"""Errors below code that was unloaded since: what the process and dump say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import compile_c, start
from test_dump import dumped

pytestmark = pytest.mark.any_python

SOURCE = """
typedef void (*callback)(void);
__attribute__((noinline)) static int NAME(callback f) { f(); return 1; }
__attribute__((visibility("default"))) int entry(callback f) { return NAME(f) + 1; }
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "plugin.c"
    source.write_text(SOURCE)
    flags = ["-shared", "-fPIC", "-fno-optimize-sibling-calls"]
    return [
        str(
            compile_c(
                folder / f"{name}.so", [source], f"-DNAME=plugin_{name}", f"-Wl,--build-id{kind}", *flags
            )
        )
        for name, kind in (("first", ""), ("second", ""), ("bare", "=none"))
    ]


PROGRAM = """
import _ctypes, ctypes, json, sys
import stacksplice
library = ctypes.CDLL(sys.argv[1])
fail = ctypes.CFUNCTYPE(None)(lambda: stacksplice.originate(ValueError("no stock")))
library.entry(fail)
_ctypes.dlclose(library._handle)
second = ctypes.CDLL(sys.argv[2])
print(json.dumps(stacksplice.peek_error().to_dict()), flush=True)
sys.stdin.read()
"""


def modules_in(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("kind", "module", "module_offset", "build_id")
    plugins = [frame for frame in report["stack"] if "/plugins" in frame.get("module", "")]
    return [tuple(frame.get(key) for key in keys) for frame in plugins]


def two_reports(program: Path, *plugins: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of one error below the first plugin, which is unloaded: of the process itself, and of dump."""
    program.write_text(PROGRAM)
    with start(program, *plugins) as child:
        (thread,) = dumped(child.pid)["threads"]
    return json.loads(child.line), thread["error"]


def test_dump_shows_the_modules_of_an_error(plugins: list[str], tmp_path: Path) -> None:
    own, seen = two_reports(tmp_path / "unload.py", *plugins[:2])
    assert [module for _, module, *_ in modules_in(own)] == [plugins[0]] * 2
    assert modules_in(seen) == modules_in(own)


def test_dump_names_a_module_whose_file_nobody_knows(plugins: list[str], tmp_path: Path) -> None:
    own, seen = two_reports(tmp_path / "unload.py", plugins[2], plugins[1])
    wanted = [f"this code was unloaded: {module}+{offset:#x}" for _, module, offset, _ in modules_in(own)]
    assert len(wanted) == 2 and not modules_in(seen)
    assert [f["reason"] for f in seen["stack"] if "unloaded" in f.get("reason", "")] == wanted
