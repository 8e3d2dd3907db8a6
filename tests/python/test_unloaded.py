"""Stacks of code that was unloaded since they were captured."""

from __future__ import annotations

import _ctypes
import ctypes
from pathlib import Path
from typing import Any

import pytest
import stacksplice
from building import compile_c

SOURCE = """
typedef void (*callback)(void);
__attribute__((noinline)) static int NAME(callback f) { f(); return 1; }
__attribute__((visibility("default"))) int entry(callback f) { return NAME(f) + 1; }
"""
CALLBACK = ctypes.CFUNCTYPE(None)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "plugin.c"
    source.write_text(SOURCE)
    flags = ["-shared", "-fPIC", "-fno-optimize-sibling-calls", "-Wl,--build-id"]
    return [
        str(compile_c(folder / f"{name}.so", [source], f"-DNAME=plugin_{name}", *flags))
        for name in ("first", "second")
    ]


def call_in(path: str, function: Any) -> tuple[Any, BaseException | None]:
    """What FUNCTION returns or raises below a plugin, which is unloaded then."""
    library = ctypes.CDLL(path)
    result: list[Any] = [None, None]

    def keep() -> None:
        try:
            result[0] = function()
        except Exception as error:
            result[1] = error

    library.entry(CALLBACK(keep))
    _ctypes.dlclose(library._handle)
    return result[0], result[1]


def modules_of(stack: Any) -> set[str]:
    return {Path(frame.module).name for frame in stack if frame.module}


def functions_of(stack: Any) -> set[str | None]:
    return {frame.function for frame in stack}


def test_captured_stack_keeps_its_modules(plugins: list[str]) -> None:
    stack, _ = call_in(plugins[0], stacksplice.capture)
    second = ctypes.CDLL(plugins[1])
    assert "first.so" in modules_of(stack)
    assert "second.so" not in modules_of(stack)
    assert "plugin_second" not in functions_of(stack)
    if stacksplice._stacksplice._lines_missing() is None:
        assert "plugin_first" in functions_of(stack)
    _ctypes.dlclose(second._handle)


def test_error_keeps_its_modules(plugins: list[str]) -> None:
    def fail() -> None:
        stacksplice.originate(ValueError("no stock"))

    call_in(plugins[0], fail)
    error = stacksplice.take_error()
    assert error is not None
    second = ctypes.CDLL(plugins[1])
    assert "first.so" in modules_of(error.stack)
    assert "second.so" not in modules_of(error.stack)
    assert "plugin_second" not in str(error)
    _ctypes.dlclose(second._handle)
