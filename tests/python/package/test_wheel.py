"""As its user meets it: the wheel and lupa in a fresh environment, and a program that fails."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import versions
from lupa_truth import CASES, check_report

LUAS = [name for name in versions.LUPAS if name != "luajit20"]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """What `./dev test` installed into the environment of these tests."""
    found = [*Path(sys.prefix, "wheel").glob("stacksplice-*.whl")]
    if not found:
        pytest.skip(f"there is no wheel in {sys.prefix}/wheel: ./dev test builds one")
    return found[0]


def pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=outside(), timeout=300)


def outside() -> dict[str, str]:
    """The environment without what leads to a build tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LUA_CPATH")}


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has nothing but the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300, env=outside())
    python = folder / "bin" / "python"
    done = pip(python, "--no-index", str(wheel))
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="module")
def with_lupa(fresh: Path) -> Path:
    done = pip(fresh, "--only-binary", ":all:", "lupa")
    if done.returncode != 0:
        pytest.skip(f"lupa is not to be had: {done.stderr.strip().splitlines()[-1]}")
    return fresh


@pytest.mark.parametrize("how", ["run", "install"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", LUAS)
def test_the_first_report(with_lupa: Path, name: str, case: str, how: str, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    check_report(str(with_lupa), tmp_path, how == "run", name, case)


def test_the_wheel_has_all_that_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name).name for name in archive.namelist()]
    assert "libstacksplice.so.0" in names and "py.typed" in names
    assert {f"libstacksplice-lua{version}.so.0" for version in (51, 52, 53, 54, 55, "jit")} <= {*names}


def test_it_works_where_nothing_else_is(fresh: Path, tmp_path) -> None:
    """Without lupa, compiler and source tree: a plain traceback stays as it is."""
    program = tmp_path / "program.py"
    program.write_text("def fails():\n    return {}['XXX']\n\n\nfails()\n")
    empty = {"PATH": str(tmp_path), "NO_COLOR": "1"}

    def shown(*command: str) -> str:
        done = subprocess.run(
            [str(fresh), *command, "program.py"], capture_output=True, text=True, cwd=tmp_path, env=empty
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    assert shown("-m", "stacksplice", "run") == shown()
