"""tests/interpreters.py: how it finds the distribution's own archive, and what it says without one."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from building import ROOT, ran

pytestmark = pytest.mark.any_python

SCRIPT = ROOT / "tests" / "interpreters.py"


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("interpreters_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "codename", lambda: "bookworm")
    return module


ONE_LINE = """
# deb https://commented.invalid/debian bookworm main
deb-src https://mirror.invalid/debian bookworm main
deb https://other.invalid/tool stable-tool main
deb [arch=amd64 signed-by=/keys/a.gpg] https://mirror.invalid/debian bookworm main contrib  # ours
"""
DEB822 = """
Types: deb
URIs: https://other.invalid/tool
Suites: tool
Components: main

# the distribution
Types: deb deb-src
URIs: https://mirror.invalid/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /keys/b.gpg
"""


@pytest.mark.parametrize(
    ("name", "text", "components", "key"),
    [
        ("sources.list", ONE_LINE, ["main", "contrib"], "/keys/a.gpg"),
        ("sources.list.d/x.list", ONE_LINE, ["main", "contrib"], "/keys/a.gpg"),
        ("sources.list.d/debian.sources", DEB822, ["main"], "/keys/b.gpg"),
    ],
)
def test_the_machines_own_mirror(script, tmp_path, name, text, components, key):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    entry = script.own_archive(tmp_path)
    assert entry["uris"] == ["https://mirror.invalid/debian"]
    assert (entry["components"], entry["signed-by"]) == (components, [key])
    suite = script.Suite("testing", entry, tmp_path / "cache")
    lines = (suite.folder / "sources.list").read_text().splitlines()
    rest = f"[signed-by={key}] https://mirror.invalid/debian testing {' '.join(components)}"
    assert lines == [f"deb {rest}", f"deb-src {rest}"]


def test_disabled_and_foreign_sources_are_none(script, tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    disabled = DEB822.replace("Types: deb deb-src", "Types: deb\nEnabled: no")
    (tmp_path / "sources.list.d" / "a.sources").write_text(disabled)
    with pytest.raises(script.Unavailable, match="no package source of this distribution"):
        script.own_archive(tmp_path)


def test_without_apt_everything_is_skipped(tmp_path):
    done = ran(sys.executable, SCRIPT, "--cache", tmp_path / "cache", PATH=tmp_path)
    assert done.stdout == "newer interpreters: skipped: this machine has no apt-get\n"


def test_what_is_there_is_not_fetched_again(script, tmp_path, monkeypatch, capsys):
    names = [*script.BINARIES, *(f"{name}-source" for name in script.SOURCES)]
    index = {name: {"version": "1", "path": str(tmp_path)} for name in names}
    (tmp_path / "index.json").write_text(json.dumps(index))
    monkeypatch.setattr(sys, "argv", ["interpreters.py", "--cache", str(tmp_path)])
    monkeypatch.setattr(script, "run", lambda *_: pytest.fail("something was run"))
    assert script.main() == 0
    assert capsys.readouterr().out.splitlines() == [f"{name}: 1, {tmp_path}" for name in names]
