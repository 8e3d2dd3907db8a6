"""``stacksplice run``: a script, a module or a text, so that uncaught errors are reported."""

from __future__ import annotations

import os
import struct
import sys

from .. import _stacksplice
from .._base.hints import Any, Sequence
from .._base.output import fail, warn
from .install import install


def _interpreter() -> str:
    """The file of this interpreter, by the name by which it was started if that can be known."""
    program = os.readlink("/proc/self/exe")
    same = bool(sys.executable) and os.path.realpath(sys.executable) == program
    return sys.executable if same else program


def _command() -> list[str]:
    """How this interpreter was started, up to ``-m stacksplice``; maybe by the loader as a program."""
    with open("/proc/self/cmdline", "rb") as file:
        command = [os.fsdecode(argument) for argument in file.read().split(b"\0")[:-1]]
    program = command[: len(command) - len(sys.orig_argv) + 1]
    del command[len(command) - len(sys.argv) + 1 :]
    if command[-1:] == ["stacksplice"]:
        command[-2:] = ["".join(command[-2:])]
    options, separator, rest = command[-1].rpartition("mstacksplice")
    if rest or not separator:  # somebody else has started us
        from subprocess import _args_from_interpreter_flags  # type: ignore[attr-defined]

        return [*program, *_args_from_interpreter_flags()]
    command[-1:] = [options] if options != "-" else []
    return command


def _environment() -> dict[bytes, bytes]:
    """That with which this process began: the interpreter will change it again."""
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


_SECURE = (23, 1)  # AT_SECURE


def _is_secure() -> bool:
    """Whether the loader obeys no LD_PRELOAD: the file of this Python has capabilities or a set-ID bit."""
    try:
        with open("/proc/self/auxv", "rb") as file:
            return _SECURE in struct.iter_unpack("NN", file.read())
    except PermissionError:  # the kernel may hide such a process, also from itself
        return True


def _loadable(library: str) -> tuple[str, list[str]]:
    """The path of LIBRARY as LD_PRELOAD can have it, which separates by colons and spaces, and what is to
    be closed then."""
    if not any(character in library for character in ": $"):
        return library, []
    folder = os.open(os.path.dirname(library), os.O_PATH | os.O_DIRECTORY)
    os.set_inheritable(folder, True)
    return f"/proc/self/fd/{folder}/{os.path.basename(library)}", [str(folder)]


def _preloading(environment: dict[bytes, bytes], wanted: Sequence[str]) -> dict[bytes, bytes]:
    """ENVIRONMENT, and with it this library in an interpreter that starts."""
    library = os.path.abspath(_stacksplice.__file__)
    package = os.path.dirname(os.path.dirname(library))
    preloaded, descriptors = _loadable(library)
    others = [environment[b"LD_PRELOAD"]] if b"LD_PRELOAD" in environment else []
    environment[b"LD_PRELOAD"] = b":".join([*others, os.fsencode(preloaded)])
    environment[b"STACKSPLICE_RUN"] = os.fsencode(f"{' '.join([*wanted, *descriptors])}:{package}")
    return environment


def _run_python(arguments: Sequence[str], wanted: Sequence[str]) -> int:
    """Becomes the interpreter that runs the program; src/api/start.c says how install() gets there."""
    try:
        if _is_secure():
            warn("run without install(): this Python's file has capabilities or a set-ID bit")
            os.execv(_interpreter(), [*_command(), *arguments])
        os.execve(_interpreter(), [*_command(), *arguments], _preloading(_environment(), wanted))
    except OSError as exc:
        return fail(f"cannot start the interpreter: {exc}")


def begin(wanted: str) -> None:
    """Called in the interpreter that runs the program, before that."""
    options = wanted.split()
    for descriptor in filter(str.isdigit, options):
        os.close(int(descriptor))
    install(crash="crash" in options, locals="locals" in options)


_LUAS = ("lua5.4", "lua5.5", "lua5.3", "lua")


def _lua_command() -> list[str] | None:
    """What runs a Lua script with reports of its uncaught errors, or None."""
    import shutil
    import subprocess

    for name in _LUAS:
        lua = shutil.which(name)
        if lua:
            if subprocess.run([lua, "-e", "require 'stacksplice'"], capture_output=True).returncode == 0:
                return [lua, "-lstacksplice"]
    return None


def _run_lua(path: str, arguments: Sequence[str], wanted: Sequence[str]) -> int:
    """Becomes the standalone Lua: arguments, standard input and exit status are its own."""
    try:
        open(path, "rb").close()
    except OSError as exc:
        return fail(f"cannot read {path}: {exc.strerror}")
    command = _lua_command()
    if command is None:
        return fail(
            f"cannot run {path}: PATH has no Lua ({', '.join(_LUAS)}) that finds the "
            "module stacksplice; install it with luarocks, or name its folder in LUA_CPATH"
        )
    if wanted:
        options = [f"{name} = true" for name in wanted]
        command += ["-e", f"require 'stacksplice.host'.install {{{', '.join(options)}}}"]
    os.execv(command[0], [*command, path, *arguments])


def run(options: Any) -> int:
    """What the user named, as Python would run it."""
    wanted = [name for name in ("crash", "locals") if getattr(options, name)]
    program = options.program
    if program[0] == "--":  # which argparse drops from 3.12 on
        del program[0]
    if options.as_module or options.as_text:
        return _run_python(["-m" if options.as_module else "-c", *program], wanted)
    if program and program[0].endswith(".lua"):
        return _run_lua(program[0], program[1:], wanted)
    return _run_python(program, wanted)
