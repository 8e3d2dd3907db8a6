"""The libraries that the extension loads while the program runs: nothing links with them."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
binaries = [(str(library), "stacksplice") for library in _PACKAGE.glob("libstacksplice-lua*.so.*")]
