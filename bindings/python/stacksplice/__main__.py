"""Run a script so that uncaught errors are shown with the frames of all languages, or read a report."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from . import __version__
from ._errors import ErrorInfo
from ._install import install
from ._loading import loaded_core

_STATUSES = """\
exit status:
  run      that of the script; 1 if it ended with an uncaught exception,
           130 if by an interrupt; 2 if there is no such script or module
  show     0 if all reports were printed; 2 if the file cannot be read or holds
           something else
  2 too if the command line is wrong
"""


def _fail(message: str) -> int:
    print(f"stacksplice: {message}", file=sys.stderr)
    return 2


def _run_file(path: str, arguments: Sequence[str]) -> int:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as exc:
        return _fail(f"cannot read {path}: {exc.strerror}")
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.argv[:] = [path, *arguments]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
    install()
    try:
        exec(compile(source, path, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as exc:
        # Without this frame, which is not the script's.
        traceback = exc.__traceback__.tb_next if exc.__traceback__ else None
        sys.excepthook(type(exc), exc.with_traceback(traceback), traceback)
        return 130 if isinstance(exc, KeyboardInterrupt) else 1
    return 0


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
        return _fail(missing)
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _documents(text: str) -> list[Any]:
    """The JSON of TEXT: one document, or one on each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        try:
            documents = [json.loads(line) for _, line in lines[:1]]
        except ValueError:
            documents = []
        if len(lines) < 2 or not documents:
            raise
    for number, line in lines[1:]:
        try:
            documents.append(json.loads(line))
        except ValueError as exc:
            raise ValueError(f"on line {number}: {exc}") from exc
    return documents


def _reports(text: str) -> Iterator[ErrorInfo]:
    """One report, a list of them, or one on each line; each may stand under "error" in an object."""
    if not text.strip():
        raise ValueError("the file is empty")
    items = _documents(text)
    if len(items) == 1:
        whole = items[0]
        if isinstance(whole, dict) and isinstance(whole.get("errors"), list):
            whole = whole["errors"]
        if isinstance(whole, list):
            items = whole
    if not items:
        raise ValueError("the list of errors is empty")
    for item in items:
        inner = item.get("error") if isinstance(item, dict) else None
        yield ErrorInfo._from_json_values(inner if isinstance(inner, dict) else item)


def _text_of(report: ErrorInfo, number: int, all_frames: bool) -> str:
    try:
        return report.format(all_frames=all_frames)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
        raise ValueError(f"report {number} is damaged: {type(exc).__name__}: {exc}") from exc


def _show(path: str, all_frames: bool) -> int:
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        reports = _reports(data.decode("utf-8-sig"))
        texts = [_text_of(report, number, all_frames) for number, report in enumerate(reports, 1)]
    except OSError as exc:
        return _fail(f"cannot read {name}: {exc.strerror}")
    except UnicodeDecodeError as exc:
        return _fail(f"cannot show {name}: it is not UTF-8 (byte {exc.start})")
    except (ValueError, RecursionError) as exc:
        return _fail(f"cannot show {name}: {exc}")
    return _print("\n".join(texts))


def _print(text: str) -> int:
    """TEXT to standard output, whatever it can encode and as far as it is read."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        # The reader has gone, which is no failure; the interpreter would flush again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _version() -> int:
    core = loaded_core()
    print(f"stacksplice {__version__}")
    print(f"core {core[1]}, {core[0]}" if core else "core: built into the program")
    print(f"Python {sys.version.split()[0]}, {sys.executable}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stacksplice",
        description=__doc__,
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stacksplice {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    run = commands.add_parser(
        "run",
        help="run a script, or with -m a module, with install()",
        usage="python -m stacksplice run [-h] script.py [argument ...]\n"
        "       python -m stacksplice run [-h] -m module [argument ...]",
    )
    run.add_argument("-m", dest="as_module", action="store_true", help="run a module")
    run.add_argument("script", help="script to run, or with -m the name of a module")
    rest = run.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments for it")
    rest.required = False  # so that argparse does not name it as missing
    show = commands.add_parser("show", help="print saved JSON reports as text")
    show.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    show.add_argument("report", help="JSON report file, or - for standard input")
    commands.add_parser("version", help="print the versions of the package, the core and Python")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if options.command == "version":
        return _version()
    if options.command == "show":
        return _show(options.report, options.all_frames)
    if options.as_module:
        return _run_module(options.script, options.arguments)
    return _run_file(options.script, options.arguments)


if __name__ == "__main__":
    sys.exit(main())
