"""Frames of scripts in gdb's own `bt`.

Where an interpreter runs, its native frame is replaced by the script frames that it stands for.
"""

import gdb
import stacksplice_gdb_target as target
from gdb.FrameDecorator import FrameDecorator
from stacksplice_plain import plain
from stacksplice_served import Refused, plain_locals_of, script_runs

# After these, what was read of a process may have changed.
CHANGES = "before_prompt cont exited inferior_call memory_changed register_changed new_objfile".split()

ESCAPED_BY_GDB = "".join(map(chr, range(32))) + "\x7f"  # in what it puts into quotes


class Reading:
    """Stacks with scripts, of each inferior by the numbers of its threads, until something changes."""

    def __init__(self, with_locals):
        self.with_locals, self.known = with_locals, {}
        for name in CHANGES:
            getattr(gdb.events, name).connect(self.forget)

    def forget(self, event=None):
        """Called by gdb."""
        self.known = {}

    def of_selected_thread(self):
        """Its stack."""
        known = self.known.setdefault(gdb.selected_inferior().num, {})
        number = target.number_of(gdb.selected_thread())
        if number not in known:  # a second thread: all, since each reading takes the registers of all
            known.update(target.scripts(bool(known), self.with_locals))
        return known.get(number, [])


stacks, stacks_with_locals = Reading(False), Reading(True)


class Shown(FrameDecorator):
    """A frame with the glue that called it, which `bt` indents and `bt -hide` leaves out."""

    def __init__(self, base):
        super().__init__(base)
        self.glue = []

    def elided(self):
        """Frames of gdb."""
        return self.glue or super().elided()


class NativeFrame(Shown):
    """One of gdb's frames, and where it begins on the stack."""

    def __init__(self, base, start):
        super().__init__(base)
        self.start = start


def _writable(text):
    """TEXT with escapes in the place of what gdb cannot write, at which it would leave out the frame."""
    charset = gdb.target_charset()
    return text.encode(charset, "backslashreplace").decode(charset)


def _printable(text):
    """TEXT that gdb writes as it is."""
    return _writable(plain(text)) if text else text


class Local:
    """One local variable of a script."""

    def __init__(self, name, value):
        self.name, self.told = name, value

    def symbol(self):
        """Its name."""
        return _printable(self.name)

    def value(self):
        """A number or a text, which gdb prints in quotes."""
        return self.told if isinstance(self.told, int) else _writable(plain(self.told, ESCAPED_BY_GDB))


class ScriptFrame(Shown):
    """One frame of a script.  Gdb prints it with the number of the native frame that runs it."""

    def __init__(self, base, place, frame):
        super().__init__(base)
        self.place, self.frame = place, frame

    def function(self):
        """For example "(Python) main", or the reason of a gap."""
        if self.frame["kind"] == "gap":
            return _printable("[gap: {}]".format(self.frame["reason"]))
        name = self.frame.get("function") or "?"
        return _printable("({}) {}".format(self.frame["language"].capitalize(), name))

    def filename(self):
        """Of the script."""
        return _printable(self.frame.get("file"))

    def line(self):
        """Of the script."""
        return self.frame.get("line")

    def address(self):
        """None: it is not that of machine code."""

    def frame_args(self):
        """None: they are not known."""

    def frame_locals(self):
        """For `bt -full`, which alone asks for them: they are read when it does."""
        if self.place is None:
            return None
        try:
            runs = dict(script_runs(stacks_with_locals.of_selected_thread())[0])
        except Refused:
            return None
        address, number = self.place
        run = runs.get(address, ())
        return [Local(*local) for local in plain_locals_of(run[number])] if number < len(run) else None


def functions(frames):
    """FRAMES in groups: a native function behind those that are inlined in it, and which part of the
    stack is its own.  That is empty if gdb finds no caller."""
    group, start, is_whole = [], 0, False
    for base in frames:
        frame = base.inferior_frame()
        sp = int(frame.read_register("sp")) & (1 << 64) - 1
        if is_whole:
            yield group, start, sp
            group = []
        group.append(base)
        start, is_whole = sp, frame.type() != gdb.INLINE_FRAME
    if group:
        yield group, start, start


def _gap(base, reason):
    return ScriptFrame(base, None, {"kind": "gap", "reason": reason})


def _run(base, run):
    address, scripts = run
    return [ScriptFrame(base, (address, number), script) for number, script in enumerate(scripts)]


def merged(frames, runs):
    """FRAMES, with RUNS of script frames in the place of those that run them."""
    runs, group = list(runs), []
    for group, start, end in functions(frames):
        before = len(runs)
        while runs and start <= runs[0][0] < end:
            if len(runs) < before:
                yield _gap(group[0], "two runs of frames in one native frame")
            yield from _run(group[0], runs.pop(0))
        if len(runs) == before:
            yield from (NativeFrame(base, start) for base in group)
    if runs and group:
        yield _gap(group[-1], "native frames of what follows were not found")
        for run in runs:
            yield from _run(group[-1], run)


def folded(frames, glue):
    """FRAMES, of which those of GLUE belong to the one that they called."""
    last = None
    for shown in frames:
        if last is not None and isinstance(shown, NativeFrame) and shown.start in glue:
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

    def __init__(self):
        self.told, self.is_wanted = None, True

    @property
    def enabled(self):
        """Gdb asks before each `bt`.  Where no script runs it prints as without any filter, which is
        quicker, and says why a stack ends early."""
        try:
            return self.is_wanted and bool(script_runs(stacks.of_selected_thread())[0])
        except (Refused, gdb.error) as exc:
            self.tell(str(exc))
            return False

    @enabled.setter
    def enabled(self, is_wanted):
        self.is_wanted = is_wanted

    def filter(self, frames):
        """Gdb's frames, of the selected thread."""
        runs, glue = script_runs(stacks.of_selected_thread())
        return folded(merged(frames, runs), glue)

    def tell(self, why):
        """Say once why frames of scripts are missing."""
        if why != self.told:
            gdb.write("stacksplice: no frames of scripts: {}\n".format(plain(why)), gdb.STDERR)
        self.told = why


def install():
    """Let gdb's `bt` use it; `disable frame-filter global stacksplice` ends that."""
    gdb.frame_filters[Filter.name] = Filter()
