"""What reports leave out: settings, and texts of Python without their secrets."""

from __future__ import annotations

from .. import _stacksplice

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from collections.abc import Callable, Iterable
    from typing import Any

# stacksplice/redact.h
MESSAGE, SOURCE, PATH, LOCAL = 1, 2, 3, 4
_NAMED, _TOKENS, _URLS, _EMAILS = 1, 2, 4, 8
_DEPTH = 80  # of nested values, enough for 32 groups in one another; deeper ones are replaced
# The members of reports and of Sentry's frames that are not messages.
_KINDS = {"source": SOURCE, "context_line": SOURCE, "pre_context": SOURCE, "post_context": SOURCE}
_KINDS.update(dict.fromkeys(("file", "filename", "abs_path", "module", "package", "path"), PATH))
# The members that programs compare: they hold no secret, and must stay if a hook fails.
_IDENTIFIERS = frozenset(
    "schema hresult symbol language reference fingerprint loose_fingerprint kind trust build_id relation "
    "transformed_above address platform level event_id debug_id code_id instruction_addr "
    "instruction_addr_adjustment image_addr symbol_addr".split()
)
_LOCALS = ("locals", "vars")


def redaction(
    on: bool = True,
    *,
    emails: bool = False,
    names: Iterable[str] = (),
    hook: Callable[[str, str], str] | None = None,
) -> None:
    """Choose what reports of this process leave out, in all languages and formats.

    Without a call, or with redaction(): passwords, tokens, keys and the like by the names before them and
    by their form, and credentials in URLs.  Each is replaced by a word such as "[redacted: password]".
    Errors keep their texts in the process, in str(exc) as in the fields of ErrorInfo.

    on: False turns these rules off; emails: addresses, too; names: further names of secrets, such as
    "pin", which also means user_pin; hook: called with each text after the rules and its kind ("message",
    "source", "path" or "local"), returns the text to show.  If the hook raises, returns no str, or cannot
    be called because another interpreter or none runs in that thread, "[redacted: hook failed]" is shown.
    Reports of a process that fails fast call no hook.

    Each call replaces what the last one set, also from other languages.  Raises ValueError for a name that
    is not of ASCII letters and digits, '_' and '-'.
    """
    if hook is not None and not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")
    if isinstance(names, str):
        raise TypeError("names must be several names, not a str")
    rules = (_NAMED | _TOKENS | _URLS if on else 0) | (_EMAILS if emails else 0)
    _stacksplice._set_redaction(rules, tuple(names), hook)


def text_of(text: str, kind: int = MESSAGE) -> str:
    """TEXT as reports show it."""
    return _stacksplice._redact(text, kind)


def local_of(name: str, value: str) -> str:
    """What reports show of the local variable NAME, whose text is VALUE."""
    marker = _stacksplice._redact_name(name)
    if marker is not None and not value.startswith("[redacted: "):
        return f"[redacted: {marker}]"
    return text_of(value, LOCAL)


def clean(value: Any, name: object = None, depth: int = 0, keep: frozenset[str] = frozenset()) -> Any:
    """Plain values as reports show them; NAME is their member's.  Others stay, and texts of members KEEP."""
    if isinstance(value, str):
        if name in keep:
            return value
        marker = _stacksplice._redact_name(name) if isinstance(name, str) and value else None
        if marker is not None and not value.startswith("[redacted"):
            return f"[redacted: {marker}]"
        return text_of(value, _KINDS.get(str(name), MESSAGE))
    if depth == _DEPTH:
        return "[redacted: too deep]"
    if isinstance(value, dict):
        if name in _LOCALS:
            keep = frozenset()  # its members are variables, whatever their names
            if all([isinstance(inner, str) for inner in value.values()]):
                return {key: local_of(key, inner) for key, inner in value.items()}
        return {key: clean(inner, key, depth + 1, keep) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(inner, name, depth + 1, keep) for inner in value]
    return value


def clean_report(data: Any) -> Any:
    """DATA, of a report or of a Sentry event, as reports show it."""
    return clean(data, keep=_IDENTIFIERS)


def has_secret(file: str, name: str, source: str) -> bool:
    """Whether reports show something else in place of a frame's texts."""
    return text_of(file, PATH) != file or text_of(name) != name or text_of(source, SOURCE) != source


def _clean_frame(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """FRAME, or one without marks if something was removed from it."""
    lines = getattr(frame, "shown_lines", None)
    source = "".join(lines) if lines is not None else frame.line or ""
    shown = text_of(source, SOURCE)
    file, name = text_of(frame.filename, PATH), text_of(frame.name)
    if shown is source and file is frame.filename and name is frame.name:
        return frame
    import traceback  # which whoever has such a frame has loaded

    first = (shown if shown is not source else frame.line or "").strip().split("\n")[0]
    cleaned = traceback.FrameSummary(file, frame.lineno, name, lookup_line=False, line=first)
    cleaned.locals = frame.locals  # which have no secrets
    return cleaned


def _all_shown(shown: traceback.TracebackException) -> list[traceback.TracebackException]:
    found = [shown]
    for one in found:  # which grows during the loop
        inner = [one.__cause__, one.__context__, *(one.exceptions or ())]
        found += [behind for behind in inner if behind is not None]
    return found


def _clean_one(one: traceback.TracebackException) -> None:
    told: Any = one
    for name, kind in (("_str", MESSAGE), ("msg", MESSAGE), ("text", SOURCE), ("filename", PATH)):
        text = getattr(told, name, None)
        if isinstance(text, str):
            setattr(told, name, text_of(text, kind))
    notes = one.__notes__
    if isinstance(notes, (list, tuple)):
        one.__notes__ = [text_of(note) if isinstance(note, str) else note for note in notes]
    elif isinstance(notes, str):
        told.__notes__ = text_of(notes)


def clean_traceback(shown: traceback.TracebackException) -> None:
    """Take the secrets from all that SHOWN prints."""
    for one in _all_shown(shown):
        _clean_one(one)
        for number, frame in enumerate(one.stack or ()):
            if not hasattr(frame, "text") or hasattr(frame, "shown_lines"):  # not the core's lines
                one.stack[number] = _clean_frame(frame)
