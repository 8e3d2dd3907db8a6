"""Stacks of other processes: what the program stacksplice-inspect reads, with symbols, as text or JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess

from ... import _stacksplice
from ..._base import PACKAGE
from ..._base.hints import Any, Callable
from ..._base.output import fail, write
from ..._base.plain import plain
from ..._base.redaction import clean_report
from ..._errors.remote import stacks_in
from ..symbols.symbolizer import Symbolizer
from .errors import errors_of, text_of_error, write_messages
from .files import Files, files_of, written_at
from .tasks import tasks_of
from .text import facts, headed_threads, is_c_library, lines_of, mark_start_up, title

_PROGRAM = os.path.join(PACKAGE, "stacksplice-inspect")


class Refused(Exception):
    """It cannot be inspected; str() is the reason with the next step, in one line."""


def inspect(*arguments: str) -> dict[str, Any]:
    """What stacksplice-inspect says."""
    try:
        done = subprocess.run([_PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError:
        raise Refused(
            "this build has no stacksplice-inspect: it is for Linux on x86-64 and 64-bit Arm"
        ) from None
    except OSError as exc:
        raise Refused(f"cannot run {_PROGRAM}: {exc.strerror}") from None
    if done.returncode == -signal.SIGINT:  # a terminal sends Ctrl-C to both
        raise KeyboardInterrupt
    if done.returncode < 0:
        raise Refused(f"stacksplice-inspect was ended by signal {-done.returncode}: please report this")
    if done.returncode:
        raise Refused(done.stderr.decode(errors="replace").strip())
    document: dict[str, Any] = json.loads(done.stdout)
    for thread in document["threads"]:
        for frame in thread["stack"]:
            if "locals" in frame:
                frame["locals"] = dict(sorted(frame["locals"].items(), key=_place_of_variable))
    write_messages(document)
    return document


def _place_of_variable(variable: tuple[str, str]) -> tuple[bool, str]:
    """By name; the last says what is left out."""
    return variable[0] == "...", variable[0]


_DELETED = " (deleted)"  # the end of the kernel's name of a file that is no longer there


def deleted_files(process: int) -> dict[str, str]:
    """The files that a running PROCESS has mapped and that were replaced or deleted, as we can open them."""
    found: dict[str, str] = {}
    try:
        program = os.readlink(f"/proc/{process}/exe")  # which its user may open, others take all rights
        with open(f"/proc/{process}/maps", errors="surrogateescape") as maps:
            for line in maps:
                place, _, _, _, _, *path = line.rstrip("\n").split(None, 5)
                if path and path[0].endswith(_DELETED):
                    start, end = (int(address, 16) for address in place.split("-"))
                    place = "exe" if path[0] == program else f"map_files/{start:x}-{end:x}"
                    found.setdefault(path[0], f"/proc/{process}/{place}")
    except OSError:  # it has ended
        pass
    return found


def _mark_inside(stack: list[dict[str, Any]], function: str | None) -> None:
    """Mark the frames without a name that are glue whatever their name is, or, if FUNCTION is None, for
    want of one."""
    for frame in stack:
        if "module" in frame and "function" not in frame:
            if _stacksplice._is_glue(os.fsencode(frame["module"]), function):
                frame["glue"] = True


def _add_symbols(document: dict[str, Any], symbolizer: Symbolizer, all_frames: bool) -> None:
    """Give the native frames of DOCUMENT functions, files and lines; those that are hidden need none unless
    ALL_FRAMES."""
    missing = _stacksplice._lines_missing()
    if missing:
        document["notes"].append(f"cannot look up symbols: {missing}")
        return
    for owner in stacks_in(document):
        if not all_frames:
            _mark_inside(owner["stack"][1:], "?")  # the innermost one is shown where a process crashed
        owner["stack"] = symbolizer.stack(owner["stack"])
        _mark_inside(owner["stack"], None)
        mark_start_up(owner["stack"])


def add_sources(document: dict[str, Any], files: Files) -> None:
    """Give the script frames of DOCUMENT their lines of source."""
    for owner in stacks_in(document):
        for frame in owner["stack"]:
            files.add_source(frame)


def _line_of(frame: dict[str, Any]) -> str:
    return _stacksplice._format_frame(json.dumps(frame))


def _folds_of(stack: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return _stacksplice._folds_of(json.dumps(stack))


def _is_idle(stack: list[dict[str, Any]]) -> bool:
    """Whether it is that of a thread of an executor, which waits for work."""
    innermost = next((frame for frame in stack if frame["kind"] == "script"), {})
    file, function = str(innermost.get("file")), innermost.get("function")
    return function == "_worker" and file.endswith("concurrent/futures/thread.py")


def text_of(document: dict[str, Any], all_frames: bool) -> str:
    """DOCUMENT for people: the newest frame of each thread is the last, as in tracebacks."""
    parts = [f"{title(document['process'])}\n"]
    parts += [f"{fact}\n" for fact in facts(document["process"])]
    parts += [f"note: {plain(note)}\n" for note in document["notes"]]
    for name, thread in headed_threads(document):
        parts.append(f"\nthread {name}\n")
        if not all_frames and _is_idle(thread["stack"]):
            parts.append("    [idle: waits for work of its pool]\n")
            thread = {**thread, "exceptions": ()}  # it handles that its queue was empty
        else:
            parts += lines_of(thread["stack"], all_frames, _line_of, _folds_of)
        parts += [text_of_error(*told, all_frames) for told in errors_of(thread)]
    for name, stack in tasks_of(document):
        parts += [f"\n{name}\n", *lines_of(stack, all_frames, _line_of, _folds_of)]
    if "failed" in document:
        ended = "The process ended itself because of this error"
        parts.append(text_of_error(ended, document["failed"], all_frames))
    return "".join(parts)


def _wanted(options: argparse.Namespace) -> list[str]:
    return ["--tasks", "--locals"] if options.locals else ["--tasks"]


def _all(options: argparse.Namespace) -> bool:
    return options.all_frames or options.json or options.html is not None


def _write(document: dict[str, Any], options: argparse.Namespace) -> int:
    document = clean_report(document)
    if options.html is not None:
        from ..html.command import write_process

        return write_process(document, title(document["process"]), options.all_frames, options.html)
    write(json.dumps(document) + "\n" if options.json else text_of(document, options.all_frames))
    return 0


def _add_files(
    document: dict[str, Any],
    files: Files,
    folders: list[str],
    others: dict[str, str],
    sources: bool,
    all_frames: bool,
    symbol_alone: Callable[[str], bool] = lambda module: False,
) -> None:
    """Add to DOCUMENT what is in FILES, and its symbols; OTHERS has the names by which we can open some.

    Of the binaries for which SYMBOL_ALONE is true, no lines.
    """

    def here(module: str) -> str:
        return others.get(module) or files.path(module) or files.path(module.removesuffix(_DELETED))

    files.belong_to(document["process"].pop("user", None))
    _add_symbols(document, Symbolizer(folders, here, all_frames, symbol_alone), all_frames)
    if sources:
        add_sources(document, files)
    if files.refused:
        document["notes"].append(
            f"not read, because the process may not: {', '.join(sorted({*files.refused}))}"
        )
    for why, names in files.unread.items():
        document["notes"].append(f"not read, because {why}: {', '.join(sorted({*names}))}")


def add_files_of_process(
    document: dict[str, Any], files: Files, process: int, sources: bool, all_frames: bool
) -> None:
    """The same for a running PROCESS.

    Unless ALL_FRAMES, frames of the C library have no lines: whoever waits is in it, its lines tell a user
    nothing, and its debug information, which distributions compress, would be unpacked whole for them.
    """

    def symbol_alone(module: str) -> bool:
        return not all_frames and is_c_library(module)

    _add_files(document, files, [], deleted_files(process), sources, all_frames, symbol_alone)


def _dump(process: int, options: argparse.Namespace) -> int:
    with files_of(process) as files:
        try:
            document = inspect("--pid", str(process), *_wanted(options))
        except Refused as exc:
            return fail(str(exc))
        add_files_of_process(document, files, process, not options.no_source, _all(options))
    return _write(document, options)


def dump(options: argparse.Namespace) -> int:
    """Write the stacks of processes, or what one does over some seconds."""
    if options.repeat and not options.processes and options.repeat.is_integer():  # --repeat PID
        options.processes, options.repeat = [int(options.repeat)], float("inf")
    if not options.processes:
        return fail("no process was named: stacksplice dump PID")
    if len(options.processes) > 1 and (options.repeat or options.html is not None):
        return fail("--repeat and --html show one process: name one PID")
    if options.repeat and options.locals:
        return fail("--repeat has no local variables: leave out --repeat or --locals")
    if not options.repeat and (options.format or options.output):
        return fail("--format and --output are for --repeat")
    if options.repeat:
        from .sampling import record

        return record(options)
    status = 0
    for number, process in enumerate(options.processes):
        if number and not options.json:
            write("\n")
        status = max(status, _dump(process, options))
    return status


def core(options: argparse.Namespace) -> int:
    """Write the stacks in a core file."""
    arguments = ["--core", options.core]
    for name in ("exe", "root"):
        path = getattr(options, name)
        if path:
            if not os.path.exists(path):
                return fail(f"--{name}: {path} does not exist")
            setattr(options, name, os.path.abspath(path))
            arguments += [f"--{name}", os.path.abspath(path)]
    try:
        document = inspect(*arguments, *_wanted(options))
    except Refused as exc:
        return fail(str(exc))
    folders = [*options.symbols, *([f"{options.root}/usr/lib/debug"] if options.root else [])]
    others = {document["process"].get("executable", ""): options.exe} if options.exe else {}
    with Files(written_at(options.core), options.root or "") as files:
        _add_files(document, files, folders, others, not options.no_source, _all(options))
    return _write(document, options)
