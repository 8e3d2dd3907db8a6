#!/usr/bin/env python3
"""Manual pages, and completions for bash, zsh and fish, of the commands of stacksplice.

    pages.py FOLDER PACKAGES

PACKAGES is the folder that has the package stacksplice, of the Python that runs this, and in it
stacksplice-inspect, if it was built.  All is made from what the commands print for --help, and so from
the parsers that they are.  Into FOLDER, as below share: man/man1, bash-completion/completions,
zsh/site-functions and fish/vendor_completions.d.  With SOURCE_DATE_EPOCH the pages have that date, else
none; nothing else depends on where and when.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

# What a word in the place of a value stands for; whoever has none of these completes nothing.
FILES = {"FILE", "OUT", "report", "core", "script"}
FOLDERS = {"DIR"}
PROCESSES = {"PID", "PROCESS"}
COMMANDS = "commands"
LIST_PROCESSES = "cd /proc && echo [0-9]*"


# ---- What a program says of itself ---------------------------------------------------------------


@dataclass
class Row:
    """A line of a list of arguments, options, commands or exit statuses, and what it means."""

    term: str
    meaning: str = ""

    def names(self) -> list[str]:
        return re.findall(r"(?<!\S)--?[a-z][a-z-]*", self.term)

    def value(self) -> str:
        """The word for the option's value, with its brackets if it can be left out."""
        words = self.term.split(", ")[-1].split(" ", 1)
        return words[1] if len(words) > 1 else ""

    def kind(self) -> str:
        """What completes the value of an option, or a positional argument."""
        word = (self.value() if self.term.startswith("-") else self.term).strip("[]")
        if word.startswith("{"):
            return "choices"
        kinds = {"files": FILES, "folders": FOLDERS, "processes": PROCESSES}
        return next((kind for kind, words in kinds.items() if word in words), "word" if word else "")

    def choices(self) -> list[str]:
        return self.value().strip("[]{}").split(",")


@dataclass
class Command:
    name: str  # with that of the program: "stacksplice dump"
    summary: str = ""
    usage: list[str] = field(default_factory=list)
    description: str = ""
    lists: dict[str, list[Row]] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)

    def options(self) -> list[Row]:
        return self.lists.get("options", [])

    def positional(self) -> str:
        """The kind of the positional arguments, of which each command has at most one."""
        return next((row.kind() for row in self.lists.get("positional arguments", [])), "")

    def word(self) -> str:
        return self.name.rpartition(" ")[2]


def output(command: list[str], *arguments: str) -> str:
    plain = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=plain)
    if done.returncode:
        sys.exit(f"{' '.join(command)} {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def rows(lines: list[str]) -> list[Row]:
    """Two spaces and a term; what it means follows behind two more spaces, or on lines further in.  Commands
    stand further in themselves, below one line that is no term."""
    found: list[Row] = []
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    if lines[0].strip() == "command":
        lines, indent = lines[1:], 4
    for line in lines:
        if line[indent] == " ":
            found[-1].meaning = f"{found[-1].meaning} {line.strip()}".lstrip()
            continue
        # An exit status has six columns.
        term, _, meaning = re.sub(r"^(\d+|other) +", r"\1  ", line.strip()).partition("  ")
        found.append(Row(term, meaning.strip()))
    return found


def read(name: str, program: list[str], summary: str = "") -> Command:
    """What --help says: paragraphs, of which those that begin with a title are lists."""
    command = Command(name, summary)
    for paragraph in output(program, "--help").strip("\n").split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("usage: "):
            command.usage = [line[len("usage: ") :] for line in lines]
        elif lines[0].endswith(":") and len(lines) > 1 and lines[1].startswith("  "):
            command.lists[lines[0][:-1]] = rows(lines[1:])
        elif not command.description:
            command.description = " ".join(lines)
    if not command.usage or not command.options():
        sys.exit(f"the help of {name} has no usage or no options")
    for row in command.lists.get(COMMANDS, []):
        command.commands.append(read(f"{name} {row.term}", [*program, row.term], row.meaning))
    return command


# ---- The manual page -----------------------------------------------------------------------------


def roff(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return re.sub(r"^\.", r"\\&.", escaped, flags=re.MULTILINE)


def described(command: Command) -> list[str]:
    """Paragraphs for all but the name, the usage and the commands."""
    lines = [roff(command.description)]
    for title, listed in command.lists.items():
        if title == COMMANDS:
            continue
        lines += [".PP", f"{title.capitalize()}:"]
        for row in listed:
            lines += [".TP", rf"\fB{roff(row.term)}\fR", roff(row.meaning)]
    return lines


def manual(command: Command, version: str, others: list[str]) -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    date = time.strftime("%Y-%m-%d", time.gmtime(int(epoch))) if epoch else ""
    summary = re.split(r"[;.:] ?", command.description)[0]
    lines = [
        f'.TH {roff(command.name.upper())} 1 "{date}" "{roff(version)}"',
        ".SH NAME",
        rf"{roff(command.name)} \- {roff(summary[0].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        ".nf",
        *map(roff, command.usage),
        ".fi",
        ".SH DESCRIPTION",
        *described(command),
    ]
    if command.commands:
        lines += [".SH COMMANDS"]
    for each in command.commands:
        lines += [f".SS {roff(each.word())}", ".nf", *map(roff, each.usage), ".fi", ".PP", *described(each)]
    if others:
        lines += [".SH SEE ALSO", ", ".join(rf"\fB{roff(other)}\fR(1)" for other in others)]
    return "\n".join(lines) + "\n"


# ---- bash ----------------------------------------------------------------------------------------


def bash_words(words: list[str]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word"))'


def bash_value(row: Row) -> str:
    """How a value is completed; of files readline knows more than a function here."""
    return {
        "choices": bash_words(row.choices()),
        "processes": bash_words([f"$({LIST_PROCESSES})"]),
        "folders": 'compopt -o filenames; COMPREPLY=($(compgen -d -- "$word"))',
        "files": "compopt -o default",
    }.get(row.kind(), ":")


def bash_command(command: Command, depth: int) -> list[str]:
    """Lines that complete WORD behind BEFORE, in a command whose own name is the word number DEPTH."""
    lines = ['case "$before" in']
    for row in command.options():
        if row.value() and not row.value().startswith("["):
            lines.append(f"{'|'.join(row.names())}) {bash_value(row)}; return ;;")
    lines += ["esac", 'case "$word" in']
    names = [name for row in command.options() for name in row.names()]
    lines += [f"-*) {bash_words(names)}; return ;;", "esac"]
    if command.commands:
        words = bash_words([each.word() for each in command.commands])
        lines += [f"((COMP_CWORD > {depth + 1})) || {words}"]
    elif command.positional():
        lines += [bash_value(Row({"files": "FILE", "processes": "PID"}[command.positional()]))]
    return lines


def bash(command: Command) -> str:
    function = "_" + re.sub(r"\W", "_", command.name)
    body: list[str] = []
    if command.commands:
        body += ['case "${COMP_WORDS[1]}" in']
        for each in command.commands:
            inside = ["    " + line for line in bash_command(each, 1)]
            body += [f"{each.word()})", *inside, "    return", "    ;;"]
        body += ["esac"]
    body += bash_command(command, 0)
    return "\n".join(
        [
            f"# Completion of {command.name} for bash.",
            f"{function}() {{",
            '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            "    COMPREPLY=()",
            *("    " + line for line in body),
            "}",
            f"complete -F {function} {command.name}",
            "",
        ]
    )


# ---- zsh -----------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_value(row: Row, word: str) -> str:
    action = {
        "choices": f"({' '.join(row.choices())})",
        "processes": "_pids",
        "folders": "_files -/",
        "files": "_files",
    }.get(row.kind(), "")
    return f":{word}:{action}"


def zsh_arguments(command: Command, indent: str) -> list[str]:
    specifications = []
    for row in command.options():
        names, value = row.names(), row.value()
        before = "*" if "can be repeated" in row.meaning else f"({' '.join(names)})" if names[1:] else ""
        optional = ":" if value.startswith("[") else ""
        behind = optional + zsh_value(row, value.strip("[]{}").partition(",")[0]) if value else ""
        specifications += [f"{before}{name}[{zsh_text(row.meaning)}]{behind}" for name in names]
    if command.positional():
        row = command.lists["positional arguments"][0]
        specifications.append(f"*{zsh_value(row, row.term)}")
    return [f" \\\n{indent}    ".join([f"{indent}_arguments -s", *map(quoted, specifications)])]


def zsh(command: Command) -> str:
    lines = [f"#compdef {command.name}", f"# Completion of {command.name} for zsh."]
    if not command.commands:
        return "\n".join([*lines, *zsh_arguments(command, ""), ""])
    lines += ["if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then", "    local -a commands=("]
    lines += [f"        {quoted(f'{each.word()}:{zsh_text(each.summary)}')}" for each in command.commands]
    lines += ["    )", "    _describe command commands", "    return", "fi", "case $words[2] in"]
    for each in command.commands:
        # What _arguments takes for the command is then the command's own name.
        shifted = "    shift words; (( CURRENT-- ))"
        lines += [f"{each.word()})", shifted, *zsh_arguments(each, "    "), "    ;;"]
    lines += ["*)", *zsh_arguments(command, "    "), "    ;;", "esac", ""]
    return "\n".join(lines)


# ---- fish ----------------------------------------------------------------------------------------


def fish_command(program: str, command: Command, condition: str) -> list[str]:
    start = f"complete -c {program} -n {quoted(condition)}"
    lines = []
    for row in command.options():
        words = [start]
        for name in row.names():
            long = name.startswith("--")
            words.append(f"-l {name[2:]}" if long else f"-s {name[1:]}")
        words += {
            "choices": ["-x -a", quoted(" ".join(row.choices()))],
            "processes": ["-x -a '(__fish_complete_pids)'"],
            "folders": ["-x -a '(__fish_complete_directories)'"],
            "files": ["-r -F"],
            "word": [] if row.value().startswith("[") else ["-x"],
        }.get(row.kind(), [])
        lines.append(" ".join([*words, "-d", quoted(row.meaning)]))
    if command.positional() == "processes":
        lines.append(f"{start} -f -a '(__fish_complete_pids)'")
    elif command.positional() == "files":
        lines.append(f"{start} -F")
    return lines


def fish(command: Command) -> str:
    lines = [f"# Completion of {command.name} for fish.", f"complete -c {command.name} -f"]
    words = " ".join(each.word() for each in command.commands)
    outer = f"not __fish_seen_subcommand_from {words}" if words else "true"
    for each in command.commands:
        first = f"complete -c {command.name} -n {quoted(outer)} -a {each.word()} -d {quoted(each.summary)}"
        lines += [first, *fish_command(command.name, each, f"__fish_seen_subcommand_from {each.word()}")]
    return "\n".join([*lines, *fish_command(command.name, command, outer), ""])


# ---- Files ---------------------------------------------------------------------------------------


def files(command: Command, version: str, others: list[str]) -> dict[str, str]:
    return {
        f"man/man1/{command.name}.1": manual(command, version, others),
        f"bash-completion/completions/{command.name}": bash(command),
        f"zsh/site-functions/_{command.name}": zsh(command),
        f"fish/vendor_completions.d/{command.name}.fish": fish(command),
    }


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        sys.exit(__doc__)
    folder, packages = map(Path, arguments)
    os.environ["PYTHONPATH"] = str(packages)
    # A packager's build has no run path; the loader finds what is installed later.
    os.environ["LD_LIBRARY_PATH"] = str(packages / "stacksplice")
    programs = {"stacksplice": [sys.executable, "-P", "-m", "stacksplice"]}
    inspect = packages / "stacksplice" / "stacksplice-inspect"
    if inspect.exists():
        programs[inspect.name] = [str(inspect)]
    for name, program in programs.items():
        version = output(program, "--version").splitlines()[0]
        others = [other for other in programs if other != name]
        for path, text in files(read(name, program), version, others).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
