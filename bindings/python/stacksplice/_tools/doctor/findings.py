"""doctor(): what is installed, what is missing, and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TextIO

from ... import _stacksplice
from ..._base import PACKAGE
from ..._base.output import write
from ..._base.plain import plain
from ..._hooks import lupa as hook


class Finding(NamedTuple):
    """One line of the answer, and what to do about it."""

    state: Literal["ok", "note", "unread", "missing"]
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        lines = f"{self.subject}: {self.text}".split("\n")
        if self.advice:
            lines.append(f"-> {self.advice}")
        return f"{self.state:9}" + f"\n{'':9}".join(lines) + "\n"


def _package() -> Iterator[Finding]:
    from ..._base.loading import loaded_core

    yield Finding("ok", "package", f"stacksplice {_stacksplice.__version__}, {PACKAGE}")
    core = loaded_core()
    where = f"{core[1]}, {core[0]}" if core else f"{_stacksplice.core_version()}, built into the program"
    yield Finding("ok", "core", f"{where}\n{_stacksplice._BUILD}")


def _python() -> Iterator[Finding]:
    name = f"CPython {sys.version.split()[0]}, {sys.executable or 'embedded'}"
    reason = _stacksplice.frames_unavailable()
    if reason is None:
        yield Finding("ok", "Python", f"{name}\nits frames can be read")
    else:
        advice = f"use a CPython from {_stacksplice._CPYTHONS}, or a newer stacksplice"
        yield Finding("missing", "Python", f"{name}\nits frames cannot be read: {reason}", advice)


def _lock() -> Iterator[Finding]:
    """Of a free-threaded build, which can run without its GIL."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return
    if sys._is_gil_enabled():  # type: ignore[attr-defined]  # new in 3.13
        text = "on, in a build that can do without: PYTHON_GIL, -X gil or an imported module asks for it"
        advice = "Python's warning names such a module (lupa's are some); PYTHON_GIL=0 keeps the GIL off"
        yield Finding("note", "GIL", text, advice)
    else:
        yield Finding("ok", "GIL", "off: stacksplice needs none")


def _before_code_without_data() -> str | None:
    """The binary in whose code this stack ends, or goes on by less, for want of unwind data."""
    before = None
    for frame in _stacksplice.capture():
        if frame.kind == "gap" and "no unwind data" in str(frame.reason):
            return before
        if frame.kind == "native":
            before = frame.module
    return None


def _native() -> Iterator[Finding]:
    # Not those of a stack: a short limit or a deep recursion can leave them all out.
    last = _before_code_without_data()
    if last is not None:
        text = f"they end in {last}, which has no unwind data"
        advice = "compile it with -funwind-tables and link it with -Wl,--eh-frame-hdr"
        yield Finding("note", "native frames", text, advice)
    elif _stacksplice.RtlCaptureStackBackTrace(0, 1)[0]:
        yield Finding("ok", "native frames", "they can be read")
    else:
        reasons = [str(frame.reason) for frame in _stacksplice.capture() if frame.kind == "gap"]
        advice = "native frames are read on x86-64 and 64-bit Arm with Linux"
        yield Finding("missing", "native frames", "; ".join(reasons) or "none were found", advice)
    lines = _stacksplice._lines_missing()
    if lines is None:
        text = "shown where the binary has debug information: compile with -g"
        yield Finding("ok", "lines of C code", text)
    else:
        advice = "to see them, install the package libdw1 (elfutils-libs)"
        if "Alpine" in lines:
            advice = "to see them: apk add elfutils"
        elif "without libdw" in lines:
            advice = "to see them, build the core with libdw: -DSTACKSPLICE_WITH_LIBDW=ON"
        yield Finding("note", "lines of C code", lines, advice)


def _names_in(folder: str) -> list[str]:
    """The files of FOLDER; none if it is in an archive."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def bindings() -> list[str]:
    """The versions of Lua for which this package brings a binding, and "LuaJIT"."""
    names = _names_in(PACKAGE)
    found = (re.fullmatch(r"libstacksplice-lua(?:(\d)(\d)|jit)\.so\.0", name) for name in names)
    return sorted(f"{match[1]}.{match[2]}" if match[1] else "LuaJIT" for match in found if match)


def _copies() -> list[Any]:
    try:
        from .lua_copies import copies_of_lua
    except ImportError:  # this Python has no ctypes
        return []
    return copies_of_lua()


def _lupa() -> tuple[str, list[str]] | None:
    """The version of lupa, and its modules: one for each version of Lua."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        spec = find_spec("lupa")
    except ValueError:  # something else has that name in sys.modules
        spec = None
    if spec is None:
        return None
    try:
        number = version("lupa")
    except PackageNotFoundError:
        number = "of unknown version"
    folders = spec.submodule_search_locations or []
    names = {name.partition(".")[0] for folder in folders for name in _names_in(folder)}
    return number, sorted(name for name in names if re.fullmatch(r"lua(jit)?\d+", name))


def _lupa_findings(versions: list[str]) -> Iterator[Finding]:
    lupa = _lupa()
    if lupa is None:
        yield Finding("note", "lupa", "is not installed", "if the program runs Lua by lupa: pip install lupa")
        return
    number, modules = lupa
    named = {name: "LuaJIT" if "jit" in name else ".".join(name.removeprefix("lua")) for name in modules}
    read = [name for name in modules if named[name] in versions]
    unread = [name for name in modules if name not in read]
    text = f"{number}; Lua frames are read in {', '.join(read) or 'none of its modules'}"
    yield Finding("ok", "lupa", text)
    if read and unread:
        text = f"Lua frames are not read in {', '.join(unread)}: a gap says so"
        yield Finding("unread", "lupa", text, "install a newer stacksplice")


def _runtime_findings() -> Iterator[Finding]:
    """Those of lupa in this process."""
    runtimes = hook._runtimes()
    attached = sum(_stacksplice._lupa_attached(id(runtime)) for runtime in runtimes)
    if attached < len(runtimes):
        text = f"{attached} of {len(runtimes)} are attached"
        advice = "stacksplice.attach(runtime) attaches one, or says why it cannot"
        if not hook.is_begun:
            advice = "stacksplice.install() attaches them"
        unread = [f"\nstacksplice does not read {each}" for each in hook.unread.values()]
        yield Finding("unread", "lupa's runtimes", "".join([text, *unread]), advice)
    elif runtimes:
        yield Finding("ok", "lupa's runtimes", f"{attached} of {attached} are attached")


def lua_findings() -> Iterator[Finding]:
    """What is known of Lua, and what is missing of it."""
    versions = bindings()
    if versions:
        yield Finding("ok", "Lua binding", f"for Lua {', '.join(versions)}")
    else:
        advice = "install a package of stacksplice that has it; hosts link their own (stacksplice::lua)"
        yield Finding("missing" if _lupa() else "note", "Lua binding", "this package has none", advice)
    yield from _lupa_findings(versions)
    yield from _runtime_findings()
    for copy in _copies():
        text = f"{copy.version}, {copy.file}"
        if copy.unread is None:
            yield Finding("ok", "Lua in this process", f"{text}\nits frames can be read")
        else:
            advice = "with lupa call stacksplice.install(); else run require 'stacksplice' in that Lua"
            yield Finding("unread", "Lua in this process", f"{text}\n{copy.unread}", advice)


def _hooks() -> Iterator[Finding]:
    from ..._hooks import at_raise
    from ..._hooks.interpreter import Hook

    if isinstance(sys.excepthook, Hook) and sys.excepthook.place.active:
        yield Finding("ok", "install()", "uncaught exceptions are shown with the frames of all languages")
    else:
        advice = "call stacksplice.install(), or start the program by: stacksplice run PROGRAM"
        yield Finding("note", "install()", "was not called in this process", advice)
    if sys.version_info < (3, 12):
        text = "CPython 3.12 and newer can capture the stack at each raise; this one cannot"
        advice = "nothing, unless reports lack callers that a newer Python would show"
        yield Finding("note", "capture at raise", text, advice)
    elif at_raise._tool is not None:
        yield Finding("ok", "capture at raise", "is on")
    else:
        advice = "nothing: after install() it begins by itself when an extension module may call Python back"
        yield Finding("note", "capture at raise", "is off", advice)


def _examine() -> tuple[list[Finding], int]:
    findings = [*_package(), *_python(), *_lock(), *_native(), *lua_findings(), *_hooks()]
    return findings, sum(finding.state == "missing" for finding in findings)


def _text(findings: list[Finding], missing: int) -> str:
    end = "nothing is missing\n"
    if missing:
        end = f"{missing} missing: see above\n"
    elif any(finding.state == "unread" for finding in findings):
        end = "nothing is missing but the frames that are not read: see above\n"
    return plain("".join([*map(str, findings), "\n", end]), "\n")


def command(options: argparse.Namespace) -> int:
    """Write what doctor() says; the exit status."""
    findings, missing = _examine()
    document = {"missing": missing, "findings": [finding._asdict() for finding in findings]}
    write(json.dumps(document, indent=2) + "\n" if options.json else _text(findings, missing))
    return 1 if missing else 0


def doctor(file: TextIO | None = None) -> bool:
    """Say what is installed, what is missing, and what to do about each missing thing.

    Writes plain text to file (sys.stdout when None).  Returns whether nothing is missing; what is
    only a note, such as hooks that are not set, is not missing.
    """
    findings, missing = _examine()
    stream = sys.stdout if file is None else file
    if stream is not None:
        stream.write(_text(findings, missing))
    return not missing
