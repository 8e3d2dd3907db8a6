"""What a process did over some time, in the forms that programs for profiles read."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from ..._base.plain import plain


class Frame(NamedTuple):
    """A place in a stack: what it is called, its file or binary, and what it is of."""

    name: str
    place: str
    line: int  # 0: none
    kind: str  # "thread", "gap" or a language

    def text(self, place: str) -> str:
        """The frame with PLACE, a form of its own."""
        if not place:
            return self.name
        return f"{self.name} ({place}:{self.line})" if self.line else f"{self.name} ({place})"

    def short(self) -> str:
        """The frame with the name of its file alone."""
        return self.text(os.path.basename(self.place))


class Profile(NamedTuple):
    """States of threads and when each was seen, the first look at 0."""

    heading: str
    process: int
    started: float  # in seconds since the epoch
    seconds: float
    threads: list[dict[str, Any]]  # different states, each with its stack, as stacksplice-dump/1 has them
    samples: list[tuple[float, int]]  # seconds, number of the state
    all_frames: bool

    def states(self) -> list[list[Frame]]:
        """Each state as its thread and the frames from the outermost on."""
        states, names = [], self.names()
        for thread in self.threads:
            shown = [each for each in reversed(thread["stack"]) if self.all_frames or not each.get("glue")]
            heading = plain(f"thread {thread['thread_id']} {names[thread['thread_id']]}".rstrip())
            states.append([Frame(heading, "", 0, "thread"), *map(_frame, shown)])
        return states

    def names(self) -> dict[int, str]:
        """What each thread is called: by its language, else by the system; empty if by neither.

        One that began while it was looked at has got its name later.
        """
        names: dict[int, str] = {}
        for name_of in (_name_of_system, _name_of_language):
            for thread in self.threads:
                number = thread["thread_id"]
                names[number] = name_of(thread) or names.get(number, "")
        return names

    def by_thread(self) -> dict[int, list[tuple[float, int]]]:
        """The samples of each thread."""
        found: dict[int, list[tuple[float, int]]] = {}
        for sample in self.samples:
            found.setdefault(self.threads[sample[1]]["thread_id"], []).append(sample)
        return found


def _name_of_system(thread: dict[str, Any]) -> str:
    return str(thread.get("name", ""))


def _name_of_language(thread: dict[str, Any]) -> str:
    return next((str(role["name"]) for role in thread.get("python", ()) if role.get("name")), "")


def _frame(frame: dict[str, Any]) -> Frame:
    if frame["kind"] == "gap":
        return Frame(f"... {plain(frame['reason'])}", "", 0, "gap")
    module = plain(frame.get("module", ""))
    name = frame.get("function") or f"{os.path.basename(module) or '?'}+{frame.get('module_offset', 0):#x}"
    is_script = frame["kind"] == "script"
    place = plain(frame.get("file", "")) if is_script else module
    return Frame(plain(name), place, frame.get("line", 0) if is_script else 0, frame["language"])


class _Numbers(dict[Any, int]):
    """A number for each different value, from 0 up."""

    def __missing__(self, value: Any) -> int:
        self[value] = len(self)
        return self[value]


def collapsed(profile: Profile) -> str:
    """Lines of a stack, its frames between semicolons, and how often it was seen."""
    states = [";".join([frame.short().replace(";", ",") for frame in state]) for state in profile.states()]
    counts = Counter([states[state] for _, state in profile.samples])
    return "".join([f"{stack} {count}\n" for stack, count in sorted(counts.items())])


def speedscope(profile: Profile) -> str:
    """JSON for speedscope.app: one sampled profile for each thread."""
    frames = _Numbers()
    profiles = []
    states = profile.states()
    stacks = [[frames[frame] for frame in state[1:]] for state in states]
    for samples in profile.by_thread().values():
        times = [time for time, _ in samples] + [profile.seconds]
        profiles.append(
            {
                "type": "sampled",
                "name": states[samples[0][1]][0].name,
                "unit": "seconds",
                "startValue": times[0],
                "endValue": profile.seconds,
                "samples": [stacks[state] for _, state in samples],
                "weights": [after - before for before, after in zip(times, times[1:])],
            }
        )
    shared = [
        {"name": each.name, "file": each.place, **({"line": each.line} if each.line else {})}
        for each in frames
    ]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": profile.heading,
        "shared": {"frames": shared},
        "profiles": profiles,
        "exporter": "stacksplice",
    }
    return json.dumps(document) + "\n"


_CATEGORIES = {"other": "grey", "python": "green", "lua": "blue", "native": "yellow"}
_FRAME = ("location", "relevantForJS", "innerWindowID", "implementation", "optimizations", "line", "column")


def _table(*names: str) -> dict[str, Any]:
    return {"schema": {name: number for number, name in enumerate(names)}, "data": []}


def _firefox_thread(profile: Profile, states: list[list[Frame]], samples: list[tuple[float, int]]) -> Any:
    frames, stacks, strings = _Numbers(), _Numbers(), _Numbers()
    last = {}
    for state in {state for _, state in samples}:
        stack = None
        for frame in states[state][1:]:
            stack = stacks[stack, frames[frame]]
        last[state] = stack
    first = profile.threads[samples[0][1]]
    is_main, name = first["thread_id"] == profile.process, profile.names()[first["thread_id"]]
    table = _table(*_FRAME, "category", "subcategory")
    for frame in frames:
        place = f"in {frame.place}" if frame.kind == "native" and frame.place else frame.place
        category = list(_CATEGORIES).index(frame.kind if frame.kind in _CATEGORIES else "other")
        text = strings[frame.text(place)]
        table["data"].append([text, False, 0, None, None, frame.line or None, None, category, 0])
    return {
        "name": "GeckoMain" if is_main else name or "thread",  # the name of a main thread there
        "processType": "default",
        "processName": profile.heading,
        "tid": first["thread_id"],
        "pid": profile.process,
        "registerTime": 1000 * samples[0][0],
        "unregisterTime": None,
        "markers": _table("name", "startTime", "endTime", "phase", "category", "data"),
        "samples": {
            **_table("stack", "time", "responsiveness"),
            "data": [[last[state], 1000 * time, 0] for time, state in samples],
        },
        "frameTable": table,
        "stackTable": {**_table("prefix", "frame"), "data": list(stacks)},
        "stringTable": list(strings),
    }


def firefox(profile: Profile) -> str:
    """JSON for profiler.firefox.com: version 24 of Gecko's format, which newer ones of that program read."""
    states = profile.states()
    threads = [_firefox_thread(profile, states, samples) for samples in profile.by_thread().values()]
    looks = len({time for time, _ in profile.samples})
    meta = {
        "version": 24,
        "product": "stacksplice",
        "startTime": 1000 * profile.started,
        "interval": 1000 * profile.seconds / looks,
        "shutdownTime": None,
        "processType": 0,
        "stackwalk": 1,
        "debug": 0,
        "gcpoison": 0,
        "asyncstack": 0,
        "presymbolicated": True,
        "markerSchema": [],
        "categories": [
            {"name": name.capitalize(), "color": color, "subcategories": ["Other"]}
            for name, color in _CATEGORIES.items()
        ],
    }
    document = {"meta": meta, "libs": [], "threads": threads, "processes": [], "pausedRanges": []}
    return json.dumps(document) + "\n"


def flame(profile: Profile) -> str:
    """A page with a flame graph."""
    root = Frame("all threads", "", 0, "thread")
    frames, nodes = _Numbers({root: 0}), _Numbers({(-1, 0): 0})
    counts = Counter([state for _, state in profile.samples])
    seen: Counter[int] = Counter()
    for number, state in enumerate(profile.states()):
        node = 0
        seen[node] += counts[number]
        for frame in state:
            node = nodes[node, frames[frame]]
            seen[node] += counts[number]
    data = {
        "frames": [(frame.short(), frame.text(frame.place), frame.kind) for frame in frames],
        "nodes": [(above, frame, seen[node]) for (above, frame), node in nodes.items()],
    }
    page = resources.files("stacksplice._tools.html") / "templates" / "flame.html"
    text = page.read_text(encoding="utf-8").replace("@TITLE@", escape(profile.heading))
    return text.replace("@DATA@", json.dumps(data).replace("<", "\\u003c"))


FORMS: dict[str, Callable[[Profile], str]] = {
    "flame": flame,
    "collapsed": collapsed,
    "speedscope": speedscope,
    "firefox": firefox,
}
# Which form a file has whose name ends so; the longer ends first.
ENDS = {".speedscope.json": "speedscope", ".json": "firefox", ".html": "flame", ".txt": "collapsed"}
