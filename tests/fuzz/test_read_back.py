"""The corpora of the targets in Python, without a fuzzer."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from read_back import TARGETS  # noqa: E402

pytestmark = pytest.mark.any_python

INPUTS = [(name, path) for name in TARGETS for path in sorted((HERE / "corpus" / name).iterdir())]


@pytest.mark.parametrize(("name", "path"), INPUTS, ids=lambda value: getattr(value, "name", value))
def test_replay(name, path):
    TARGETS[name](path.read_bytes())
