"""The commands of ``stacksplice``: what each understands, and where it is done."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from .. import __version__, _stacksplice
from .._base.arguments import Parser, meant, number
from .._base.hints import Callable, Sequence
from .._base.loading import loaded_core
from .._base.output import fail, reader_may_leave, write

_PROGRAM = "stacksplice"


class _Command:
    """Before _add_NAME, which adds the arguments of the command NAME, and whose text is what help says of it.

    The function at PLACE performs it; SUMMARY is in the list of commands, STATUSES are how it ends besides
    for a wrong command line and by Ctrl-C.
    """

    def __init__(self, place: str, summary: str, statuses: dict[str, str]) -> None:
        self.summary = summary
        self._place = place
        wrong = "the command line is wrong"
        self._ends = {**statuses, "2": f"{statuses['2']}, or {wrong}" if "2" in statuses else wrong}
        if "other" not in statuses:
            self._ends.setdefault("130", "Ctrl-C")

    def __call__(self, add: Callable[[Parser], None]) -> None:
        self._name, self._add = add.__name__.removeprefix("_add_"), add
        COMMANDS[self._name] = self

    def parser(self) -> Parser:
        made = Parser(prog=f"{_PROGRAM} {self._name}", description=self._add.__doc__)
        made.statuses = self._ends.items()
        made.set_defaults(command=self._name, place=self._place)
        self._add(made)
        return made


COMMANDS: dict[str, _Command] = {}


def _perform(options: argparse.Namespace) -> int:
    module, _, name = options.place.partition(":")
    if getattr(options, "html", None) is not None:
        try:
            import_module(".html", __package__).check_packages()
        except ImportError as exc:
            return fail(str(exc))
    status: int = getattr(import_module(module, __package__), name)(options)
    return status


# ---- Arguments of several commands ---------------------------------------------------------------

_UNREADABLE = "a file is unreadable or is not a report (the others are {})"
_NO_PAGE = "the page cannot be made or written"
_PRINTED = "were printed, or are on the page"


def _all_frames(parser: Parser, more: str = "") -> None:
    parser.add_argument(
        "--all-frames", action="store_true", help=f"also show frames inside of interpreters{more}"
    )


def _stack_options(parser: Parser, more: str = "") -> None:
    parser.add_argument("--locals", action="store_true", help="also show local variables of script frames")
    _all_frames(parser, more)
    parser.add_argument(
        "--no-source", action="store_true", help="no lines of source: read no files of scripts"
    )


def _reports(parser: Parser) -> None:
    parser.add_argument(
        "reports",
        nargs="+",
        metavar="report",
        help="files of JSON reports, folders of them, or - for standard input",
    )


def _symbols(parser: Parser, files: str) -> None:
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help=f"folder with {files}, by build-id or by name; can be repeated",
    )


def _form(parser: Parser, what: str, json: str) -> argparse._MutuallyExclusiveGroup:
    """--json, and --html, which writes WHAT."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=json)
    form.add_argument(
        "--html", metavar="OUT", help=f"write {what} to the file OUT as one HTML page (- for standard output)"
    )
    return form


# ---- The commands --------------------------------------------------------------------------------


@_Command(
    ".._hooks.program:run",
    "run a script, module or text with install()",
    {
        "2": "there is no such script, no Lua that can run it",
        "other": "that of python, or of the Lua",
    },
)
def _add_run(parser: Parser) -> None:
    """Run a script, a module or a text as Python does, with install(): an uncaught error that crossed a
    border is shown with the frames of all languages.  Python starts anew with its own options.  A script
    whose name ends in .lua is run by a Lua that finds the module stacksplice.
    """
    usage = "stacksplice run [-h] [--crash] [--locals] {} [argument ...]".format
    parser.usage = "\n       ".join(map(usage, ("script.py|script.lua", "-m module", "-c text")))
    parser.add_argument(
        "--crash", action="store_true", help="also report crashes, such as segmentation faults"
    )
    parser.add_argument("--locals", action="store_true", help="show local variables of scripts' frames")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("-m", dest="as_module", action="store_true", help="run a module")
    kind.add_argument("-c", dest="as_text", action="store_true", help="run the text of a program")
    parser.add_argument(
        "program",
        nargs=argparse.PARSER,  # all from the first one that is no option, a later `--` as well
        metavar="script",
        help="what python can run: a script, folder or zip file, or - for standard input; with -m a module's "
        "name, with -c the text; then the program's arguments",
    )


@_Command(
    ".saved.show:show",
    "print saved JSON reports as text, or make a page of them",
    {
        "0": f"all reports {_PRINTED}",
        "2": f"{_UNREADABLE.format('shown')}, {_NO_PAGE}",
    },
)
def _add_show(parser: Parser) -> None:
    """Print saved reports as text, or make an HTML page of them.  A file holds one report, a list of them,
    or one on each line, as logs of stacksplice.logging.JsonFormatter do; their lines without a report are
    skipped.  What an object around a report says stands above the report.
    """
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--newest-first", action="store_true", help="the innermost frame first, as Lua does")
    order.add_argument(
        "--oldest-first",
        dest="newest_first",
        action="store_false",
        help="the innermost frame last, as Python does (default)",
    )
    _all_frames(parser)
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): on a terminal, as NO_COLOR, FORCE_COLOR and PYTHON_COLORS allow",
    )
    _form(parser, "them", "print the reports as JSON, one on each line")
    _reports(parser)


@_Command(
    ".dump.process:core",
    "print the stacks of all threads in a core file",
    {
        "0": f"the stacks {_PRINTED}",
        "2": f"the core file cannot be read, {_NO_PAGE}",
    },
)
def _add_core(parser: Parser) -> None:
    """Print the stacks of all threads of a process that left a core file: native, Python and Lua frames in
    their order.  Its files are used where they were, if their build-ids are those of the core.
    """
    parser.add_argument("--exe", metavar="FILE", help="the program, if it is not where it was")
    parser.add_argument(
        "--root", metavar="DIR", help="where the files of the machine that the core is from are here"
    )
    _symbols(parser, "separate debug files")
    _stack_options(parser)
    _form(parser, "them", "print them as JSON, schema stacksplice-dump/1")
    parser.add_argument("core", help="the core file")


@_Command(
    ".dump.process:dump",
    "print the stacks of all threads of running processes",
    {
        "0": f"the stacks {_PRINTED}",
        "2": f"a process cannot be inspected (the others are shown), {_NO_PAGE}",
        "130": "Ctrl-C, also where it ended --repeat SECONDS, whose samples are written",
    },
)
def _add_dump(parser: Parser) -> None:
    """Print the stacks of all threads of a running process: native, Python and Lua frames in their order.
    The process needs no stacksplice in it.  It is paused only while its registers, stacks and frames are
    read; how long is printed.  Several processes are shown one after the other.
    """
    usage = "stacksplice dump [option ...] {}".format
    parser.usage = "\n       ".join(map(usage, ("PID [PID ...]", "--repeat [SECONDS] PID")))
    _stack_options(parser, ", and lines of the C library")
    form = _form(parser, "them", "print them as JSON, schema stacksplice-dump/1, a line for each process")
    form.add_argument(
        "--repeat",
        nargs="?",
        const=float("inf"),
        type=number("a number of seconds", float),
        metavar="SECONDS",
        help="sample for SECONDS, or until Ctrl-C, and write where the threads were",
    )
    parser.add_argument(
        "--format",
        choices=("flame", "collapsed", "speedscope", "firefox"),
        help="with --repeat: a page with a flame graph (default), lines of collapsed stacks, or JSON for "
        "speedscope.app or profiler.firefox.com; the name of the output says it, too: .html, .txt, "
        ".speedscope.json, .json",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="with --repeat: write to the file OUT")
    parser.add_argument(
        "processes", type=number("the number of a process"), nargs="*", metavar="PID", help="process number"
    )


@_Command(
    ".saved.symbolize:symbolize",
    "add names, files and lines of C functions to saved reports",
    {
        "0": "all reports were written, with the symbols that were found",
        "2": f"{_UNREADABLE.format('written')}, a folder of --symbols or libdw is missing",
    },
)
def _add_symbolize(parser: Parser) -> None:
    """Add function names, files and line numbers to the native frames of saved reports, on this machine or
    another one than the errors were on.  Symbols come from the folders given, the binaries where the
    reports say they are, the system's debug files, and debuginfod's servers if DEBUGINFOD_URLS names some.
    Only files with the build-id of the report are used.  Reports go to standard output; whatever is not
    found is reported on standard error.
    """
    _symbols(parser, "binaries or separate debug files")
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the lines of source that the reports have"
    )
    parser.add_argument("--text", action="store_true", help="print the reports as text, as show does")
    _reports(parser)
    parser.set_defaults(newest_first=False, all_frames=False, color="auto", json=False)


@_Command(
    ".top.command:top",
    "group many saved reports, the most frequent first",
    {
        "0": "all reports were counted",
        "1": "some lines contained no report and were skipped",
        "2": f"a file is unreadable (the others are counted), {_NO_PAGE}",
    },
)
def _add_top(parser: Parser) -> None:
    """Group saved reports by fingerprint and show the most frequent groups: how many reports, what the error
    is, where the first and the last report stand, and when they were made if the lines around them say so.
    Reads JSON Lines of any size, also logs of stacksplice.logging.JsonFormatter, and whole JSON files.
    """
    parser.add_argument(
        "--loose",
        action="store_true",
        help="group by the loose fingerprint, which holds when native binaries are built anew",
    )
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="count apart what differs in FIELD, which stands beside the report, such as host or release; "
        "can be repeated",
    )
    parser.add_argument(
        "--limit",
        type=number("a number from 1 up"),
        default=10,
        metavar="N",
        help="show at most N groups (default: 10)",
    )
    _form(
        parser,
        "the groups",
        "print each group as one line of JSON; its first report, as the example, is under error",
    )
    _reports(parser)


@_Command(
    ".doctor.findings:command",
    "say what is installed, what is missing and what to do about it",
    {"0": "nothing is missing", "1": "something is missing"},
)
def _add_doctor(parser: Parser) -> None:
    """Say what is installed, whether the frames of C, Python and Lua can be read, and what to do about each
    thing that is missing.
    """
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, for bug reports")


@_Command(
    ".command_line:version",
    "print the versions of package, core and Python, and the build",
    {"0": "always"},
)
def _add_version(parser: Parser) -> None:
    """Print the versions of the package, the core and Python, and how the core was built: for the report of
    a bug.
    """


def version(options: argparse.Namespace) -> int:
    """Print the versions; the exit status."""
    core = loaded_core()
    write(
        f"stacksplice {__version__}\n"
        + (f"core {core[1]}, {core[0]}\n" if core else "core: built into the program\n")
        + f"built with {_stacksplice._BUILD}\n"
        + f"Python {sys.version.split()[0]}, {sys.executable}\n"
    )
    return 0


# ---- The command line ----------------------------------------------------------------------------


def _parse_no_command(arguments: Sequence[str]) -> argparse.Namespace:
    """Run a program so that uncaught errors are shown with the frames of all languages; read saved reports,
    running processes and core files."""
    more = f"More on one: {_PROGRAM} COMMAND --help"
    parser = Parser(prog=_PROGRAM, description=_parse_no_command.__doc__, epilog=more)
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(metavar="command", title="commands")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    if arguments and not arguments[0].startswith("-"):
        others = meant(arguments[0], COMMANDS) or f"; {_PROGRAM} --help lists all"
        parser.error(f"there is no command {arguments[0]}{others}")
    if parser.parse(arguments).version:
        return COMMANDS["version"].parser().parse([])
    parser.print_help(sys.stderr)
    sys.exit(2)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    with reader_may_leave():  # that of --help
        if arguments and arguments[0] in COMMANDS:
            return COMMANDS[arguments[0]].parser().parse(arguments[1:])
        return _parse_no_command(arguments)
    sys.exit(0)


def perform(arguments: Sequence[str]) -> int:
    """Do what ARGUMENTS say; the exit status."""
    options = _parse(arguments)
    if options.command == "run":  # whose output is the program's own
        return _perform(options)
    status = 0
    with reader_may_leave():
        status = _perform(options)
    return status
