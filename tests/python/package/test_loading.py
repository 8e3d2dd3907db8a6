"""What an import says that the loader refused."""

from __future__ import annotations

from pathlib import Path

import stacksplice
from stacksplice._base import loading

PACKAGE = str(Path(stacksplice.__file__).parent)


def test_words_of_both_loaders():
    glibc = ImportError("/a/libstacksplice.so.0: version `STACKSPLICE_0.7' not found (required by /b/x.so)")
    musl = ImportError("Error relocating /b/_stacksplice.so: stacksplice_new: symbol not found")
    assert "needed: version 0.7 or newer, by /b\n" in str(loading.explain(glibc, "/b"))
    assert "needed: a newer one, by /b\n" in str(loading.explain(musl, "/b"))


def test_other_reasons_are_left_alone():
    for text in "/b/_stacksplice.so: undefined symbol: PyNew_Function", "libstacksplice.so.0: cannot open":
        assert loading.explain(ImportError(text), "/b") is None


def test_without_a_core_nothing_is_loaded(child):
    source = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("loading", {loading.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert module.loaded_core() is None
assert module.explain(ImportError("version `STACKSPLICE_0.7' not found"), "/b") is None
assert "libstacksplice" not in open("/proc/self/maps").read()
"""
    child(source)
