"""Frames of scripts in gdb's own `bt`.

Where an interpreter runs, its native frame is replaced by the script frames that it stands for.
"""

import gdb
import stacksplice_gdb_target as target
from gdb.FrameDecorator import FrameDecorator
from stacksplice_served import Refused, script_runs


class Shown(FrameDecorator):
    """A frame with the glue that called it, which `bt` indents and `bt -hide` leaves out."""

    def __init__(self, base):
        super().__init__(base)
        self.glue = []

    def elided(self):
        """Frames of gdb."""
        return self.glue or super().elided()


class ScriptFrame(Shown):
    """One frame of a script.  Gdb prints it with the number of the native frame that runs it."""

    def __init__(self, base, frame):
        super().__init__(base)
        self.frame = frame

    def function(self):
        """For example "(Python) main"."""
        return "({}) {}".format(self.frame["language"].capitalize(), self.frame.get("function") or "?")

    def filename(self):
        """A gap has the reason here."""
        return self.frame.get("file") or self.frame.get("reason")

    def line(self):
        """Of the script."""
        return self.frame.get("line")

    def address(self):
        """None: it is not that of machine code."""

    def frame_args(self):
        """None: they are not known."""

    def frame_locals(self):
        """None: they are not known."""


def _sp(frame):
    return int(frame.read_register("rsp")) & (1 << 64) - 1


def _end(frame, start):
    """Where the part of the stack ends that begins at START, for a native function and all that is
    inlined in it."""
    while frame is not None and _sp(frame) <= start:
        frame = frame.older()
    return 1 << 64 if frame is None else _sp(frame)


def merged(frames, runs):
    """FRAMES, with RUNS of script frames in the place of those that run them."""
    runs = list(runs)
    replaced = None
    for base in frames:
        frame = base.inferior_frame()
        start = _sp(frame)
        end = _end(frame, start) if runs else start
        while runs and start <= runs[0][0] < end:
            replaced = start
            for script in runs.pop(0)[1]:
                yield ScriptFrame(base, script)
        if replaced != start:
            yield Shown(base)


def folded(frames, glue):
    """FRAMES, of which those of GLUE belong to the one that they called."""
    last = None
    for shown in frames:
        is_glue = not isinstance(shown, ScriptFrame) and _sp(shown.inferior_frame()) in glue
        if last is not None and is_glue:
            last.glue.append(shown)
        else:
            if last is not None:
                yield last
            last = shown
    if last is not None:
        yield last


class Filter:
    """The frame filter "stacksplice"."""

    name = "stacksplice"
    priority = 100
    enabled = True

    def __init__(self):
        self.told = None

    def filter(self, frames):
        """Gdb's frames, of the selected thread."""
        try:
            runs, glue = script_runs(target.stacks(False))
        except Refused as exc:
            self.tell(str(exc))
            return frames
        return folded(merged(frames, runs), glue) if runs else frames

    def tell(self, why):
        """Say once why frames of scripts are missing."""
        if why != self.told:
            gdb.write("stacksplice: no frames of scripts: {}\n".format(why), gdb.STDERR)
        self.told = why


def install():
    """Let gdb's `bt` use it; `disable frame-filter global stacksplice` ends that."""
    gdb.frame_filters[Filter.name] = Filter()
