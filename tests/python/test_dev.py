"""What ./dev says of a command line that is wrong, before it installs or builds anything."""

from __future__ import annotations

import pytest
from building import ROOT, ran

pytestmark = pytest.mark.any_python


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["tset"], "there is no command 'tset'"),
        (["test", "ctets"], "there is no test part 'ctets'; the parts are: all, "),
        (["demo", "--al"], "demo has one option, --all; not: --al"),
        (["demo", "--all", "--all"], "demo has one option, --all; not: --all --all"),
        (["fuzz", "unwnd"], "there is no fuzz target 'unwnd'"),
        (["--python"], "--python needs a path"),
    ],
)
def test_what_is_wrong_is_the_last_line(arguments, words):
    done = ran("/bin/sh", str(ROOT / "dev"), *arguments, status=2)
    assert done.stderr.splitlines()[-1].startswith(f"dev: {words}")
    assert "==>" not in done.stdout  # the mark of each step that is done
