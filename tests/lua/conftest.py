"""Options of test_luas.py."""


def pytest_addoption(parser):
    parser.addoption("--all-luas", action="store_true", help="every build of every Lua, not only a few")
