"""python -m stacksplice run script.py [arguments]  |  show report.json"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import types
from collections.abc import Iterator, Sequence

from . import __version__
from ._errors import ErrorInfo
from ._hooks import install
from ._report import format_saved


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
        # Without this frame, which is none of the script's.
        traceback = exc.__traceback__.tb_next if exc.__traceback__ else None
        sys.excepthook(type(exc), exc.with_traceback(traceback), traceback)
        return 130 if isinstance(exc, KeyboardInterrupt) else 1
    return 0


def _run_module(name: str, arguments: Sequence[str]) -> int:
    import runpy

    sys.argv[:] = [name, *arguments]
    sys.path[0:1] = [os.getcwd()]
    install()
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _reports(text: str) -> Iterator[ErrorInfo]:
    """One report, a list of them, or one on each line; each may stand under "error" in an object."""
    try:
        data = json.loads(text)
    except ValueError:
        data = [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(data, dict) and isinstance(data.get("errors"), list):
        data = data["errors"]
    if data == []:
        raise ValueError("it is empty")
    for item in data if isinstance(data, list) else [data]:
        inner = item.get("error") if isinstance(item, dict) else None
        yield ErrorInfo.from_dict(inner if isinstance(inner, dict) else item)


def _show(path: str) -> int:
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        reports = list(_reports(text))
    except OSError as exc:
        return _fail(f"cannot read {path}: {exc.strerror}")
    except ValueError as exc:
        return _fail(f"{path} holds no report: {exc}")
    print("\n".join(format_saved(report) for report in reports), end="")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m stacksplice", description=__doc__)
    parser.add_argument("--version", action="version", version=f"stacksplice {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script with install()")
    run.add_argument("-m", dest="as_module", action="store_true", help="run a module by its name")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    show = commands.add_parser("show", help="print a saved JSON report")
    show.add_argument("report", help="its file, or - for standard input")
    options = parser.parse_args(arguments)
    if options.command == "show":
        return _show(options.report)
    if options.as_module:
        return _run_module(options.script, options.arguments)
    return _run_file(options.script, options.arguments)


if __name__ == "__main__":
    sys.exit(main())
