"""``python -m stacksplice run``: a script, a module or a text, so that uncaught errors are reported."""

from __future__ import annotations

import io
import os
import sys
import types

from .._base.output import fail
from .install import install

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any


def _run_code(code: types.CodeType, main: types.ModuleType) -> int:
    """CODE as the program; reports leave out the frames from here outward."""
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as exc:
        # Without this frame, which is not the program's.
        traceback = exc.__traceback__.tb_next if exc.__traceback__ else None
        sys.excepthook(type(exc), exc.with_traceback(traceback), traceback)
        return 130 if isinstance(exc, KeyboardInterrupt) else 1
    return 0


def _main_module() -> types.ModuleType:
    """A new module __main__, in place of ours."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    return main


def _run_source(source: Callable[[], types.CodeType | None], main: types.ModuleType) -> int:
    try:
        code = source()
    except (SyntaxError, ValueError) as exc:  # as Python shows it: without the compiler's callers
        sys.excepthook(type(exc), exc.with_traceback(None), None)
        return 1
    if code is None:  # an extension, or built in
        return fail(f"{main.__spec__.name if main.__spec__ else 'this'} has no Python code")
    return _run_code(code, main)


def _run_text(text: str, arguments: Sequence[str], wanted: dict[str, bool]) -> int:
    sys.argv[:] = ["-c", *arguments]
    sys.path[0:1] = [""]
    install(**wanted)
    return _run_source(lambda: compile(text, "<string>", "exec"), _main_module())


def _run_file(path: str, arguments: Sequence[str], wanted: dict[str, bool]) -> int:
    full = os.path.join(os.getcwd(), path)  # as Python names it, also in tracebacks
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as exc:
        return fail(f"cannot read {path}: {exc.strerror}")
    main = _main_module()
    main.__file__ = full
    sys.argv[:] = [path, *arguments]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
    install(**wanted)
    return _run_source(lambda: compile(source, full, "exec"), main)


def _spec_of(name: str) -> ModuleSpec | str:
    """The module that `-m NAME` runs, or why there is none."""
    from importlib.util import find_spec

    if name.startswith("."):
        return f"{name} is relative, and there is nothing that it is relative to"
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
            if spec is None:
                return f"{name} is a package without a module __main__"
    except ModuleNotFoundError as exc:
        # If the module exists but imports a missing one, that is the module's error.
        if exc.name is None or not f"{name}.__main__.".startswith(f"{exc.name}."):
            raise
        spec = None
    except ValueError:  # a name that cannot be one
        spec = None
    if spec is None:
        return f"there is no module {name}"
    return spec if hasattr(spec.loader, "get_code") else f"{name} has no Python code"


def _run_module(name: str, arguments: Sequence[str], wanted: dict[str, bool]) -> int:
    """As runpy does it, whose frames would stand in every report."""
    sys.argv[:] = [name, *arguments]
    sys.path[0:1] = [os.getcwd()]
    install(**wanted)
    spec = _spec_of(name)
    if isinstance(spec, str):
        return fail(spec)
    loader: Any = spec.loader
    main = _main_module()
    main.__dict__.update(
        __cached__=spec.cached,
        __file__=spec.origin,
        __loader__=loader,
        __package__=spec.parent,
        __spec__=spec,
    )
    sys.argv[0] = spec.origin or name
    return _run_source(lambda: loader.get_code(spec.name), main)


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


def _run_lua(path: str, arguments: Sequence[str], wanted: dict[str, bool]) -> int:
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
    options = [f"{name} = true" for name, is_wanted in wanted.items() if is_wanted]
    if options:
        command += ["-e", f"require 'stacksplice'.install {{{', '.join(options)}}}"]
    os.execv(command[0], [*command, path, *arguments])


def run(options: argparse.Namespace) -> int:
    """What the user named, as Python would run it."""
    wanted = {"crash": options.crash, "locals": options.locals}
    if options.as_module:
        return _run_module(options.script, options.arguments, wanted)
    if options.as_text:
        return _run_text(options.script, options.arguments, wanted)
    if options.script.endswith(".lua"):
        return _run_lua(options.script, options.arguments, wanted)
    return _run_file(options.script, options.arguments, wanted)
