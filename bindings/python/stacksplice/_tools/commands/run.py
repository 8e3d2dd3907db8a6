"""``python -m stacksplice run``: a program, with reports of its uncaught errors."""

from __future__ import annotations

import argparse

from ..._base.arguments import add_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._base.arguments import Commands

_ABOUT = """\
Run a script, a module or a text as Python does, with install(): an uncaught
error that crossed a border is shown with the frames of all languages.  Python
starts anew with its own options.  A script whose name ends in .lua is run by
a Lua that finds the module stacksplice.
"""
_USAGE = """\
python -m stacksplice run [-h] [--crash] [--locals] script.py|script.lua [argument ...]
       python -m stacksplice run [-h] [--crash] [--locals] -m module [argument ...]
       python -m stacksplice run [-h] [--crash] [--locals] -c text [argument ...]"""
_STATUSES = {
    "2": "there is no such script, no Lua that can run it, or the command line is wrong",
    "other": "that of python, or of the Lua",
}


def add(commands: Commands) -> None:
    """Add the command to those of the command line."""
    parser = add_command(
        commands,
        "run",
        run,
        summary="run a script, module or text with install()",
        about=_ABOUT,
        statuses=_STATUSES,
    )
    parser.usage = _USAGE
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


def run(options: argparse.Namespace) -> int:
    """Run the program; the exit status."""
    from ..._hooks.program import run as run_program

    return run_program(options)
