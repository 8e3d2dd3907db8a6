"""ErrorInfo: one error as it crossed the borders, live or read back from a report."""

from __future__ import annotations

from .. import _stacksplice
from .frames import Frame, Stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._stacksplice import ErrorHandle

_TEXT, _JSON, _BRIEF_JSON = 1, 2, 5
# Parts of an error that ErrorHandle.read() tells: stacksplice/read.h.
_DETAILS, _NOTES, _FINGERPRINT, _STACK, _PROPAGATION, _MEMBERS, _CAUSES = (1 << bit for bit in range(7))
_OF_CAUSES = ("transformed_left_out", "transformed_above")
_OF_PYTHON = ("process", "came_from", "raised_as")  # members that the core does not write
_SCHEMA = "stacksplice-error/1"
FILE_SCHEMA = "stacksplice-report/1"  # of what a process wrote that failed


class Propagation:
    """One node of the propagation chain: a language that received the error.

    language: "python", "lua", "c++", or "native" where the border named none; thread_id: the
    system's id of the thread; stack: the combined stack there.
    """

    __slots__ = ("language", "stack", "thread_id")

    def __init__(self, language: str, thread_id: int, stack: Stack) -> None:
        self.language: str = language
        self.thread_id: int = thread_id
        self.stack: Stack = stack

    def __reduce__(self) -> tuple[type[Propagation], tuple[str, int, Stack]]:
        return type(self), (self.language, self.thread_id, self.stack)

    def __repr__(self) -> str:
        return f"<Propagation into {self.language} on thread {self.thread_id}>"


def _look(color: bool, is_live: bool) -> Any:
    """What writes Python's lines; None, for the core, where the traceback module cannot be loaded: in a
    thread with a small stack, or without memory."""
    try:
        from .look import Look

        return Look(color, is_live)
    except Exception:
        return None


def _whole(part: Any) -> Any:
    """An error inside of a report as a report of its own; what is no error stays, to be refused."""
    if not isinstance(part, dict):
        return part
    return {"schema": _SCHEMA, **{name: value for name, value in part.items() if name != "relation"}}


class ErrorInfo:
    """One error: HRESULT, message, notes, combined stack, propagation chain, cause, members.

    Made by `error_info`, `originate`, `peek_error` and `take_error`; a pickled or saved one has the same
    values but no exception object.  That of an exception that came from another process goes on here:
    behind the frames of that process stand those that it passed in this one.
    Attributes are read when asked for.  That of a crash's file has its threads, too, in all its forms.
    """

    __slots__ = ("_data", "_details", "_file", "_handle", "_stack", "__weakref__")

    _handle: ErrorHandle | None
    _data: Mapping[str, Any] | None
    _file: Mapping[str, Any] | None
    _details: Mapping[str, Any] | None
    _stack: Stack | None

    def __init__(self) -> None:
        raise TypeError("use error_info(), originate(), peek_error() or take_error() to get an ErrorInfo")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ErrorInfo:
        """The error that `to_dict` or a saved JSON report describes.

        Keeps a copy.  Raises ValueError when data is not such a report, TypeError when it holds a value
        that JSON has no form for.
        """
        import json

        # The formatter's C code reads plain values: a value that can run code could change the rest.
        return cls._from_json_values(json.loads(json.dumps(data, check_circular=False)))

    @classmethod
    def from_json(cls, text: str | bytes) -> ErrorInfo:
        """The error that a saved JSON report describes: a line of a JSON Lines file, or the whole file of
        a process that crashed, failed fast or missed a deadline.

        Reads every version of the form.  Members that this version does not know stay: `to_json` writes
        them again.  Raises ValueError when text is not such a report, or of a later version.
        """
        import json

        return cls._from_json_values(json.loads(text))

    @classmethod
    def _from_json_values(cls, data: Any) -> ErrorInfo:
        """The same of what json.loads() made, which nobody else changes."""
        file = data if isinstance(data, dict) and data.get("schema") == FILE_SCHEMA else None
        if file is not None:
            data = file.get("error")
        needed = ("hresult_signed", "message", "stack", "propagation")
        if not isinstance(data, dict) or any(name not in data for name in needed):
            raise ValueError(f"data is not a report of schema {_SCHEMA}")
        if data.get("schema") not in (None, _SCHEMA):  # members of a report have none
            raise ValueError(f"the report's schema is {data['schema']!r}; this version reads {_SCHEMA}")
        self = object.__new__(cls)  # one with a handle is made by the extension
        self._data, self._file = data, file
        self._handle = self._details = self._stack = None
        return self

    def _report(self) -> Mapping[str, Any] | None:
        """The report that is not the core's: a saved one, or one that goes on in this process."""
        if self._handle is None:
            return self._data
        if self._handle.remote is None:
            return None
        from .remote import data_of

        return data_of(self)

    @property
    def _came(self) -> bool:
        """Whether it, or one of those behind it, has a stack of another process, or it was saved."""
        return self._handle is None or self._handle.came

    @property
    def _came_from_elsewhere(self) -> bool:
        """Whether it has a stack of another process."""
        return self._handle is None or self._handle.remote is not None

    def _part(self, part: int) -> Mapping[str, Any]:
        """The report, or this PART of the living error."""
        report = self._report()
        if report is not None:
            return report
        assert self._handle is not None
        return self._handle.read(part)

    def _detail(self, name: str) -> Any:
        if self._details is None:
            self._details = self._part(_DETAILS)
        return self._details.get(name)

    def _stack_of(self, data: Mapping[str, Any]) -> Stack:
        if not data["stack"] or isinstance(data["stack"][0], int):  # of the core: elements
            return Stack(data["stack"])
        frames = (Frame.from_dict(frame) for frame in data["stack"])
        return Stack.from_frames(frames, int(data.get("frames_left_out") or 0))

    @property
    def hresult(self) -> int:
        """The HRESULT, signed, as ctypes and winerror have it."""
        return int(self._detail("hresult_signed"))

    @property
    def description(self) -> str:
        """The system's text for the HRESULT."""
        return str(self._detail("description") or "")

    @property
    def message(self) -> str:
        """The error's own message, in full; the description when it has none."""
        return str(self._detail("message"))

    @property
    def type(self) -> str | None:
        """The exception's type as its language prints it; None when no script raised it."""
        name: str | None = self._detail("type")
        return name

    @property
    def language(self) -> str:
        """Where the error was born: "python", "lua", ..., or "native"."""
        if self._handle is not None and self._handle.remote is None:
            return self._handle.language()
        return str(self._detail("language") or "native")

    @property
    def reference(self) -> str | None:
        """Names the error in this process while it lives: RoResolveRestrictedErrorInfoReference."""
        reference: str | None = self._detail("reference")
        return reference

    @property
    def thread_id(self) -> int:
        """The system's id of the thread on which the error was born."""
        return int(self._detail("thread_id") or 0)

    @property
    def stack(self) -> Stack:
        """The combined stack at the origin, newest frame first."""
        if self._stack is None:
            self._stack = self._stack_of(self._part(_STACK))
        return self._stack

    @property
    def frames_left_out(self) -> int:
        """How many frames the stack was longer than `set_max_frames` allows: see `Stack.frames_left_out`."""
        return self.stack.frames_left_out

    @property
    def propagation(self) -> list[Propagation]:
        """The languages that received the error, oldest first.  The origin is none of them."""
        return [
            Propagation(str(node["language"]), int(node["thread_id"]), self._stack_of(node))
            for node in self._part(_PROPAGATION)["propagation"]
        ]

    def _behind(self) -> tuple[str, ErrorInfo | None]:
        report = self._plain() if self._came else None
        if report is not None:
            causes = report.get("transformed") or []
            if not causes:
                return "", None
            rest = {name: report[name] for name in _OF_CAUSES if name in report}
            cause = _whole({**causes[0], "transformed": causes[1:], **rest})
            return causes[0].get("relation", "cause"), ErrorInfo._from_json_values(cause)
        found = self._part(_CAUSES)
        return found.get("relation", ""), found.get("cause")

    @property
    def transformed(self) -> ErrorInfo | None:
        """The error this one was made from, its cause or else its context; or None."""
        return self._behind()[1]

    @property
    def cause(self) -> ErrorInfo | None:
        """The error that directly caused this one (Python: __cause__), or None."""
        relation, error = self._behind()
        return error if relation == "cause" else None

    @property
    def context(self) -> ErrorInfo | None:
        """The error that was being handled when this one was raised (Python: __context__); None where
        there is a cause, and where the script suppressed it."""
        relation, error = self._behind()
        return error if relation == "context" else None

    @property
    def causes_left_out(self) -> int:
        """0; at least 1 where errors behind this one were too many to keep."""
        if self._data is None:
            return int(self.to_dict()["transformed_left_out"])
        return int(self._data.get("transformed_left_out") or 0)

    @property
    def exceptions(self) -> list[ErrorInfo] | None:
        """The members of a group, each with its own stack, causes and notes; None if it is none."""
        report = self._plain() if self._came else self._part(_MEMBERS)
        members: list[Any] | None = report.get("exceptions")
        if not members or isinstance(members[0], ErrorInfo):
            return members
        return [ErrorInfo._from_json_values(_whole(member)) for member in members]

    @property
    def exceptions_left_out(self) -> int:
        """How many more members the group had, which were too many to keep."""
        return int(self._part(_MEMBERS).get("exceptions_left_out") or 0)

    @property
    def notes(self) -> list[str]:
        """What was added to it on its way (Python: add_note), the oldest first."""
        return [str(note) for note in self._part(_NOTES).get("notes") or ()]

    @property
    def language_exception(self) -> BaseException | None:
        """The Python exception, if the error was born in this interpreter."""
        return self._handle.exception if self._handle is not None else None

    @property
    def process(self) -> dict[str, Any] | None:
        """The process from which the error came: "id" and "host", with multiprocessing its "name", and in a
        sub-interpreter its number, "interpreter".  None for an error of here, and for one that was saved in
        the process where it was raised.

        If it came through several, it is the last of them; gaps of the stack name the others.
        """
        report = self._report() or {}
        process = report.get("process") or report.get("came_from")
        return dict(process) if process else None

    @property
    def fingerprint(self) -> str:
        """A grouping value: 32 hexadecimal digits, the same on every machine and in every run."""
        return str(self._part(_FINGERPRINT).get("fingerprint") or "")

    @property
    def loose_fingerprint(self) -> str:
        """The same after a rebuild too: of native frames it takes the functions' names, not the offsets.
        Empty for a saved report that has none.
        """
        return str(self._part(_FINGERPRINT).get("loose_fingerprint") or "")

    def to_json(self, *, brief: bool = False) -> str:
        """The report as JSON, schema stacksplice-error/1; a crash's file as it was, stacksplice-report/1.

        brief: a tenth as long, for logs and engines that keep many.  Frames that texts hide are counted, and
        others have function, file and line, those of C what symbols can be found by later.  There are no
        lines of source, columns or variables, and members that are empty are left out.  Fingerprints are the
        same, and whatever reads a report reads it.  Of a crash's file it is the error alone.
        """
        if self._handle is not None and not self._came:
            return self._handle.format(_BRIEF_JSON if brief else _JSON, 0, True, False)
        return self._json_of_values(brief)

    def _json_of_values(self, brief: bool) -> str:
        """The same of a report that is not the core's."""
        import json

        from .._base.redaction import clean_report

        if not brief:
            return json.dumps(clean_report(self._file or self._plain()), ensure_ascii=False) + "\n"
        report = self._plain()
        text = _stacksplice._format_document_as_brief_json(json.dumps(report))
        more = {name: report[name] for name in _OF_PYTHON if report.get(name)}
        if not more:
            return text
        return json.dumps({**json.loads(text), **clean_report(more)}, ensure_ascii=False) + "\n"

    def _plain(self) -> Mapping[str, Any]:
        """The report as plain values, of an error that is alive with what those behind it went through in
        other processes."""
        if self._handle is None:
            assert self._data is not None
            return self._data
        from .remote import data_of

        return data_of(self)

    def to_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """The report as plain values: what `to_json` writes."""
        import json

        data: dict[str, Any] = json.loads(self.to_json(brief=brief))
        return data

    def format(
        self,
        *,
        newest_last: bool = True,
        all_frames: bool = False,
        color: bool = False,
        shorten: bool = False,
        chain: bool = True,
    ) -> str:
        """The report for people.

        newest_last: the order of Python's tracebacks; all_frames: the inside of interpreters too,
        which is otherwise hidden; color: ANSI colours; shorten: the ends of a long stack alone, for a
        terminal; chain: with the errors that it was made from, and the members of a group.
        """
        style = {"all_frames": all_frames, "color": color, "shorten": shorten}
        if self._handle is not None and not self._came:
            look = _look(color, True)
            return self._handle.format(_TEXT, int(newest_last), all_frames, color, not chain, look, shorten)
        import json

        data, look = json.dumps(self._plain()), _look(color, False)
        text = _stacksplice._format_document(data, newest_last, all_frames, color, not chain, look, shorten)
        if chain and self._file is not None:
            text += _text_beside(self._file, newest_last=newest_last, **style)
        return text

    def to_html(self, *, newest_last: bool = True, all_frames: bool = False) -> str:
        """The report as one HTML page, without anything beside it.

        newest_last and all_frames: as in `format`.  Raises ImportError, which names the command that
        helps, where Jinja2 or Pygments is missing.
        """
        from .._tools.html import check_packages

        check_packages()
        from .._tools.html.page import html_of
        from .._tools.html.values import Look

        return html_of(self.to_dict(), Look(newest_last, all_frames), self._handle is not None)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None, for the plain form, where the packages for pages are missing."""
        try:
            page = self.to_html()
        except ImportError:
            return None
        from .._tools.html.page import cell_of

        return cell_of(page)

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        from .remote import here

        return type(self).from_dict, ({"process": here(), **self.to_dict()},)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ErrorInfo):
            return NotImplemented
        mine, theirs = self._report(), other._report()
        if mine is None and theirs is None:
            assert self._handle is not None and other._handle is not None
            return self._handle.key == other._handle.key
        return mine == theirs

    def __hash__(self) -> int:
        is_ours = self._handle is not None and self._handle.remote is None
        return hash(self._handle.key if is_ours and self._handle else self.fingerprint)

    def __str__(self) -> str:
        return self.format()

    def __repr__(self) -> str:
        name = f"{self.type}: " if self.type else ""
        return f"<ErrorInfo 0x{self.hresult & 0xFFFFFFFF:08X} {name}{self.message!r}>"


def name_of(thread: Mapping[str, Any]) -> str:
    """What a report calls THREAD, of the file of a crash, beside its number."""
    name = str(thread["name"])
    return name if thread["answered"] else f"{name}, which has not answered in time"


def _text_beside(file: Mapping[str, Any], **look: bool) -> str:
    """What the report of FILE says below its error; LOOK as of ErrorInfo.format."""
    text = ""
    if file.get("current_error") is not None:
        current = ErrorInfo._from_json_values(file["current_error"])
        text += f"\nCurrent error of this thread:\n{current.format(**look)}"
    for thread in file.get("threads") or ():
        # An error without any fault of its own: shown as its stack and its name.
        kind = f"Thread {thread['thread_id']}"
        values = {**file["error"], **thread, "type": kind, "message": name_of(thread)}
        text += f"\n{ErrorInfo._from_json_values(values).format(**look)}"
    if file.get("threads_left_out"):
        text += f"\n{file['threads_left_out']} more threads were too many for the report.\n"
    return text
