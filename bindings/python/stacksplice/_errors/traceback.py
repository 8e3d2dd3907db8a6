"""Reports of exceptions that are alive: the traceback module of this Python writes Python's part.

So marks, suggestions, groups and colours are Python's own.  What is said of other languages comes from
the core, which asks for each of Python's frames (report_text.c).
"""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from itertools import islice

from .. import _stacksplice
from .._base.hints import Any, Callable, Iterable, Iterator
from .._base.lines import limits
from .._base.redaction import clean_traceback
from .info import ErrorInfo
from .kept import Bounded, Frames, KeptSummary, stack_of, unread, with_variables
from .live import Shown
from .look import HAS_COLORS, in_color, need_memory, options, place_of

_Told = tuple[traceback.TracebackException, BaseException, ErrorInfo | None]

_BRIDGE = ".pyx"  # how the files of bridges end
_LANGUAGES = ("lua", "native")  # what frames of others have as their module
_MOST_NOTES = 150  # as an error keeps
_STACK = 3  # stacksplice_format_kind
_MARK = "\0\n"  # in place of a frame; the core escapes each NUL of its own text
_NO_LINES = "  ... no lines of "  # of what the core says, and of what is said here
_LOSES = "  ... frames of other languages are in error_info(exc).stack: not all of these entries are in it\n"
# Lines that say how much was left out, where nothing need be of another language.
_ASIDES = ("  ... ", "  \x1b[2m... ", "  [Previous ")


class _Foreign(traceback.FrameSummary):
    """What stands between two of Python's frames: lines of the core."""

    __slots__ = ("text",)

    def __init__(self, number: int, text: str) -> None:
        super().__init__("", number, "", lookup_line=False, line="")  # none equals another
        self.text = text


class _Combined(KeptSummary):
    """Frames of all languages, the outermost first."""

    is_painted = False  # in colour

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **kwargs: Any) -> str:
        if isinstance(frame_summary, _Foreign):
            return frame_summary.text
        text = super().format_frame_summary(frame_summary, **kwargs)
        return in_color(frame_summary.filename, text) if self.is_painted else text


class _Known:
    """Frames that a traceback has, to be found again in a combined stack, the outermost first."""

    def __init__(self, own: list[traceback.FrameSummary]) -> None:
        self.taken: list[traceback.FrameSummary] = []
        self._own = own
        self._numbers: list[int] = []  # in OWN, of those that are taken
        self._frames = Frames()
        self._all: dict[tuple[str, int | None, str], list[int]] = {}  # at each place the outermost last
        for number in reversed(range(len(own))):
            one = own[number]
            self._all.setdefault((one.filename, one.lineno, one.name), []).append(number)

    def take(self, *given: Any) -> str:
        """Note what a traceback has of a frame; the mark for it."""
        place = place_of(*given)
        same = self._all.get(place[:3])
        if same:
            number = same.pop() if len(same) > 1 else same[0]
            self.taken.append(self._own[number])
        else:
            number = len(self._own)
            self.taken.append(self._frames.at(place))
        self._numbers.append(number)
        return _MARK

    def outermost(self) -> int:
        """The first taken one of the outermost that the traceback has; -1 if it has none."""
        number = min(self._numbers, default=len(self._own))
        return self._numbers.index(number) if number < len(self._own) else -1

    def ends(self, numbers: list[int]) -> tuple[int, int] | None:
        """The first taken one of the first, and the last taken one of the last, of NUMBERS of the traceback;
        None if one of them was not taken."""
        if not set(numbers) <= set(self._numbers):
            return None
        last = self._numbers[::-1].index(numbers[-1])
        return self._numbers.index(numbers[0]), len(self._numbers) - 1 - last


def _source_reason(file: str, handle: _stacksplice.ErrorHandle) -> str | None:
    """Why no line of FILE is shown with the error of HANDLE."""
    known = linecache.cache.get(file, ())
    if len(known) != 4 or known[1] is None:  # of no file: what was typed, or what a loader has
        return unread(file)
    return handle.source_reason(file) or handle.source_reason(known[3])


def _without_line(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    bare = traceback.FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False, line="")
    bare.locals = frame.locals
    return bare


def _remove_lines(stack: traceback.StackSummary, handle: _stacksplice.ErrorHandle) -> list[str]:
    """Take the lines from STACK that did not run, as the time of HANDLE's error tells: no frame is younger.
    What a report then says, each a line."""
    reasons: dict[str, str | None] = {}
    for number, frame in enumerate(stack):
        file = frame.filename
        if file not in reasons:
            reasons[file] = _source_reason(file, handle)
        if reasons[file] is not None:
            stack[number] = _without_line(frame)
    return [f"  ... {reason}\n" for reason in dict.fromkeys(reasons.values()) if reason is not None]


def _reasons_of(stack: traceback.StackSummary) -> list[str]:
    """What is said of files that are not read."""
    reasons = [unread(frame.filename) for frame in stack]
    return [f"  ... {reason}\n" for reason in dict.fromkeys(reasons) if reason is not None]


def _is_of_bridge(entry: Any) -> bool:
    """Whether ENTRY of a traceback, or None, is of another language, or of what calls one."""
    if entry is None:
        return False
    language = entry.tb_frame.f_globals.get("__name__")
    return language in _LANGUAGES or entry.tb_frame.f_code.co_filename.endswith(_BRIDGE)


def _of_python(exc: BaseException) -> list[int]:
    """The numbers of the entries of EXC's traceback that are Python's own."""
    numbers, entry, number = [], exc.__traceback__, 0
    while entry is not None:
        if not _is_of_bridge(entry):
            numbers.append(number)
        entry, number = entry.tb_next, number + 1
    return numbers


def _cut(frames: Sequence[Any], most: int) -> Sequence[Any]:
    """What a limit of MOST leaves of FRAMES, the outermost first."""
    return frames[:most] if most >= 0 else frames[most:]


def _has_bridge(entry: Any) -> bool:
    """Whether a traceback, ENTRY and those behind it, passed another language."""
    while entry is not None and not _is_of_bridge(entry):
        entry = entry.tb_next
    return entry is not None


def _split_hresult(text: str) -> tuple[str, str | None]:
    """The stack and, where it stands below, the HRESULT: every other line is indented, or another word."""
    before, end, last = text.removesuffix("\n").rpartition("\n")
    return (before + end, last) if last.startswith("HRESULT ") else (text, None)


def _split_reasons(text: str) -> tuple[str, list[str]]:
    """The stack, and what the core says of missing lines: it does for each stack, a report only once."""
    lines = text.split("\n")
    reasons = [f"{line}\n" for line in lines if line.startswith(_NO_LINES)]
    return "\n".join([line for line in lines if not line.startswith(_NO_LINES)]), reasons


def _has_own_hresult(exc: BaseException, info: ErrorInfo) -> bool:
    """Whether the HRESULT tells more than the type of EXC does."""
    if info.language != "python":
        return False
    try:
        own = getattr(exc, "hresult", None)
    except Exception:
        own = None
    is_own = isinstance(own, int) and own & 0xFFFFFFFF == info.hresult & 0xFFFFFFFF
    return is_own or info.hresult != _stacksplice.hresult_of(exc)


# No function here has a variable of an inner one: without memory for its cell CPython 3.11 leaks.  None
# is or has a generator: without memory for that CPython 3.12 and 3.13 release its function twice.


def _renamed(
    format_only: Callable[..., Iterable[str]], own: str, name: str, *arguments: Any, **options: Any
) -> Iterator[str]:
    """What FORMAT_ONLY writes, with NAME where the title has OWN, the exception's type."""
    first, *rest = format_only(*arguments, **options)
    return iter([first.replace(own, name, 1), *rest])


def _drop_words(shown: traceback.TracebackException, exc: BaseException) -> None:
    """Have SHOWN not print the note that says again what its title does."""
    words, notes = _stacksplice._own_words(exc), shown.__notes__
    if words is not None and type(notes) is list:
        shown.__notes__ = [note for note in notes if note is not words]


def _retitle(shown: traceback.TracebackException, exc: BaseException, info: ErrorInfo) -> None:
    """What stands for an error of elsewhere is shown with what that error says."""
    module = type(exc).__module__
    is_ours = isinstance(module, str) and module.startswith("stacksplice")
    if info.language != "python" and not is_ours:
        # Such as lupa's LuaError: the error's own message has the fields of a table, and no traceback.
        shown._str = info.message  # type: ignore[attr-defined]
        _drop_words(shown, exc)
    elif info.language == "python" and is_ours and info.type:
        own = f"{module}.{type(exc).__qualname__}"  # for one of another interpreter
        renamed = partial(_renamed, shown.format_exception_only, own, info.type)
        shown.format_exception_only = renamed  # type: ignore[assignment, method-assign]


def _bound_notes(shown: traceback.TracebackException) -> None:
    """Have SHOWN print at most _MOST_NOTES of a sequence that may have no end: not of a list or a tuple."""
    notes: Any = shown.__notes__
    if type(notes) in (list, tuple, str, bytes) or not isinstance(notes, Sequence):
        return
    kept = [*islice(notes, _MOST_NOTES + 1)]
    if len(kept) > _MOST_NOTES:
        kept[_MOST_NOTES:] = ["... more notes"]
    shown.__notes__ = kept


def _add_notes(shown: traceback.TracebackException, info: ErrorInfo, hresult: str | None) -> None:
    """Notes that only the error has, as native code gave them, and its HRESULT."""
    notes: Any = shown.__notes__ or []
    if not isinstance(notes, (list, tuple)):
        return  # which a traceback shows in its way
    all_notes, known = list(notes), info.notes
    for note in known if len(known) > len(notes) else ():
        if note not in all_notes:
            all_notes.append(note)
    if hresult:
        all_notes.append(hresult)
    shown.__notes__ = all_notes or shown.__notes__


def _entries(
    chunks: list[str], known: _Known, begin: int, end: int, is_behind: bool
) -> list[traceback.FrameSummary]:
    """CHUNKS of text, and between two of them the frame that Python has there, from frame BEGIN on, or from
    the text before it if it IS BEHIND one of another language, up to frame END."""
    entries: list[traceback.FrameSummary] = []
    for number, chunk in enumerate(chunks):
        if number < begin or (number == begin and not is_behind):
            continue
        if number > max(begin, 0):
            entries.append(known.taken[number - 1])
        if number > end:
            break
        if chunk:
            entries.append(_Foreign(number, chunk))
    return entries


def _is_of_others(entry: traceback.FrameSummary) -> bool:
    if not isinstance(entry, _Foreign):
        return False
    return any([line and not line.startswith(_ASIDES) for line in entry.text.split("\n")])


def _within(
    chunks: list[str], known: _Known, numbers: list[int], most: int, own: list[traceback.FrameSummary]
) -> list[traceback.FrameSummary]:
    """What a limit of MOST leaves: of OWN, those of the traceback, Python's with NUMBERS, of which none may
    be left, and CHUNKS of text between them; those inside, too, where the outermost are left out."""
    if not numbers:
        return []
    ends, is_innermost = known.ends(numbers), most < 0
    if ends is not None:
        return _entries(chunks, known, ends[0], len(chunks) if is_innermost else ends[1], False)
    # The combined stack folds some of them.
    between = own[numbers[0] :] if is_innermost else own[numbers[0] : numbers[-1] + 1]
    return [one for one in between if not one.filename.endswith(_BRIDGE)]


def _limits(extent: Shown, exc: BaseException, known: _Known, begin: int, is_inner: bool) -> bool:
    """Whether a report of EXC that begins with the taken one at BEGIN is not whole by EXTENT."""
    if extent.is_part and not is_inner:
        return True
    if extent.most is None:
        return False
    return abs(extent.most) < max(len(known.taken) - max(begin, 0), len(_of_python(exc)))


def _combine(
    shown: traceback.TracebackException,
    exc: BaseException,
    info: ErrorInfo,
    is_inner: bool,
    extent: Shown,
    *,
    color: bool = False,
    shorten: bool = False,
) -> list[str]:
    """Give SHOWN, which is of EXC, what INFO knows: other languages' frames, receivers, an HRESULT.  What
    is to be said of their lines of source.

    With IS_INNER it led to another exception, or is a member: who called its catcher is shown with that.
    """
    assert info._handle is not None
    own = list(shown.stack or ())
    known = _Known(own)
    text, hresult = _split_hresult(info._handle.format(_STACK, 1, False, color, False, known.take, shorten))
    if hresult is None and _has_own_hresult(exc, info):
        hresult = _split_hresult(info._handle.format(_STACK, 1, True, False))[1]
    text, reasons = _split_reasons(text)
    chunks = text.split(_MARK)
    if len(chunks) != len(known.taken) + 1:
        raise MemoryError("no memory for the mark of a frame that was taken")
    # Where an exception was caught its traceback begins.
    begin, is_behind = known.outermost() if is_inner else -1, _is_of_bridge(exc.__traceback__)
    if _limits(extent, exc, known, begin, is_inner):
        most = extent.most if extent.most is not None else sys.maxsize
        numbers = list(_cut(_of_python(exc), most))
        shown.stack = _Combined(_within(chunks, known, numbers, most, own))
    else:
        entries = _entries(chunks, known, begin, len(chunks), is_behind)
        if any(map(_is_of_others, entries)):
            if not info._handle.loses(exc):
                shown.stack = _Combined(entries)
            else:  # Python's own text tells more of Python
                reasons.append(_LOSES)
    _retitle(shown, exc, info)
    _add_notes(shown, info, hresult)
    return reasons + _remove_lines(shown.stack, info._handle)


def _say_once(shown: traceback.TracebackException, reasons: list[str], said: list[str]) -> None:
    """Add REASONS to what SHOWN prints, without those that are SAID."""
    text = ""
    for reason in reasons:
        if reason not in said:
            said.append(reason)
            text += reason
    if text and shown.stack:
        shown.stack = _Combined([*shown.stack, _Foreign(-1, text)])


def _lines_of(text: str, **_: Any) -> Iterator[str]:
    return iter(text.splitlines(keepends=True))


def _show_report(shown: traceback.TracebackException, text: str) -> None:
    """Have SHOWN print TEXT, the report of what came from another process, with all that led to it."""
    shown.stack = shown.__cause__ = shown.__context__ = shown.exceptions = None  # type: ignore[assignment]
    shown.format_exception_only = partial(_lines_of, text)  # type: ignore[assignment, method-assign]


def _all_told(
    shown: traceback.TracebackException,
    exc: BaseException,
    chain: bool,
    extent: Shown,
    style: dict[str, bool],
) -> list[_Told]:
    """What SHOWN prints and is to be completed, the exceptions that it is of, and their errors."""
    waiting = [(shown, exc)]
    told: list[_Told] = []
    for one, of in waiting:  # which grows during the loop
        info = _stacksplice._own_info(of)
        is_cut = limits(of.__traceback__, extent.most) or (extent.is_part and of is exc)
        if info is not None and info._came_from_elsewhere and not is_cut:
            _show_report(one, info.format(chain=chain, **style))
            continue
        told.append((one, of, info))
        found = [(one.__cause__, of.__cause__), (one.__context__, of.__context__)] if chain else []
        if one.exceptions and isinstance(of, BaseExceptionGroup):
            found += zip(one.exceptions, of.exceptions, strict=True)
        waiting += [(inner, behind) for inner, behind in found if inner is not None and behind is not None]
    return told


def _paint(all_shown: list[traceback.TracebackException]) -> None:
    from .._base.colors import paint_title  # most reports have no colours

    for shown in all_shown:
        shown.stack = stack = _Combined(shown.stack or ())
        stack.is_painted = True
        if not HAS_COLORS:
            paint_title(shown)


def _stack_of(exc: BaseException) -> traceback.StackSummary:
    # No traceback is given to a function of Python: without memory for the call CPython 3.11 leaks it.
    entries = _stacksplice._places(exc.__traceback__)
    stack: traceback.StackSummary | None = stack_of(entries)
    if stack is None:
        with Bounded(exc.__traceback__):
            stack = traceback.extract_tb(exc.__traceback__, sys.maxsize)
        for frame, (_, _, variables) in zip(stack, entries, strict=True):
            with_variables(frame, variables)
    return stack


def text_of(exc: BaseException, chain: bool, extent: Shown, style: dict[str, bool]) -> str:
    """The report of EXC, as much as EXTENT says."""
    need_memory()
    color = style.get("color", False)
    shown = traceback.TracebackException(type(exc), exc, exc.__traceback__, limit=0, compact=True)
    told = _all_told(shown, exc, chain, extent, style)
    said: list[str] = []
    has_crossed = any([info is not None for _, _, info in told])
    for one, of, info in told:
        _bound_notes(one)
        one.stack = _stack_of(of)
        if info is None and has_crossed and _has_bridge(of.__traceback__):
            info = _stacksplice._described(of)
        if info is not None and info._handle is not None and not info._came_from_elsewhere:
            _say_once(one, _combine(one, of, info, of is not exc, extent, **style), said)
            continue
        if extent.most is not None:
            one.stack = KeptSummary(_cut(one.stack, extent.most))
        if info is None:
            _say_once(one, _reasons_of(one.stack), said)
    clean_traceback(shown)
    if color:
        _paint([one for one, _, _ in told])
    text = "".join(shown.format(chain=chain, **options(color)))
    for one, _, _ in told:
        vars(one).pop("format_exception_only", None)  # of ours, which leads back to ONE
    return text
