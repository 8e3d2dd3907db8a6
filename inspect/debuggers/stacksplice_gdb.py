"""gdb's commands `stacksplice ...`, and the frames of scripts in its own `bt`.

Loaded by gdb itself beside libstacksplice, or by `source` of this file.
"""

import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stacksplice_gdb_frames  # noqa: E402
import stacksplice_gdb_target as target  # noqa: E402
from stacksplice_plain import plain  # noqa: E402
from stacksplice_served import Refused, backtrace, errors_of, frames_of, options_of  # noqa: E402


class Prefix(gdb.Command):
    """Stacks of all languages of the process: native, Python and Lua frames in their order."""

    def __init__(self):
        super().__init__("stacksplice", gdb.COMMAND_STACK, prefix=True)

    def invoke(self, argument, from_tty):
        """Called by gdb for what is none of the commands."""
        if argument:
            raise gdb.GdbError('stacksplice: no command "{}"; see help stacksplice'.format(argument))
        gdb.execute("help stacksplice", from_tty)


def command(run):
    """Make the command `stacksplice NAME` of RUN, which gives the text for an argument or raises Refused; gdb
    shows what is said of RUN as help."""

    class Command(gdb.Command):
        __doc__ = run.__doc__

        def __init__(self):
            super().__init__("stacksplice " + run.__name__, gdb.COMMAND_STACK)

        def invoke(self, argument, from_tty):
            """Called by gdb."""
            try:
                text = run(argument)
            except (Refused, gdb.error, OverflowError) as exc:
                raise gdb.GdbError("stacksplice: " + plain(str(exc))) from None
            gdb.write(text)

    Command()


Prefix()


@command
def bt(argument):
    """Print the combined stack of the selected thread, the newest frame last.
    Usage: stacksplice bt [all] [-all-frames] [-locals] [-no-source]

      all          the stacks of all threads
      -all-frames  also the frames inside of interpreters, which are otherwise counted only
      -locals      also the local variables of scripts
      -no-source   no lines of source: nothing is read from files of scripts"""
    return backtrace(gdb.string_to_argv(argument), target.stacks, target.files)


@command
def errors(argument):
    """Print the errors that threads have now, and the one with which the process ended itself.
    Usage: stacksplice errors

    Each with its combined stack, the languages that received it, its causes and members."""
    options_of(gdb.string_to_argv(argument), ())
    return errors_of(target.errors())


@command
def frame(argument):
    """Print what an element of a captured stack stands for.
    Usage: stacksplice frame TOKEN

    TOKEN is an expression: a number, or a variable of the program."""
    if not argument:
        raise Refused("an element of a stack is missing: stacksplice frame TOKEN")
    return frames_of(target.frames(int(gdb.parse_and_eval(argument)) & (1 << 64) - 1))


stacksplice_gdb_frames.install()
