"""Reports for the tests of pages, and pages as trees."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from building import HERE

VOID = {"meta", "link", "br", "hr", "img", "input"}
# What would be markup, code, or another line, if a page took it for more than text.
HOSTILE = (
    "</pre><script>document.title='taken'</script><img src=x onerror=alert(1)>\u202e\x1b{{ 7*7 }}\"' -->"
)


def saved() -> dict[str, Any]:
    """A group with causes, in which all languages are."""
    return json.loads((HERE / "saved" / "error-1.json").read_text(encoding="utf-8"))


def frame(number: int, **changed: Any) -> dict[str, Any]:
    return {
        **{"kind": "script", "trust": "exact", "language": "python", "function": f"f{number}"},
        **{"file": "/srv/a.py", "line": number + 1, "end_line": number + 1, "column": 12, "end_column": 20},
        **{"source": f"return f{number}(value)", "source_column": 5, "address": hex(number)},
        **changed,
    }


def error(frames: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    return {
        **{"hresult": "0x80004005", "hresult_signed": -2147467259, "symbol": "E_FAIL"},
        **{"description": "Unspecified error", "message": "no price", "type": "ValueError"},
        **{"language": "python", "notes": [], "thread_id": 7, "reference": None, "fingerprint": "0" * 32},
        **{"stack": frames, "frames_left_out": 0, "propagation": [], "exceptions": None},
        **{"exceptions_left_out": 0, "transformed": [], "transformed_left_out": 0, "transformed_above": None},
        **changed,
    }


def hostile() -> dict[str, Any]:
    """An error each of whose texts tries to be markup."""
    names = ("language", "function", "file", "module", "source", "interpreter", "build_id")
    bad = frame(0, **dict.fromkeys(names, HOSTILE))
    gap = {"kind": "gap", "trust": "exact", "language": HOSTILE, "reason": HOSTILE, "address": "0x1"}
    node = {"language": HOSTILE, "thread_id": 9, "stack": [bad], "frames_left_out": 0}
    texts = dict.fromkeys(("message", "type", "language", "description", "symbol", "fingerprint"), HOSTILE)
    whole = error([bad, gap], notes=[HOSTILE], propagation=[node], **texts)
    inner = {**whole, "relation": "cause"}
    return {**whole, "exceptions": [whole], "transformed": [inner], "process": {"id": 1, "host": HOSTILE}}


def crash_file() -> dict[str, Any]:
    """The file of a crash: three threads rest in the same place, one reads, one has not answered."""
    native = frame(0, kind="native", language="native", module="/lib/liba.so", module_offset=16)
    header = {"event": "SIGSEGV", "time": "2026-11-23T14:08:34Z", "pid": 10, "signal": 11}
    stacks = [("worker", [frame(1)])] * 3 + [("reader", [frame(2)]), ("deaf", [])]
    threads = [
        {"thread_id": number, "name": name, "answered": bool(stack), "stack": stack, "frames_left_out": 0}
        for number, (name, stack) in enumerate(stacks, 11)
    ]
    return {
        "schema": "stacksplice-report/1",
        "header": header,
        "error": error([native, frame(3)], type="SIGSEGV", message="no memory at address 0x8"),
        "current_error": error([frame(4)]),
        "threads": threads,
        "threads_left_out": 3,
    }


def process_of_many(count: int) -> dict[str, Any]:
    """COUNT threads of a process, none where another is."""
    stacks = ([frame(number * 2), frame(number * 2 + 1, glue=True)] for number in range(count))
    threads = [{"thread_id": n, "name": f"t{n}", "stack": stack} for n, stack in enumerate(stacks)]
    return {"process": {"id": 7}, "notes": ["a note"], "threads": threads}


class Page(HTMLParser):
    """The elements of a page in their order, each as its name, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open, "elements that are not closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        assert self.elements[self._open.pop()][0] == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        for number in self._open:
            self.elements[number][2].append(data)

    def texts(self, tag: str, css: str = "") -> list[str]:
        """Of the elements with that name, and that class if one is given, with single spaces."""
        return [
            " ".join("".join(text).split())
            for name, attributes, text in self.elements
            if name == tag and (not css or css in (attributes.get("class") or "").split())
        ]

    def folds(self, all_of_them: bool = False) -> list[str]:
        """What can be unfolded; without what stands below each error, around each line and at the end."""
        usual = ("HRESULT, thread", "As text", "lines ")
        return [text for text in self.texts("summary") if all_of_them or not text.startswith(usual)]

    def classes(self) -> set[str]:
        return {str(attributes.get("class")) for _, attributes, _ in self.elements}

    def names(self) -> set[str]:
        return {name for name, _, _ in self.elements}
