"""Fills the templates: one file without anything beside it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib import resources
from itertools import chain
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..._base.redaction import PATH, text_of
from ..._errors.info import FILE_SCHEMA, ErrorInfo, name_of
from ..._stacksplice import core_version
from .folding import Shown
from .threads import Thread, frames_of, groups_of
from .values import Look, error_of, language_class, language_name

# What would turn the direction of a text, or is not seen: docs/reference/reports.md has the list.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible(value: Any) -> Any:
    """VALUE as a page may show it.  Jinja2 gives every value here before it escapes it for HTML."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _HIDDEN.sub(_escape, value)
    return value


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _file(name: str) -> Markup:
    """A file of ours, which is no text of an error."""
    return Markup((resources.files(__package__) / "templates" / name).read_text(encoding="utf-8").strip())


def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("stacksplice", "_tools/html/templates"),
        autoescape=True,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    style, script = _file("style.css"), _file("page.js")
    environment.globals.update(
        style=style, script=script, style_hash=Markup(_hash(style)), script_hash=Markup(_hash(script))
    )
    environment.filters.update(language_name=language_name, language_class=language_class)
    return environment


_ENVIRONMENT = _make_environment()


def render(template: str, **values: Any) -> str:
    """The page that TEMPLATE, which extends base.html.j2, makes of VALUES."""
    return _ENVIRONMENT.get_template(template).render(**values)


def modules_of(frames: Iterable[Shown]) -> list[tuple[tuple[str, str], int]]:
    """The binaries of FRAMES with their build-ids, and how many frames of each."""
    return sorted(Counter((frame.module, frame.build_id) for frame in frames if frame.module).items())


class Report(SimpleNamespace):
    """A report of the page: what its file says of it, its error, when and where that was, the text of all,
    and of a crash what is beside the error."""


def _facts_of(data: dict[str, Any], header: dict[str, Any]) -> list[tuple[str, str]]:
    """When and where the error DATA happened, as far as it or the HEADER of its file says."""
    versions = " ".join(str(header.get(name) or "") for name in ("platform", "platform_release", "arch"))
    process = " ".join(f"{name} {value}" for name, value in (data.get("process") or {}).items())
    facts = {
        "Time": header.get("time") or "",
        "Command": header.get("command") or "",
        "Process": f"{header['process']}, {header.get('pid')}" if header.get("process") else process,
        "Host": header.get("host") or "",
        "Folder": header.get("cwd") or "",
        "Versions": ", ".join(filter(None, (header.get("versions"), versions.strip()))),
    }
    if "core_version" in header:
        facts["Versions"] = f"stacksplice {header['core_version']}, {facts['Versions']}"
    return [(name, str(value)) for name, value in facts.items() if value]


def _verb_of(header: dict[str, Any]) -> str:
    if "signal" in header:
        return "crashed"
    return {"deadline": "was late", "report_on_signal": "got the signal"}.get(
        str(header.get("event")), "raised"
    )


def shown_report(
    data: dict[str, Any], look: Look, heading: str = "", here: dict[str, Any] | None = None
) -> Report:
    """The report DATA, an error or the file of a process that failed, which has been checked to be one.

    HERE is what is known of a process that lives, in the form of such a file's header.
    """
    file, header = data, here or {}
    text = ErrorInfo._from_json_values(data).format(newest_last=look.newest_last, all_frames=look.all_frames)
    if data.get("schema") == FILE_SCHEMA:
        data, header = file["error"], file["header"]
    error = error_of(data, look, _verb_of(header))
    current = error_of(file["current_error"], look) if file.get("current_error") else None
    named = []
    for thread in file.get("threads") or ():
        named.append(Thread(f"Thread {thread['thread_id']} ({name_of(thread)})", thread["stack"]))
    threads = groups_of(named, look)
    frames = chain(error.all_frames(), current.all_frames() if current else (), frames_of(threads))
    return Report(
        heading=heading,
        error=error,
        facts=_facts_of(data, header),
        text=text,
        modules=modules_of(frames),
        current_error=current,
        threads=threads,
        threads_left_out=file.get("threads_left_out"),
    )


def page_of(reports: list[Report], look: Look) -> str:
    """One page of REPORTS."""
    title = reports[0].error.headline if len(reports) == 1 else f"{len(reports)} errors"
    return render("report.html.j2", title=title, reports=reports, look=look)


def cell_of(page: str) -> str:
    """PAGE in a frame of its own, for a notebook: neither's style or script reaches the other."""
    return render("cell.html.j2", page=page)


def _here() -> dict[str, Any]:
    """What this process is, in the form of a header."""
    machine = os.uname()
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "command": text_of(shlex.join(sys.orig_argv)),
        "cwd": text_of(os.path.abspath("."), PATH),
        "versions": f"Python {sys.version.split()[0]}",
        "core_version": core_version(),
        "platform": machine.sysname,
        "platform_release": machine.release,
        "arch": machine.machine,
    }


def html_of(data: dict[str, Any], look: Look, is_live: bool) -> str:
    """The page of one report, of an error of this process if it is live."""
    return page_of([shown_report(data, look, here=_here() if is_live else None)], look)
