"""lldb's command `stacksplice`: `command script import` this file."""

import os
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import stacksplice_lldb_target as target  # noqa: E402
from stacksplice_files import Files  # noqa: E402
from stacksplice_plain import plain  # noqa: E402
from stacksplice_served import Refused, errors_of, frames_of, options_of, text_of  # noqa: E402

HELP = """Stacks of all languages of the process: native, Python and Lua frames in their order.

Syntax: stacksplice bt [all] [-all-frames] [-locals] [-no-source]
        stacksplice errors
        stacksplice frame TOKEN

bt prints the combined stack of the selected thread, the newest frame last.

  all          the stacks of all threads
  -all-frames  also the frames inside of interpreters, which are otherwise counted only
  -locals      also the local variables of scripts
  -no-source   no lines of source: nothing is read from files of scripts

errors prints the errors that threads have now, and the one with which the process ended itself.
frame prints what an element of a captured stack stands for; TOKEN is a number, or an expression."""


def backtrace(words, process):
    """The text of `stacksplice bt`."""
    options = options_of(words, ("all", "-all-frames", "-locals", "-no-source"))
    document = target.stacks(process, "all" in options, "-locals" in options)
    with Files() if "-no-source" in options else target.files(process) as files:
        return text_of(document, "-all-frames" in options, files)


def errors(words, process):
    """The text of `stacksplice errors`."""
    options_of(words, ())
    return errors_of(target.errors(process))


def frame(words, process):
    """The text of `stacksplice frame`."""
    if not words:
        raise Refused("an element of a stack is missing: stacksplice frame TOKEN")
    return frames_of(target.frames(process, " ".join(words)))


class Command:
    """The command `stacksplice`."""

    commands = {"bt": backtrace, "errors": errors, "frame": frame}

    def __init__(self, debugger, session):
        pass

    def __call__(self, debugger, argument, context, result):
        words = shlex.split(argument)
        run = self.commands.get(words[0] if words else "")
        try:
            if run is None:
                raise Refused("a command is missing, one of: " + ", ".join(self.commands))
            result.AppendMessage(run(words[1:], context.process).rstrip("\n"))
        except Refused as exc:
            result.SetError("stacksplice: " + plain(str(exc)))

    def get_short_help(self):
        """In the list of commands."""
        return HELP.partition("\n")[0]

    def get_long_help(self):
        """Of `help stacksplice`."""
        return HELP


def __lldb_init_module(debugger, session):
    debugger.HandleCommand("command script add -c {}.Command stacksplice".format(__name__))
