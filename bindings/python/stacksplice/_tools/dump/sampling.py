"""``dump --repeat``: what a process does over some time."""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

from ..._base.output import fail, interrupted, show_progress, warn, write_file
from ..._base.redaction import clean_report
from .files import files_of
from .process import Refused, add_files_of_process, inspect
from .profiles import ENDS, FORMS, Profile

_PAUSE = 0.05  # between two looks at the process


class _Watch:
    """Looks at a process, for some seconds or until Ctrl-C."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.states: dict[str, int] = {}  # different threads as JSON, and their numbers
        self.samples: list[tuple[float, int]] = []
        self.notes: set[str] = set()
        self.user: Any = None
        self.looks = self.longest = 0
        self.began = time.monotonic()
        self.was_interrupted = False

    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self.began

    def _look(self) -> None:
        at = self.seconds() if self.looks else 0.0
        document = inspect("--pid", str(self.process))
        self.user = document["process"].get("user")
        self.longest = max(self.longest, document["process"]["stopped_microseconds"])
        self.notes.update(document["notes"])
        for thread in document["threads"]:
            number = self.states.setdefault(json.dumps(thread), len(self.states))
            self.samples.append((at, number))
        self.looks += 1

    def run(self, seconds: float) -> None:
        """Look again and again.  Raises Refused, and KeyboardInterrupt, if that is before the first look."""
        try:
            while not self.looks or self.seconds() < seconds:
                self._look()
                done = self.seconds()
                text = f"{self.looks:,} samples, {done:.0f} s; Ctrl-C ends"
                show_progress(text, None if math.isinf(seconds) else min(done / seconds, 1))
                time.sleep(_PAUSE)
        except Refused:
            if not self.looks:
                raise  # later ones: it has ended
        except KeyboardInterrupt:
            if not self.looks:
                raise
            self.was_interrupted = True
        show_progress("")

    def document(self) -> dict[str, Any]:
        """The different states as stacksplice-dump/1 has threads."""
        told = {"id": self.process, "user": self.user}
        return {"process": told, "notes": sorted(self.notes), "threads": [*map(json.loads, self.states)]}


def _form_of(options: argparse.Namespace) -> str | None:
    """The form that the user named, or that the name of the output has; None: it has none."""
    if options.format or options.output in (None, "-"):
        return options.format or "flame"
    return next((form for end, form in ENDS.items() if options.output.endswith(end)), None)


def record(options: argparse.Namespace) -> int:
    """Write what the process does; the exit status."""
    form = _form_of(options)
    if form is None:
        return fail(f"{options.output}: name a --format, or a file that ends with {', '.join(ENDS)}")
    path = options.output or "-"
    status = write_file("", path)  # before any work that a wrong name would lose
    if status:
        return status
    (process,) = options.processes
    started, watch = time.time(), _Watch(process)
    with files_of(process) as files:
        try:
            watch.run(options.repeat)
        except Refused as exc:
            return fail(str(exc))
        seconds = watch.seconds()
        document = watch.document()
        add_files_of_process(document, files, process, False, options.all_frames)
    document = clean_report(document)
    for note in document["notes"]:
        warn(note)
    heading = f"process {process}: {watch.looks} samples, paused for at most {watch.longest / 1000:.1f} ms"
    profile = Profile(
        heading, process, started, seconds, document["threads"], watch.samples, options.all_frames
    )
    status = write_file(FORMS[form](profile), path)
    if status or not watch.was_interrupted:
        return status
    ended = interrupted(f"ended by Ctrl-C after {seconds:.1f} s: {watch.looks} samples are written")
    return 0 if math.isinf(options.repeat) else ended
