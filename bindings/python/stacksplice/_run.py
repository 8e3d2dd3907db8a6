"""``python -m stacksplice run``: a script, a module or a text, so that uncaught errors are reported."""

from __future__ import annotations

import io
import os
import sys
import types

from ._install import install
from ._output import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def _run_source(source: str | bytes, name: str, main: types.ModuleType) -> int:
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    install()
    try:
        exec(compile(source, name, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as exc:
        # Without this frame, which is not the script's.
        traceback = exc.__traceback__.tb_next if exc.__traceback__ else None
        sys.excepthook(type(exc), exc.with_traceback(traceback), traceback)
        return 130 if isinstance(exc, KeyboardInterrupt) else 1
    return 0


def _run_text(text: str, arguments: Sequence[str]) -> int:
    sys.argv[:] = ["-c", *arguments]
    sys.path[0:1] = [""]
    return _run_source(text, "<string>", types.ModuleType("__main__"))


def _run_file(path: str, arguments: Sequence[str]) -> int:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as exc:
        return fail(f"cannot read {path}: {exc.strerror}")
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.argv[:] = [path, *arguments]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
    return _run_source(source, path, main)


def _missing_module(name: str) -> str | None:
    """Why there is nothing to run under that NAME, or None."""
    from importlib.util import find_spec

    if name.startswith("."):
        return f"{name} is relative, and there is nothing that it is relative to"
    try:
        spec = find_spec(name)
        package = spec is not None and spec.submodule_search_locations is not None
        if package and find_spec(f"{name}.__main__") is None:
            return f"{name} is a package without a module __main__"
    except ModuleNotFoundError as exc:
        # If the module exists but imports a missing one, that is the module's error.
        if exc.name is None or not f"{name}.__main__.".startswith(f"{exc.name}."):
            raise
        spec = None
    except ValueError:  # a name that cannot be one
        spec = None
    return None if spec else f"there is no module {name}"


def _run_module(name: str, arguments: Sequence[str]) -> int:
    import runpy

    sys.argv[:] = [name, *arguments]
    sys.path[0:1] = [os.getcwd()]
    install()
    missing = _missing_module(name)
    if missing:
        return fail(missing)
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


_LUAS = ("lua5.4", "lua5.5", "lua5.3", "lua")


def _lua_command() -> list[str] | None:
    """What runs a Lua script with reports of its uncaught errors, or None."""
    import shutil
    import subprocess

    runner = shutil.which("stacksplice-lua")
    if runner:
        return [runner]
    for name in _LUAS:
        lua = shutil.which(name)
        if lua:
            has_module = subprocess.run([lua, "-e", "require 'stacksplice'"], capture_output=True)
            if has_module.returncode == 0:
                return [lua, "-lstacksplice"]
    return None


def _run_lua(path: str, arguments: Sequence[str]) -> int:
    """Becomes the standalone Lua: arguments, standard input and exit status are its own."""
    try:
        open(path, "rb").close()
    except OSError as exc:
        return fail(f"cannot read {path}: {exc.strerror}")
    command = _lua_command()
    if command is None:
        return fail(
            f"cannot run {path}: PATH has neither stacksplice-lua nor a Lua ({', '.join(_LUAS)}) that finds "
            "the module stacksplice; install it with luarocks, or name its folder in LUA_CPATH"
        )
    os.execv(command[0], [*command, path, *arguments])


def run(options: argparse.Namespace) -> int:
    """What the user named, as Python would run it."""
    if options.as_module:
        return _run_module(options.script, options.arguments)
    if options.as_text:
        return _run_text(options.script, options.arguments)
    if options.script.endswith(".lua"):
        return _run_lua(options.script, options.arguments)
    return _run_file(options.script, options.arguments)
