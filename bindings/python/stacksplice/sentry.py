"""For Sentry's SDK: errors that crossed a border arrive with the frames of all languages.

    sentry_sdk.init(dsn, integrations=[stacksplice.sentry.StackspliceIntegration()])

``import stacksplice.sentry`` needs ``sentry_sdk``; ``import stacksplice`` does not.  Errors that crossed
no border are sent as the SDK describes them.  Saved reports are events, too:

    sentry_sdk.capture_event(stacksplice.sentry.event(stacksplice.ErrorInfo.from_json(line)))
"""

from __future__ import annotations

import json
from typing import Any

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.scope import add_global_event_processor

from . import _stacksplice
from ._base.redaction import clean_report, text_of
from ._errors.info import ErrorInfo

__all__ = ["StackspliceIntegration", "event"]

_FORMAT = 4  # STACKSPLICE_FORMAT_SENTRY
_OF_THE_SDK = ("type", "module", "value")  # its names for them are those of the project's other events


class StackspliceIntegration(Integration):
    """Pass one to ``sentry_sdk.init(integrations=[...])``."""

    identifier = "stacksplice"

    @staticmethod
    def setup_once() -> None:
        """What the SDK calls when the first client has the integration."""
        add_global_event_processor(_processed)


def _processed(event: Any, hint: Any) -> Any:
    client = sentry_sdk.get_client()
    exc = (hint.get("exc_info") or (None, None))[1]
    if exc is not None and client.get_integration(StackspliceIntegration) is not None:
        if "values" in (event.get("exception") or {}):
            _complete(event, exc, bool(client.options.get("include_source_context", True)))
    return event


def event(info: ErrorInfo) -> dict[str, Any]:
    """The event for Sentry of INFO, alive or read back from a saved report.

    It has what C programs get: a program adds what Sentry should know besides, such as "release" or the
    time at which a saved error occurred, and sends it with ``sentry_sdk.capture_event``.
    """
    if info._handle is not None and not info._handle.came:
        text = info._handle.format(_FORMAT, 0, False, False)  # in brief: "in_app" tells the rest
    else:
        text = _stacksplice._format_document_for_sentry(json.dumps(info.to_dict()))
    told: dict[str, Any] = json.loads(text)
    return told


def _add_images(told: dict[str, Any], more: dict[str, Any]) -> None:
    images = told.setdefault("debug_meta", {}).setdefault("images", [])
    images += [image for image in more["debug_meta"]["images"] if image not in images]


def _count_python(value: dict[str, Any]) -> int:
    return sum(str(frame.get("filename")).endswith(".py") for frame in _frames_of(value))


def _frames_of(value: dict[str, Any]) -> list[dict[str, Any]]:
    stack = value.get("stacktrace")
    return list(stack.get("frames") or ()) if isinstance(stack, dict) else []


def _complete(told: dict[str, Any], exc: BaseException, with_source: bool) -> None:
    """Give TOLD, an event of the SDK for EXC, our stacks."""
    info = _stacksplice.error_info(exc)
    if info is None:
        return
    ours, unused = event(info), told["exception"]["values"][::-1]  # the error itself first
    values = []
    for value in reversed(ours["exception"]["values"]):
        values.append(_joined(value, _pop_same(unused, value) or {}, with_source))
    told["exception"]["values"] = values[::-1]
    told.setdefault("fingerprint", ours["fingerprint"])
    _add_images(told, ours)


def _joined(ours: dict[str, Any], theirs: dict[str, Any], with_source: bool) -> dict[str, Any]:
    """OURS with what the SDK knows of it besides, THEIRS."""
    _complete_frames(ours, _frames_of(theirs), with_source)
    if _count_python(theirs) > _count_python(ours):
        ours.pop("stacktrace", None)  # the stack was cut
    # How the error was caught, "handled" and "type", is what the SDK knows of the error itself.
    mechanism = theirs.get("mechanism") or {}
    kept = {name: mechanism[name] for name in ("type", "handled", "meta") if name in mechanism}
    value = {**theirs, **ours, **{name: theirs[name] for name in _OF_THE_SDK if name in theirs}}
    value["mechanism"] = {**ours["mechanism"], **kept}
    value.update(clean_report(value))  # the SDK read the exception itself
    return value


def _pop_same(unused: list[dict[str, Any]], ours: dict[str, Any]) -> dict[str, Any] | None:
    """The SDK's value for the same exception: of that type, with that text before its notes."""
    for number, value in enumerate(unused):
        module, name = value.get("module"), value.get("type")
        names = (name, f"{module}.{name}") if module in (None, "__main__") else (f"{module}.{name}",)
        if ours.get("type") in names and text_of(str(value.get("value"))).startswith(ours["value"]):
            return unused.pop(number)
    return None


def _complete_frames(ours: dict[str, Any], theirs: list[dict[str, Any]], with_source: bool) -> None:
    """Give our frames what the SDK's have besides, such as local variables."""
    for frame in _frames_of(ours):
        if not with_source:
            frame.pop("context_line", None)
        if frame["platform"] != "python":
            continue
        if frame["in_app"]:
            del frame["in_app"]  # the SDK decides, as its options say
        place = frame.get("abs_path") or frame.get("filename"), frame.get("lineno")
        for number, known in enumerate(theirs):
            if (known.get("abs_path"), known.get("lineno")) == place:
                frame.update({name: known[name] for name in known if name != "function"})
                del theirs[number]
                break
