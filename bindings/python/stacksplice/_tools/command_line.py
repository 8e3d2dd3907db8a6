"""The commands of ``stacksplice``: what each understands, and where it is done."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module

from .. import __version__, _stacksplice
from .._base.arguments import Parser
from .._base.loading import loaded_core
from .._base.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._base.arguments import Commands

# What adds each command to those of the command line.
COMMANDS: dict[str, Callable[[Commands], None]] = {}


def _perform(place: str, options: argparse.Namespace) -> int:
    module, _, name = place.partition(":")
    status: int = getattr(import_module(module, __package__), name)(options)
    return status


def _command(
    name: str, place: str, summary: str, statuses: dict[str, str]
) -> Callable[[Callable[[Parser], None]], None]:
    """Before a function that adds the arguments of the command NAME, and whose text is what help says of it.

    The function at PLACE performs it; SUMMARY is in the list of commands, STATUSES are how it ends besides
    for a wrong command line.
    """
    wrong = "the command line is wrong"
    ends = {**statuses, "2": f"{statuses['2']}, or {wrong}" if "2" in statuses else wrong}

    def register(add: Callable[[Parser], None]) -> None:
        def add_to(commands: Commands) -> None:
            about = "\n".join([line.strip() for line in (add.__doc__ or "").split("\n")])
            parser: Parser = commands.add_parser(name, help=summary, description=about)
            parser.statuses = ends.items()
            parser.set_defaults(run=partial(_perform, place))
            add(parser)

        COMMANDS[name] = add_to

    return register


# ---- Arguments of several commands ---------------------------------------------------------------


def _all_frames(parser: Parser) -> None:
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")


def _stack_options(parser: Parser) -> None:
    parser.add_argument("--locals", action="store_true", help="also show local variables of script frames")
    _all_frames(parser)
    parser.add_argument(
        "--no-source", action="store_true", help="no lines of source: read no files of scripts"
    )


def _reports(parser: Parser) -> None:
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="files of JSON reports, or - for standard input"
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


# argparse says of a wrong one: invalid NAME OF THE FUNCTION value
def number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


# ---- The commands --------------------------------------------------------------------------------


@_command(
    "run",
    ".._hooks.program:run",
    "run a script, module or text with install()",
    {
        "2": "there is no such script, no Lua that can run it",
        "other": "that of python, or of the Lua",
    },
)
def _add_run(parser: Parser) -> None:
    """\
    Run a script, a module or a text as Python does, with install(): an uncaught
    error that crossed a border is shown with the frames of all languages.  Python
    starts anew with its own options.  A script whose name ends in .lua is run by
    a Lua that finds the module stacksplice.
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


@_command(
    "show",
    ".saved.show:show",
    "print saved JSON reports as text, or make a page of them",
    {
        "0": "all reports were printed, or are on the page",
        "2": "a file cannot be read or holds something else (the others are shown), the page cannot be made "
        "or written",
    },
)
def _add_show(parser: Parser) -> None:
    """\
    Print saved reports as text, or make an HTML page of them.  A file holds one
    report, a list of them, or one on each line, as logs of
    stacksplice.logging.JsonFormatter do; their lines without a report are passed
    over.  What an object around a report says stands above the report.
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


@_command(
    "core",
    ".dump.process:core",
    "print the stacks of all threads in a core file",
    {
        "0": "the stacks were printed, or are on the page",
        "2": "the core file cannot be read, the page cannot be made or written",
    },
)
def _add_core(parser: Parser) -> None:
    """\
    Print the stacks of all threads of a process that left a core file: native,
    Python and Lua frames in their order.  Its files are used where they were, if
    their build-ids are those of the core.
    """
    parser.add_argument("--exe", metavar="FILE", help="the program, if it is not where it was")
    parser.add_argument(
        "--root", metavar="DIR", help="where the files of the machine that the core is from are here"
    )
    _symbols(parser, "separate debug files")
    _stack_options(parser)
    _form(parser, "them", "print them as JSON, schema stacksplice-dump/1")
    parser.add_argument("core", help="the core file")


@_command(
    "dump",
    ".dump.process:dump",
    "print the stacks of all threads of running processes",
    {
        "0": "the stacks were printed, or are on the page",
        "2": "a process cannot be inspected (the others are shown), the page cannot be made or written",
    },
)
def _add_dump(parser: Parser) -> None:
    """\
    Print the stacks of all threads of a running process: native, Python and Lua
    frames in their order.  The process needs no stacksplice in it.  It is stopped
    only while its registers, stacks and frames are read; how long is printed.
    Several processes are shown one after the other.
    """
    _stack_options(parser)
    form = _form(parser, "them", "print them as JSON, schema stacksplice-dump/1, a line for each process")
    form.add_argument(
        "--repeat",
        type=seconds,
        metavar="SECONDS",
        help="look again and again, and print a flame graph of all threads (SVG)",
    )
    parser.add_argument("processes", type=number, nargs="+", metavar="PID", help="the number of a process")


@_command(
    "symbolize",
    ".saved.symbolize:symbolize",
    "give native frames of saved reports files and lines",
    {
        "0": "all reports were written, with the symbols that were found",
        "2": "a file cannot be read or holds something else (the others are written), a folder of --symbols "
        "or libdw is missing",
    },
)
def _add_symbolize(parser: Parser) -> None:
    """\
    Give the native frames of saved reports their functions, files and lines, on
    this machine or another one than the errors were on.  Symbols come from the
    folders given, the binaries where the reports say they are, the system's debug
    files, and debuginfod's servers if DEBUGINFOD_URLS names some.  Only files with
    the build-id of the report are used.  Reports go to standard output; what could
    not be found is said on standard error.
    """
    _symbols(parser, "binaries or separate debug files")
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the lines of source that the reports have"
    )
    parser.add_argument("--text", action="store_true", help="print the reports as text, as show does")
    _reports(parser)
    parser.set_defaults(newest_first=False, all_frames=False, color="auto", json=False)


@_command(
    "top",
    ".top.command:top",
    "group many saved reports, the most frequent first",
    {
        "0": "all reports were counted",
        "1": "lines were passed over that hold no report",
        "2": "a file cannot be read (the others are counted), the page cannot be made or written",
    },
)
def _add_top(parser: Parser) -> None:
    """\
    Group saved reports by fingerprint and show the most frequent groups: how many
    reports, what the error is, where the first and the last report stand, and when
    they were made if the lines around them say so.  Reads JSON Lines of any size,
    also logs of stacksplice.logging.JsonFormatter, and whole JSON files.
    """
    parser.add_argument(
        "--loose",
        action="store_true",
        help="group by the loose fingerprint, which holds when native binaries are built anew",
    )
    parser.add_argument(
        "--limit", type=number, default=10, metavar="N", help="show at most N groups (default: 10)"
    )
    _form(
        parser,
        "the groups",
        "print each group as one line of JSON; its first report, as the example, is under error",
    )
    _reports(parser)


@_command(
    "doctor",
    ".doctor.findings:command",
    "say what is installed, what is missing and what to do about it",
    {"0": "nothing is missing", "1": "something is missing"},
)
def _add_doctor(parser: Parser) -> None:
    """\
    Say what is installed, whether the frames of C, Python and Lua can be read, and
    what to do about each thing that is missing.
    """


@_command(
    "version",
    ".command_line:version",
    "print the versions of package, core and Python, and the build",
    {"0": "always"},
)
def _add_version(parser: Parser) -> None:
    """\
    Print the versions of the package, the core and Python, and how the core was
    built: for the report of a bug.
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
