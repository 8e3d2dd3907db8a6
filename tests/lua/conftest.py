"""Options of test_luas.py, and where its modules are."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for versions.py


def pytest_addoption(parser):
    parser.addoption("--all-luas", action="store_true", help="every build of every Lua, not only a few")
