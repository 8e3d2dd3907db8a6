#!/usr/bin/env python3
"""Manual pages, and completions for bash, zsh and fish, of the commands of stacksplice.

    pages.py FOLDER PACKAGES

PACKAGES is the folder that has the package stacksplice, built for the Python that runs this, and in it
stacksplice-inspect.  Into FOLDER, as below share: man/man1, bash-completion/completions, zsh/site-functions
and fish/vendor_completions.d.  argparse-manpage and shtab write them.  With SOURCE_DATE_EPOCH the pages have
that date; nothing else depends on where and when.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

# What completes a value, by the word that stands for it.
PROCESSES = {
    **shtab.cmd("cd /proc && echo [0-9]*"),
    "zsh": "_pids",
    "fish": "(__fish_complete_pids)",
}
COMPLETED = {
    **dict.fromkeys(("FILE", "OUT", "report", "core", "script"), shtab.FILE),
    **dict.fromkeys(("PID", "PROCESS"), PROCESSES),
    "DIR": shtab.DIRECTORY,
}
PLACES = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}


def inspect_parser(help_text: str) -> argparse.ArgumentParser:
    """Of a program in C: what it prints for --help, read back."""
    usage, description, options, ends = help_text.strip("\n").split("\n\n")
    parser = argparse.ArgumentParser(
        "stacksplice-inspect", usage.removeprefix("usage: "), description, add_help=False
    )
    option = re.compile(r"^  (-[a-z, -]*[a-z])(?: ([A-Z]+))?  +(.*)", re.MULTILINE)
    for names, value, meaning in option.findall(options):
        kind = {"metavar": value} if value else {"action": "store_true"}
        parser.add_argument(*names.split(", "), help=meaning, **kind)
    parser.statuses = re.findall(r"^  (\d+) +(.*)", ends, re.MULTILINE)
    return parser


def python_parser() -> argparse.ArgumentParser:
    """All commands below one parser; the program itself makes that of the one command it is asked for."""
    from stacksplice._tools import command_line

    parser = argparse.ArgumentParser("stacksplice", description=command_line._parse_no_command.__doc__)
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(metavar="command", title="commands")
    for name, command in command_line.COMMANDS.items():
        own = command.parser()
        # What a shell shows of a command is a line.
        same = {"usage": own.usage, "description": command.summary, "help": command.summary}
        below = commands.add_parser(name, parents=[own], add_help=False, **same)
        below.statuses, below.whole = own.statuses, own.description
    return parser


def parsers_below(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    lists = [each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return [parser, *(below for listed in lists for below in listed.values())]


def completions(parser: argparse.ArgumentParser) -> dict[str, str]:
    for action in (action for each in parsers_below(parser) for action in each._actions):
        complete = COMPLETED.get(action.metavar or action.dest)
        if complete:
            action.complete = complete
    return {place.format(parser.prog): shtab.complete(parser, shell) for shell, place in PLACES.items()}


def manual(parser: argparse.ArgumentParser, version: str, others: list[str]) -> str:
    for each in parsers_below(parser):
        # Rows of a list, which is what argparse-manpage prints of arguments.
        each.usage = each.format_usage().removeprefix("usage: ").strip().replace("%", "%%")
        each.description = " ".join(getattr(each, "whole", each.description).split())
        ends = each.add_argument_group("exit status" if each is parser else "exit status:")
        for status, meaning in getattr(each, "statuses", ()):
            ends.add_argument(f"status {status}", metavar=status, help=meaning)
    summary = re.split("[;.:] ", parser.description)[0]
    about = {
        "project_name": parser.prog,
        "version": version,
        "manual_title": "stacksplice",
        "description": summary[0].lower() + summary[1:],
    }
    page = Manpage(parser, about, format="single-commands-section")
    page.add_section("synopsis", "=", f".nf\n{page.mf.format_text(parser.usage)}\n.fi")
    also = (rf"\fB{page.mf.format_text(other)}\fR(1)" for other in others)
    page.add_section("see also", "=", ", ".join(also))
    return str(page)


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        sys.exit(__doc__)
    folder, packages = map(Path, arguments)
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    sys.path.insert(0, str(packages))
    import stacksplice

    inspect = packages / "stacksplice" / "stacksplice-inspect"
    parsers = [python_parser(), inspect_parser(subprocess.check_output([inspect, "--help"], text=True))]
    for parser in parsers:
        others = [other.prog for other in parsers if other is not parser]
        files = completions(parser)
        files[f"man/man1/{parser.prog}.1"] = manual(parser, stacksplice.__version__, others)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
