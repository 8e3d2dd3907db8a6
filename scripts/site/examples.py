"""The piece of a program that the reference shows for a name.

The programs are those of docs/reference/examples, which tests/install builds and runs.  What only authors of
bindings need is shown as our own bindings use it, the smallest one first.  A piece is a function of C or C++
with the comment before it, or a paragraph of Lua or Python.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("docs/reference/examples/*.*", "examples/tiny/*.c", "bindings/[lpc]*/**/*.[ch]*")
LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".lua": "lua", ".py": "python"}
COMPILED = ("c", "cpp")
COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
NO_FUNCTION = r"(?!typedef|(?:inline )?namespace|extern .C. \{)"
FUNCTION = re.compile(
    rf"^(?:{COMMENT}\n|(?://[^\n]*\n)+)?{NO_FUNCTION}[a-zA-Z\[][^;#]*?\{{\n.*?^\}};?\n", re.M | re.S
)


class Piece:
    def __init__(self, program: Path, text: str) -> None:
        self.program = program.relative_to(ROOT)
        self.language = LANGUAGES[program.suffix]
        self.text = text.strip("\n")
        comments = {"lua": r"--.*", "python": r"#.*"}
        self.code = re.sub(comments.get(self.language, rf"{COMMENT}|//.*"), "", self.text)


@cache
def pieces() -> list[Piece]:
    """Those of the first kind of program first, and then the shortest."""
    found = []
    for kind in PROGRAMS:
        of_kind = []
        for program in sorted(ROOT.glob(kind)):
            if program.suffix not in LANGUAGES:
                continue
            text = program.read_text(encoding="utf-8")
            is_compiled = LANGUAGES[program.suffix] in COMPILED
            texts = FUNCTION.findall(text) if is_compiled else re.split(r"\n{2,}", text)
            of_kind += [Piece(program, piece) for piece in texts]
        found += sorted(of_kind, key=lambda piece: piece.text.count("\n"))
    return found


def pattern_of(language: str, name: str) -> str:
    *scopes, own = re.split(r"::|[.:]", name)
    if language in COMPILED:
        before = r"(?<![\w.>])"
        if scopes:  # a method is called of an object, or by the macro that has the name of its interface
            before = r"(?:::|\.|->|\b[A-Za-z]\w+_)" if own[0].isupper() else r"(?:::|\.|->)"
    elif language == "lua":
        before = rf"(?:\b{scopes[-1]}\.|:)"
    else:  # an ErrorInfo is called info
        word = re.findall("[A-Z]?[a-z_]+", scopes[-1])[-1].lower()
        before = rf"\b(?:{scopes[-1]}|{word})\."
    return rf"{before}{re.escape(own)}\b"


def example(language: str, name: str) -> Piece | None:
    """The piece that uses NAME, which is qualified as the reference has it; None: there is none."""
    pattern = re.compile(pattern_of(language, name))
    languages = COMPILED if language in COMPILED else (language,)
    for piece in pieces():
        if piece.language in languages and pattern.search(piece.code):
            return piece
    return None
