"""Each format has one file that writes it and one that reads it, and its constants stand in one file.

FORMATS says which.  The files of a format are found by a sign in their code: what nobody can write or read
without.  A file that has the sign and no place here is a second writer or reader; one that has a place here
and not the sign lost its part.  Where a format has more than one writer or reader, REASON says why.  Prints
what differs, and fails.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "crash", "bindings", "inspect")
ENDINGS = {".c", ".h", ".hpp", ".py", ".lua"}
ERRORS = "bindings/python/stacksplice/_errors"
TOOLS = "bindings/python/stacksplice/_tools"


class Format(NamedTuple):
    name: str
    sign: str  # a regular expression
    constants: tuple[str, ...]  # one for each language that has no other's constants
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    reason: str = ""  # of a second writer or reader


FORMATS = [
    Format(
        "the names of the JSON's schemas",
        r"stacksplice-(?:error|report)/\d",
        ("core/src/report/visit.h", f"{ERRORS}/info.py"),
        (),
        (f"{TOOLS}/top/command.py",),
        "top skips what surely is no line of its own by a pattern of the whole line",
    ),
    Format(
        "the JSON of one error",
        r"\bhresult_signed\b",
        (),
        ("core/src/report/visit.c", "inspect/src/errors/errors.c"),
        ("core/src/report/read.c", f"{ERRORS}/info.py", f"{TOOLS}/top/command.py", f"{TOOLS}/html/values.py"),
        "inspect writes errors of other processes by itself; info.py has an error's members in memory, top"
        " and html tell an error from other JSON by this member",
    ),
    Format(
        "an error that has nothing but a stack",
        r"hresult_signed\\?\":(?:0,| _E_FAIL)",
        (),
        (
            "bindings/python/src/api/reports.c",
            "inspect/src/served/served.c",
            f"{TOOLS}/dump/errors.py",
        ),
        (),
        "each gives frames that have no error to the one reader, which wants an error",
    ),
    Format(
        "the file of a process that failed",
        r"\bSS_SCHEMA_FILE\b|\bFILE_SCHEMA\b",
        ("core/src/report/visit.h", f"{ERRORS}/info.py"),
        ("crash/report_file.c",),
        ("core/src/report/read.c", f"{TOOLS}/saved/files.py", f"{TOOLS}/html/page.py"),
        "files.py tells which of the two a file is, page.py shows what only this one has",
    ),
    Format(
        "the JSON of other processes",
        r"stacksplice-dump/\d\\\"",
        (),
        ("inspect/src/inspection.c",),
        (),
    ),
    Format(
        "the block for debuggers",
        r"\bSTACKSPLICE_INSPECTION_SIGNATURE\b|stacksplice:data",
        ("core/include/stacksplice/debugger.h",),
        ("core/src/inspect/block.c",),
        ("inspect/src/errors/errors.c",),
    ),
    Format(
        "a thread's anchor",
        r"\bSTACKSPLICE_ANCHOR_SIGNATURE\b|0x41545353",
        ("core/include/stacksplice/debugger.h",),
        ("core/src/error/originate.c",),
        ("core/src/error/inspect.c", "inspect/src/errors/errors.c"),
        "inspect.c is RoInspectThreadErrorInfo, which reads by its caller's function",
    ),
    Format(
        "an error's record",
        r"\bSTACKSPLICE_RECORD_SIGNATURE\b|0x52455353",
        ("core/include/stacksplice/debugger.h",),
        ("core/src/error/error.c", "crash/failfast.c"),
        ("core/src/error/inspect.c", "inspect/src/errors/errors.c"),
        "failfast.c has no memory for an error; inspect.c is RoInspectCapturedStackBackTrace",
    ),
    Format(
        "the address of a token",
        r"0x53530*\b|\bSTACKSPLICE_TOKEN_STRIDE\b",
        ("core/include/stacksplice/source.h",),
        ("core/src/splice/token.c", "core/src/splice/sink.c", "core/src/splice/unloaded.c"),
        ("inspect/src/errors/errors.c",),
        "each kind of token is made and read in its own file of the core",
    ),
    Format(
        "the contents of a token",
        r"\bstacksplice_token_row\b",
        ("core/include/stacksplice/debugger.h",),
        ("core/src/splice/token.c",),
        ("inspect/src/errors/errors.c",),
    ),
    Format(
        "the first line of an error's text",
        r"\"HRESULT (?:0x)?\"",
        (),
        ("core/src/report/text.c",),
        (f"{ERRORS}/traceback.py",),
    ),
]
# Formats whose files have the signs of others, which are shorter.
WITHIN = {"an error that has nothing but a stack": "the JSON of one error"}

COMMENT = {".py": r'"""(?:.|\n)*?"""|^\s*#.*$|  # .*$', ".lua": r"--.*$"}


def code_of(path: Path) -> str:
    return re.sub(COMMENT.get(path.suffix, r"/\*(?:.|\n)*?\*/"), "", path.read_text("utf-8"), flags=re.M)


def sources() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): code_of(path)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in ENDINGS and path.is_file()
    }


def files_of(one: Format) -> set[str]:
    return {*one.constants, *one.writers, *one.readers}


def faults_of(one: Format, files: dict[str, str]) -> list[str]:
    parts = {inner.name: files_of(inner) for inner in FORMATS if WITHIN.get(inner.name) == one.name}
    known = files_of(one).union(*parts.values())
    found = {path for path, code in files.items() if re.search(one.sign, code)}
    faults = [f"{path}: has {one.name}, and FORMATS does not say so" for path in sorted(found - known)]
    faults += [f"{path}: does not have {one.name} any more" for path in sorted(files_of(one) - found)]
    if (len(one.writers) > 1 or len(one.readers) > 1) and not one.reason:
        faults.append(f"{one.name}: more than one writer or reader, and no reason")
    return faults


def main() -> int:
    files = sources()
    faults = [fault for one in FORMATS for fault in faults_of(one, files)]
    print(*faults, sep="\n", end="\n" if faults else "")
    writers = sum(len(one.writers) for one in FORMATS)
    readers = sum(len(one.readers) for one in FORMATS)
    print(f"{len(FORMATS)} formats, {writers} files that write them, {readers} that read them")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
