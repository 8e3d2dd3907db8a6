"""The manual pages and completions that are installed: what they say is what the parsers understand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import stacksplice
from building import PACKAGE, ROOT
from stacksplice._tools.command_line import COMMANDS

MAKER = ROOT / "scripts" / "release" / "pages.py"

pytestmark = pytest.mark.any_python


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("argparse_manpage", "shtab"):
        pytest.importorskip(module, reason=f"what makes the pages needs {module}")
    folder = tmp_path_factory.mktemp("pages")
    dated = {**os.environ, "SOURCE_DATE_EPOCH": "86400"}
    subprocess.run([sys.executable, str(MAKER), str(folder), str(PACKAGE.parent)], check=True, env=dated)
    return folder


def needed(program: str) -> str:
    return shutil.which(program) or pytest.skip(f"there is no {program}")


def options(command: str) -> set[str]:
    return {*COMMANDS[command].parser()._option_string_actions}


def printed(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_page_has_each_command_with_its_options_and_statuses(pages: Path) -> None:
    text = (pages / "man/man1/stacksplice.1").read_text().replace("\\-", "-")
    head, *sections = text.split("\n.SS ")
    assert head.startswith(f'.TH STACKSPLICE "1" "1970-01-02" "stacksplice {stacksplice.__version__}"')
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == [rf"\fBstacksplice {name}\fR" for name in COMMANDS]
    for name, section in zip(COMMANDS, sections):
        arguments, _, ends = section.partition("\nexit status:\n")
        # --help stands in the usage only.
        assert {*re.findall(r"\\fB(--?[a-z-]+)\\fR", arguments)} == options(name) - {"-h", "--help"}
        assert re.findall(r"\\fB(\w+)\\fR", ends) == [*dict(COMMANDS[name].parser().statuses)]


def test_both_pages_are_shown_without_a_warning(pages: Path) -> None:
    man = needed("man")
    for name in ("stacksplice", "stacksplice-inspect"):
        plain = printed(man, "--warnings", "-E", "ascii", "-l", str(pages / f"man/man1/{name}.1"))
        assert f"\nNAME\n       {name} - " in re.sub(" +- +", " - ", plain)


COMPLETED = [
    ("stacksplice", "", {*COMMANDS}),
    ("stacksplice", "d", {"doctor", "dump"}),
    ("stacksplice dump", "--fo", {"--format"}),
    ("stacksplice dump --format", "s", {"speedscope"}),
    ("stacksplice show --color", "", {"auto", "always", "never"}),
    ("stacksplice dump", str(os.getpid()), {str(os.getpid())}),
    ("stacksplice show", f"{ROOT}/READ", {f"{ROOT}/README.md"}),
    # Not setup.py, which begins so too.
    ("stacksplice core --root", f"{ROOT}/s", {f"{ROOT}/scripts"}),
    ("stacksplice-inspect", "--co", {"--core"}),
    ("stacksplice-inspect --pid", str(os.getpid()), {str(os.getpid())}),
]


def without_longer_ids(found: set[str], word: str) -> set[str]:
    """FOUND without other processes whose numbers begin with WORD."""
    return {one for one in found if one == word or not (word.isdigit() and one.startswith(word))}


@pytest.mark.parametrize("before, word, expected", COMPLETED)
def test_bash_completes(pages: Path, before: str, word: str, expected: set[str]) -> None:
    words = [*before.split(), word]
    folder = pages / "bash-completion/completions"
    script = f"""
        source {folder / words[0]}
        COMP_WORDS=({" ".join(words[:-1])} "{word}") COMP_CWORD={len(words) - 1}
        $(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = {*printed(needed("bash"), "-c", script).split()}
    assert without_longer_ids(found, word) == expected


@pytest.mark.parametrize("before, word, expected", COMPLETED)
def test_fish_completes(pages: Path, before: str, word: str, expected: set[str]) -> None:
    file = pages / f"fish/vendor_completions.d/{before.split()[0]}.fish"
    script = f"source {file}; complete -C '{before} {word}'"
    lines = printed(needed("fish"), "--no-config", "-c", script).splitlines()
    found = {line.partition("\t")[0].rstrip("/") for line in lines}
    assert without_longer_ids(found, word) == expected


# What zsh's own function is given; completing itself needs a terminal.
TOLD = """
_describe() {{ print -l -- ${{(P)2}} }}
_arguments() {{ print -l -- "$@"; state=stacksplice line=({name}) }}
fpath=({folder})
autoload -U _stacksplice && _stacksplice
{more}
"""


def test_zsh_is_told_of_each_command_and_option(pages: Path) -> None:
    zsh = needed("zsh")
    folder = pages / "zsh/site-functions"

    def told(name: str, more: str = "") -> str:
        return printed(zsh, "-f", "-c", TOLD.format(name=name, folder=folder, more=more))

    commands = told("''", "_shtab_stacksplice_commands")
    assert {*re.findall(r"^([a-z]+):", commands, re.MULTILINE)} == {*COMMANDS}
    for name in COMMANDS:
        lines = told(name).partition("*::: :->stacksplice\n")[2].splitlines()
        found = [word for line in lines for word in re.findall(r"^(?:\(.*?\))?\*?(--?[a-z-]+)\[", line)]
        assert {*found} == options(name)
