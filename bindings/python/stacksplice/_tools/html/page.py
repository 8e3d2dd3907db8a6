"""Fills the templates: one file without anything beside it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..._errors.crash import Crash, crash_of
from ..._errors.info import FILE_SCHEMA
from .threads import Group, Thread, frames_of, groups_of
from .values import Error, Look, Shown, error_of, language_class, language_name

# What would turn the direction of a text, or is not seen: docs/reports.md has the list.
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


@dataclass
class Module:
    """A binary that is in a stack, and how many frames of it."""

    path: str
    build_id: str
    frames: int = 0


def modules_of(frames: Iterable[Shown]) -> list[Module]:
    """The binaries of FRAMES."""
    found: dict[tuple[str, str], Module] = {}
    for frame in frames:
        if frame.module:
            key = frame.module, frame.build_id
            found.setdefault(key, Module(*key)).frames += 1
    return sorted(found.values(), key=lambda module: module.path)


@dataclass
class Report:
    """A report of the page: what its file says of it, its error, where it came from, and of a crash what is
    beside the error."""

    heading: str
    error: Error
    modules: list[Module]
    process: str
    remote: Error | None
    current_error: Error | None
    threads: list[Group]
    threads_left_out: int


def _process(data: dict[str, Any]) -> str:
    process = data.get("process")
    if not isinstance(process, dict):
        return ""
    return ", ".join(f"{name} {value}" for name, value in process.items())


def _groups_of(crash: Crash, look: Look) -> list[Group]:
    threads = [thread.to_dict() for thread in crash.threads]
    return groups_of(
        [Thread(f"{each['thread_id']} ({each['message']})", each["stack"]) for each in threads], look
    )


def shown_report(data: dict[str, Any], look: Look, heading: str = "") -> Report:
    """The report DATA, an error or the file of a process that failed, which has been checked to be one."""
    crash = crash_of(data)
    if data.get("schema") == FILE_SCHEMA:
        data = data["error"]
    error = error_of(data, look)
    remote = data.get("remote")
    saved = crash.current_error if crash else None
    current = error_of(saved.to_dict(), look) if saved else None
    threads = _groups_of(crash, look) if crash else []
    frames = chain(error.all_frames(), current.all_frames() if current else (), frames_of(threads))
    return Report(
        heading=heading,
        error=error,
        modules=modules_of(frames),
        process=_process(data),
        remote=error_of(remote, look) if remote else None,
        current_error=current,
        threads=threads,
        threads_left_out=crash.threads_left_out if crash else 0,
    )


def page_of(reports: list[Report], look: Look) -> str:
    """One page of REPORTS."""
    title = reports[0].error.headline if len(reports) == 1 else f"{len(reports)} errors"
    return render("report.html.j2", title=title, reports=reports, look=look)


def cell_of(page: str) -> str:
    """PAGE in a frame of its own, for a notebook: neither's style or script reaches the other."""
    return render("cell.html.j2", page=page)


def html_of(data: dict[str, Any], look: Look) -> str:
    """The page of one report."""
    return page_of([shown_report(data, look)], look)
