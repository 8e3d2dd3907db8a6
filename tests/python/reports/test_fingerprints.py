"""What changes the two fingerprints of an error, and what does not: in other processes, builds, folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import stacksplice
from building import HERE, PACKAGE, compile_c, core_library, ran
from raising import boom, caught
from stacksplice import ErrorInfo

SHOP = """\
import border

def parse(text):
    return int(text)

def load(text):
    return border.call(parse, text)
"""
PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
import shop, stacksplice
try:
    shop.load("x")
except ValueError as exc:
    info = stacksplice.error_info(exc)
print(info.to_json())
"""
ADDED = '__attribute__((used)) static void added(void) { __asm__ volatile(".skip 4096"); }\n'


def place(folder: Path, before: str = "", *flags: str) -> Path:
    """A checkout of the program with a native module, whose source has BEFORE in front."""
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    source = folder / "border_of_shop.c"
    source.write_text(f'{before}#include "{HERE / "border.c"}"\n')
    compile_c(
        folder / ("border" + sysconfig.get_config_var("EXT_SUFFIX")),
        [source, HERE / "border_second.c"],
        "-shared",
        "-fPIC",
        "-fno-toplevel-reorder",
        "-pthread",
        "-Wl,--build-id",
        f"-I{HERE}",
        *core_library(),
        *flags,
    )
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return place(tmp_path_factory.mktemp("checkouts") / "first")


def report_of(folder: Path, *prefix: str, python: str = sys.executable) -> dict:
    done = ran(*prefix, python, "-c", PROGRAM, folder, PYTHONPATH=f"{PACKAGE.parent}{os.pathsep}{HERE}")
    return json.loads(done.stdout)


def both(report: dict) -> tuple[str, str]:
    return report["fingerprint"], report["loose_fingerprint"]


def native(report: dict) -> dict:
    """The frame of the module's function: other native frames are glue."""
    (frame,) = [
        frame
        for frame in report["stack"]
        if frame["kind"] == "native" and "border" in frame["module"] and not frame.get("glue")
    ]
    return frame


def test_another_run_has_other_addresses_and_the_same_fingerprints(checkout):
    first = report_of(checkout)
    runs = [report_of(checkout) for _ in range(3)]
    assert native(first)["function"] == "call"
    assert {both(run) for run in runs} == {both(first)} and len(set(both(first))) == 2
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0":
        assert len({native(run)["address"] for run in [first, *runs]}) > 1


def test_another_folder_has_the_same_fingerprints(checkout, tmp_path):
    moved = tmp_path / "second"
    shutil.copytree(checkout, moved)
    assert both(report_of(moved)) == both(report_of(checkout))


def test_a_rebuilt_binary_has_the_same_loose_fingerprint(checkout, tmp_path):
    first, again = report_of(checkout), report_of(place(tmp_path / "rebuilt", ADDED))
    assert native(first)["module_offset"] != native(again)["module_offset"]
    assert first["fingerprint"] != again["fingerprint"]
    assert first["loose_fingerprint"] == again["loose_fingerprint"]


def test_a_stripped_binary_has_the_same_strict_fingerprint_and_a_loose_one_of_its_own(checkout, tmp_path):
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("strip is not installed")
    stripped = [tmp_path / "stripped", place(tmp_path / "rebuilt", ADDED)]
    shutil.copytree(checkout, stripped[0])
    for folder in stripped:
        (module,) = folder.glob("border*.so")
        subprocess.run([strip, str(module)], check=True)
    whole, first, rebuilt = report_of(checkout), *map(report_of, stripped)
    assert first["fingerprint"] == whole["fingerprint"] != rebuilt["fingerprint"]
    # What is left is the name by which scripts call it: equal in all stripped builds.
    assert native(first).get("function") == native(rebuilt).get("function") != native(whole)["function"]
    assert first["loose_fingerprint"] == rebuilt["loose_fingerprint"] != whole["loose_fingerprint"]


def test_another_patch_version_of_python_has_the_same_fingerprints(checkout):
    number = f"{sys.version_info[0]}.{sys.version_info[1]}"
    other = f"/usr/bin/python{number}"
    if not os.path.exists(other):
        pytest.skip(f"there is no {other}")
    version = ran(other, "-c", "import sys; print(sys.version)")
    if version.stdout.strip() == sys.version.strip():
        pytest.skip(f"{other} is this Python")
    assert both(report_of(checkout, python=other)) == both(report_of(checkout))


def test_saved_reports_keep_both_and_old_ones_have_no_loose_one(border):
    info = stacksplice.error_info(caught(border.call, boom, ValueError("x")))
    again = ErrorInfo.from_json(info.to_json())
    assert (again.fingerprint, again.loose_fingerprint) == (info.fingerprint, info.loose_fingerprint)
    old = ErrorInfo.from_json((HERE / "saved" / "error-1.json").read_text())
    assert old.loose_fingerprint == "" and len(old.fingerprint) == 32
