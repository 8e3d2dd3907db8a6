"""The commands of ``python -m stacksplice``: what each understands, and where it is done."""

from __future__ import annotations

import argparse
import sys

from .. import __version__, _stacksplice
from .._base.arguments import add_command
from .._base.loading import loaded_core
from .._base.output import fail, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._base.arguments import Commands, Parser


def _add_stack_options(parser: Parser) -> None:
    parser.add_argument("--locals", action="store_true", help="also show local variables of script frames")
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    parser.add_argument(
        "--no-source", action="store_true", help="no lines of source: read no files of scripts"
    )


def _add_reports(parser: Parser) -> None:
    parser.add_argument(
        "reports", nargs="+", metavar="report", help="files of JSON reports, or - for standard input"
    )


def _add_page(form: argparse._MutuallyExclusiveGroup, what: str) -> None:
    form.add_argument(
        "--html", metavar="OUT", help=f"write {what} to the file OUT as one HTML page (- for standard output)"
    )


# ---- run -----------------------------------------------------------------------------------------

_RUN_ABOUT = """\
Run a script, a module or a text as Python does, with install(): an uncaught
error that crossed a border is shown with the frames of all languages.  Python
starts anew with its own options.  A script whose name ends in .lua is run by
a Lua that finds the module stacksplice.
"""
_RUN_USAGE = """\
python -m stacksplice run [-h] [--crash] [--locals] script.py|script.lua [argument ...]
       python -m stacksplice run [-h] [--crash] [--locals] -m module [argument ...]
       python -m stacksplice run [-h] [--crash] [--locals] -c text [argument ...]"""
_RUN_STATUSES = {
    "2": "there is no such script, no Lua that can run it, or the command line is wrong",
    "other": "that of python, or of the Lua",
}


def _add_run(commands: Commands) -> None:
    parser = add_command(
        commands,
        "run",
        _run_run,
        summary="run a script, module or text with install()",
        about=_RUN_ABOUT,
        statuses=_RUN_STATUSES,
    )
    parser.usage = _RUN_USAGE
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


def _run_run(options: argparse.Namespace) -> int:
    from .._hooks.program import run as run_program

    return run_program(options)


# ---- show ----------------------------------------------------------------------------------------

_SHOW_ABOUT = """\
Print saved reports as text, or make an HTML page of them.  A file holds one
report, a list of them, or one on each line, as logs of
stacksplice.logging.JsonFormatter do; their lines without a report are passed
over.  What an object around a report says stands above the report.
"""
_SHOW_STATUSES = {
    "0": "all reports were printed, or are on the page",
    "2": "a file cannot be read or holds something else (the others are shown), the page cannot be made or "
    "written, or the command line is wrong",
}


def _add_show(commands: Commands) -> None:
    parser = add_command(
        commands,
        "show",
        _run_show,
        summary="print saved JSON reports as text, or make a page of them",
        about=_SHOW_ABOUT,
        statuses=_SHOW_STATUSES,
    )
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--newest-first", action="store_true", help="the innermost frame first, as Lua does")
    order.add_argument(
        "--oldest-first",
        dest="newest_first",
        action="store_false",
        help="the innermost frame last, as Python does (default)",
    )
    parser.add_argument("--all-frames", action="store_true", help="also show frames inside of interpreters")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): on a terminal, as NO_COLOR, FORCE_COLOR and PYTHON_COLORS allow",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the reports as JSON, one on each line")
    _add_page(form, "them")
    _add_reports(parser)


def _run_show(options: argparse.Namespace) -> int:
    from .saved.show import show

    return show(options)


# ---- core ----------------------------------------------------------------------------------------

_CORE_ABOUT = """\
Print the stacks of all threads of a process that left a core file: native,
Python and Lua frames in their order.  Its files are used where they were, if
their build-ids are those of the core.
"""
_CORE_STATUSES = {
    "0": "the stacks were printed, or are on the page",
    "2": "the core file cannot be read, the page cannot be made or written, or the command line is wrong",
}


def _add_core(commands: Commands) -> None:
    parser = add_command(
        commands,
        "core",
        _run_core,
        summary="print the stacks of all threads in a core file",
        about=_CORE_ABOUT,
        statuses=_CORE_STATUSES,
    )
    parser.add_argument("--exe", metavar="FILE", help="the program, if it is not where it was")
    parser.add_argument(
        "--root", metavar="DIR", help="where the files of the machine that the core is from are here"
    )
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with separate debug files, by build-id or by name; can be repeated",
    )
    _add_stack_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print them as JSON, schema stacksplice-dump/1")
    _add_page(form, "them")
    parser.add_argument("core", help="the core file")


def _run_core(options: argparse.Namespace) -> int:
    from .dump.process import core

    return core(options)


# ---- dump ----------------------------------------------------------------------------------------

_DUMP_ABOUT = """\
Print the stacks of all threads of a running process: native, Python and Lua
frames in their order.  The process needs no stacksplice in it.  It is stopped
only while its registers, stacks and frames are read; how long is printed.
Several processes are shown one after the other.
"""
_DUMP_STATUSES = {
    "0": "the stacks were printed, or are on the page",
    "2": "a process cannot be inspected (the others are shown), the page cannot be made or written, or the "
    "command line is wrong",
}


def _process(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_process.__name__ = "process"  # argparse says: invalid process value


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


_seconds.__name__ = "number of seconds"


def _add_dump(commands: Commands) -> None:
    parser = add_command(
        commands,
        "dump",
        _run_dump,
        summary="print the stacks of all threads of running processes",
        about=_DUMP_ABOUT,
        statuses=_DUMP_STATUSES,
    )
    _add_stack_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json",
        action="store_true",
        help="print them as JSON, schema stacksplice-dump/1, a line for each process",
    )
    _add_page(form, "them")
    form.add_argument(
        "--repeat",
        type=_seconds,
        metavar="SECONDS",
        help="look again and again, and print a flame graph of all threads (SVG)",
    )
    parser.add_argument("processes", type=_process, nargs="+", metavar="PID", help="the number of a process")


def _run_dump(options: argparse.Namespace) -> int:
    if len(options.processes) > 1 and (options.repeat or options.html is not None):
        return fail("--repeat and --html show one process: name one PID")
    if options.repeat and options.locals:
        return fail("a flame graph has no local variables: leave out --repeat or --locals")
    if options.repeat:
        from .dump.flames import record

        return record(options)
    from .dump.process import dump

    return dump(options)


# ---- symbolize -----------------------------------------------------------------------------------

_SYMBOLIZE_ABOUT = """\
Give the native frames of saved reports their functions, files and lines, on
this machine or another one than the errors were on.  Symbols come from the
folders given, the binaries where the reports say they are, the system's debug
files, and debuginfod's servers if DEBUGINFOD_URLS names some.  Only files with
the build-id of the report are used.  Reports go to standard output; what could
not be found is said on standard error.
"""
_SYMBOLIZE_STATUSES = {
    "0": "all reports were written, with the symbols that were found",
    "2": "a file cannot be read or holds something else (the others are written), a folder of --symbols or "
    "libdw is missing, or the command line is wrong",
}


def _add_symbolize(commands: Commands) -> None:
    parser = add_command(
        commands,
        "symbolize",
        _run_symbolize,
        summary="give native frames of saved reports files and lines",
        about=_SYMBOLIZE_ABOUT,
        statuses=_SYMBOLIZE_STATUSES,
    )
    parser.add_argument(
        "--symbols",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with binaries or separate debug files, by build-id or by name; can be repeated",
    )
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the lines of source that the reports have"
    )
    parser.add_argument("--text", action="store_true", help="print the reports as text, as show does")
    _add_reports(parser)
    parser.set_defaults(newest_first=False, all_frames=False, color="auto", json=False)


def _run_symbolize(options: argparse.Namespace) -> int:
    from .saved.symbolize import symbolize

    return symbolize(options)


# ---- top -----------------------------------------------------------------------------------------

_TOP_ABOUT = """\
Group saved reports by fingerprint and show the most frequent groups: how many
reports, what the error is, where the first and the last report stand, and when
they were made if the lines around them say so.  Reads JSON Lines of any size,
also logs of stacksplice.logging.JsonFormatter, and whole JSON files.
"""
_TOP_STATUSES = {
    "0": "all reports were counted",
    "1": "lines were passed over that hold no report",
    "2": "a file cannot be read (the others are counted), the page cannot be made or written, or the command "
    "line is wrong",
}


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_count.__name__ = "number"  # argparse says: invalid number value


def _add_top(commands: Commands) -> None:
    parser = add_command(
        commands,
        "top",
        _run_top,
        summary="group many saved reports, the most frequent first",
        about=_TOP_ABOUT,
        statuses=_TOP_STATUSES,
    )
    parser.add_argument(
        "--loose",
        action="store_true",
        help="group by the loose fingerprint, which holds when native binaries are built anew",
    )
    parser.add_argument(
        "--limit", type=_count, default=10, metavar="N", help="show at most N groups (default: 10)"
    )
    form = parser.add_mutually_exclusive_group()
    _add_page(form, "the groups")
    form.add_argument(
        "--json",
        action="store_true",
        help="print each group as one line of JSON; its first report, as the example, is under error",
    )
    _add_reports(parser)


def _run_top(options: argparse.Namespace) -> int:
    from .top.command import top

    return top(options)


# ---- doctor --------------------------------------------------------------------------------------

_DOCTOR_ABOUT = """\
Say what is installed, whether the frames of C, Python and Lua can be read, and
what to do about each thing that is missing.
"""


def _add_doctor(commands: Commands) -> None:
    add_command(
        commands,
        "doctor",
        _run_doctor,
        summary="say what is installed, what is missing and what to do about it",
        about=_DOCTOR_ABOUT,
        statuses={"0": "nothing is missing", "1": "something is missing", "2": "the command line is wrong"},
    )


def _run_doctor(options: argparse.Namespace) -> int:
    from .doctor.findings import examine

    text, is_fine = examine()
    write(text)
    return 0 if is_fine else 1


# ---- version -------------------------------------------------------------------------------------

_VERSION_ABOUT = """\
Print the versions of the package, the core and Python, and how the core was
built: for the report of a bug.
"""


def _add_version(commands: Commands) -> None:
    add_command(
        commands,
        "version",
        run_version,
        summary="print the versions of package, core and Python, and the build",
        about=_VERSION_ABOUT,
        statuses={"0": "always", "2": "the command line is wrong"},
    )


def run_version(options: argparse.Namespace) -> int:
    """Print the versions; the exit status."""
    core = loaded_core()
    write(
        f"stacksplice {__version__}\n"
        + (f"core {core[1]}, {core[0]}\n" if core else "core: built into the program\n")
        + f"built with {_stacksplice._build()}\n"
        + f"Python {sys.version.split()[0]}, {sys.executable}\n"
    )
    return 0


# What adds each command to those of the command line.
COMMANDS = {
    "run": _add_run,
    "show": _add_show,
    "core": _add_core,
    "dump": _add_dump,
    "symbolize": _add_symbolize,
    "top": _add_top,
    "doctor": _add_doctor,
    "version": _add_version,
}
