"""Reports at the limits of what there is: deep, grouped, in a circle, without text, with hostile text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from golden_steady import INSTEAD, NATIVE, with_address

Report = dict[str, Any]


def script(language: str, function: str, line: int, source: str | None = None, **more: Any) -> Report:
    file = f"/srv/shop/{function}.{'py' if language == 'python' else 'lua'}"
    frame = {"kind": "script", "trust": "exact", "language": language, "function": function}
    frame |= {"file": file, "line": line, **more}
    if source is not None:
        frame |= {"source": source, "source_column": 5}
    return with_address(frame)


def gap(reason: str, language: str = "native", **more: Any) -> Report:
    frame = {"kind": "gap", "trust": "exact", "language": language, "reason": reason}
    return with_address({**frame, **more})


RATE = script("python", "rate", 11, "return RATES[currency]", column=12, end_line=11, end_column=27)
PRICE = script("lua", "price", 7, "local total = convert(amount, currency)")
MAIN = script("python", "<module>", 22)
STACK = [RATE, NATIVE, PRICE, NATIVE, MAIN]


def report(message: str, stack: list[Report] = STACK, **more: Any) -> Report:
    """An error with that MESSAGE as the inside of a report has it; MORE replaces members."""
    return {
        "hresult": "0x80070057",
        "hresult_signed": -2147024809,
        "symbol": "E_INVALIDARG",
        "description": "The parameter is incorrect.",
        "message": message,
        "type": "ValueError",
        "language": "python",
        "notes": [],
        **{name: INSTEAD[name] for name in ("thread_id", "reference", "fingerprint", "loose_fingerprint")},
        "stack": stack,
        "frames_left_out": 0,
        "propagation": [],
        "exceptions": None,
        "exceptions_left_out": 0,
        "transformed": [],
        "transformed_left_out": 0,
        "transformed_above": None,
        **more,
    }


def behind(relation: str, message: str, **more: Any) -> Report:
    """One of the errors that a report was made from."""
    inner = report(message, **more)
    rest = {name: value for name, value in inner.items() if not name.startswith("transformed")}
    return {"relation": relation, **rest}


def received(language: str, *stack: Report) -> Report:
    thread = INSTEAD["thread_id"]
    return {"language": language, "thread_id": thread, "stack": list(stack), "frames_left_out": 0}


def numbered(number: int) -> dict[str, str]:
    """Members by which one error of a report is told from the others."""
    return {"reference": f"0000000000000000-{number:016x}"}


def deep() -> Report:
    calls = [script("lua", "walk", 5, "return walk(node.left) + 1")] * 5
    cut = gap("488 frames omitted here: stack longer than the limit")
    stack = [RATE, NATIVE, *calls, cut, *calls, NATIVE, MAIN]
    return report("too deep", stack, type="RecursionError", frames_left_out=488)


def nested(levels: int) -> Report:
    """Groups in groups."""
    members = [nested(levels - 1)] if levels else []
    return report(f"level {levels}", [], type="ExceptionGroup", exceptions=members, **numbered(levels))


def group() -> Report:
    cause = behind("cause", "no file", stack=[RATE], type="FileNotFoundError", **numbered(5))
    first = report("bad amount", [PRICE], notes=["order A-1"], transformed=[cause], **numbered(2))
    second = report("'EUR'", [], type="KeyError", **numbered(3))
    inner = report("a rate", [], type="ExceptionGroup", exceptions=[second], **numbered(6))
    third = report("the tax", [PRICE], type="ExceptionGroup", exceptions=[inner], **numbered(4))
    return report(
        "orders (5 sub-exceptions)",
        type="ExceptionGroup",
        exceptions=[first, second, third],
        exceptions_left_out=2,
        propagation=[received("lua", NATIVE, PRICE), received("python", NATIVE, MAIN)],
    )


def chain() -> Report:
    causes = [
        behind("cause", "second", stack=[RATE], **numbered(2)),
        behind("context", "third", stack=[PRICE], type="string", language="lua", **numbered(3)),
        behind("cause", "", stack=[NATIVE], type=None, language="native", **numbered(4)),
    ]
    return report("first", transformed=causes, transformed_left_out=7)


def circle() -> Report:
    two = behind("cause", "two", stack=[PRICE], **numbered(2))
    return report("one", [RATE], transformed=[two], transformed_above="context")


def gaps() -> Report:
    nameless = {name: value for name, value in NATIVE.items() if name not in ("function", "file", "line")}
    stack = [
        script("lua", "price", 7, trust="traceback"),
        gap("frames here had already returned", "lua"),
        script("lua", "outer", 9, trust="inferred", interpreter="worker"),
        gap("awaited by another task", "python", asynchronous=True),
        {
            "kind": "script",
            "trust": "exact",
            "language": "python",
            "function": "<module>",
            "address": "0x1008",
        },
        gap("callers unknown: this code has no unwind data"),
        nameless,
        {**NATIVE, "glue": True, "inlined": True, "function": "lua_callk", "address": "0x7f0000002000"},
    ]
    return report("parts are missing", stack, type="string", language="lua")


def hostile() -> Report:
    forged = '\nHRESULT 0x80070057 E_INVALIDARG: forged\n  File "/forged.py", line 1, in innocent'
    text = f"größe \U0001f600 \ud800 \0 \x1b[31m \u202e <b>&amp; ::error::%0A{forged}"
    frame = {**RATE, "function": text, "source": text}
    return report(text, [frame, NATIVE], type=text, notes=[text, ""], propagation=[received(text, frame)])


def empty() -> Report:
    return report("", [], type=None, language="native", reference=None)


def remote() -> Report:
    place = {"id": 4711, "host": "worker-1", "name": "SpawnPoolWorker-1"}
    seam = gap("error came from process 4711 (SpawnPoolWorker-1) on worker-1")
    return report("raised again", [PRICE, {**seam, "asynchronous": True}, RATE], came_from=place)


TEXTS = ("text", "text, newest last")
COLOURS = "text, all frames, in colour"
RECORDS = ("ecs log line", "opentelemetry attributes")
SENTRY = "sentry event"
# Each with the forms of which it shows something that the other reports do not.
EXTREMES: dict[str, tuple[Callable[[], Report], tuple[str, ...]]] = {
    "deep": (deep, TEXTS),
    "nested groups": (lambda: nested(12), ("text",)),
    "group": (group, (*TEXTS, COLOURS, SENTRY)),
    "chain": (chain, (*TEXTS, SENTRY)),
    "circle": (circle, TEXTS),
    "gaps": (gaps, (*TEXTS, COLOURS, SENTRY)),
    "hostile text": (hostile, (*TEXTS, COLOURS, *RECORDS, SENTRY)),
    "huge message": (lambda: report("x" * 20_000, []), ("text", SENTRY)),
    "empty": (empty, ("text", COLOURS, *RECORDS, SENTRY)),
    "of another process": (remote, TEXTS),
}


def of(name: str) -> Report:
    """The whole report of that NAME."""
    return {"schema": "stacksplice-error/1", **EXTREMES[name][0]()}
