"""docs/reference/gaps.md names every reason that the sources give, and no other.

In C a reason is a text, or the name of a constant or macro that is one, which stands

  * behind `reason =`, `end_reason =`, `failure =`, `unread =` or `..._seam =`;
  * as the last argument, or the last but flags, of a function whose name ends in `gap`, `gap_token`
    or `seam_token`;
  * in a `snprintf` into something called `reason`;
  * at the end of a row `X(NAME, ..., "...")` or of `GAP_OF(TRUST, "...")`;
  * in a macro `..._REASON(part) "..." part "..."`;
  * anywhere in a function that has `reason` in its name.

In Python it is what the patterns of PYTHON find.  What varies in a reason, such as a number, is `…` in
the table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "gaps.md"
FOLDERS = ("core", "crash", "bindings")
# Where a text, or a name that stands for one, is a reason.  TEXT matches either.
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+|[A-Za-z_]\w*)'
ONE = rf"(?:[^;,?\"]*\?\s*{TEXT}\s*:\s*)?{TEXT}"  # or of two
PLACES = [
    rf"\b(?:\w*reason|failure|unread|\w+_seam(?:\[\])?|seam)\s*=\s*(?:PyUnicode_FromString\()?{ONE}",
    rf"\b\w*(?:gap|gap_token|seam_token)\((?:\"\w+\",\s*)?{ONE}(?:,\s*\w+)?\)",
    rf"\bsnprintf\(\s*(?:\w+->)?reason\s*,[^;\"]*{TEXT}",
    rf"\bX\((?:\w+,[\s\\]*)+{TEXT}\)",
    rf"\bGAP_OF\(\w+,\s*{TEXT}\)",
]
# A macro that puts a reason together.
MACRO = re.compile(r'#define \w*REASON\(\w+\)[ \t]+((?:"(?:[^"\\\n]|\\.)*"|\w+|[ \t])+)$', re.M)
# A function of that kind: all texts in it.
FUNCTION = re.compile(r"^[^\n;#{}]*\b\w*reason\w*\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
DEFINITION = r"(?:\b{0}(?:\[\w*\])?\s*=\s*|#define {0}\s+\\?\s*){1}"
ERRORS = "bindings/python/stacksplice/_errors"
PYTHON = {
    f"{ERRORS}/awaiting.py": r'(?:^_[A-Z]+ = |again = |branch = )f?("(?:[^"\\]|\\.)*")$',
    f"{ERRORS}/remote.py": r'gap = f?("(?:[^"\\]|\\.)*")$',
}
# Not the reason of a gap, but found in such a place.
OTHERS = {"python", "lua", "native", "c++", "unknown", "none"}


# Texts that stand in reasons by a name.
NAMED = dict(
    re.findall(r'#define (SS_\w+_RANGE) (".*")', (ROOT / "bindings/shared/versions.h").read_text("utf-8"))
)


def without_comments(text: str) -> str:
    text = re.sub("|".join(NAMED), lambda name: NAMED[name[0]], text)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def joined(literal: str) -> str:
    """The text of adjacent literals with what varies as one sign."""
    text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace('\\"', '"')
    text = re.sub(r"%[-0-9.]*(?:l|ll|z)?[dusx]|%V|\{[^}]*\}|\" PRI\w+ \"", "…", text)
    return "… " + text.strip() if text.startswith(" ") else text


def sources() -> dict[Path, str]:
    files = [
        f
        for folder in FOLDERS
        for f in sorted((ROOT / folder).rglob("*"))
        if f.suffix in (".c", ".h", ".hpp")
    ]
    return {file: without_comments(file.read_text(encoding="utf-8")) for file in files}


def resolve(word: str, text: str, everything: str) -> list[str]:
    """The reasons that WORD, a literal or a name, stands for in a file of that TEXT."""
    if word.startswith('"'):
        return [joined(word)]
    definition = DEFINITION.format(re.escape(word), TEXT)
    found = [match[1] for match in re.finditer(definition, text)] or [
        match[1] for match in re.finditer(rf"#define {re.escape(word)}\s+\\?\s*{TEXT}", everything)
    ]
    return [joined(literal) for literal in found if literal.startswith('"')]


def reasons_in(text: str, everything: str) -> set[str]:
    words = [
        word for place in PLACES for match in re.finditer(place, text) for word in match.groups() if word
    ]
    for body in MACRO.findall(text):
        parts = re.findall(r'"(?:[^"\\]|\\.)*"|\w+', body)
        words.append("".join(part if part.startswith('"') else '"…"' for part in parts))
    for body in FUNCTION.findall(text):
        words += re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', body)
        words += re.findall(r"\breturn (\w+);", body)
    return {reason for word in words for reason in resolve(word, text, everything)}


def given() -> dict[str, str]:
    """Each reason, and where it is given."""
    texts = sources()
    everything = "\n".join(texts.values())
    found = {
        reason: str(file.relative_to(ROOT))
        for file, text in texts.items()
        for reason in reasons_in(text, everything)
    }
    for name, pattern in PYTHON.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        found |= {joined(literal): name for literal in re.findall(pattern, text, flags=re.M)}
    return {reason: file for reason, file in found.items() if reason and reason not in OTHERS}


def told() -> set[str]:
    """The first column of the table."""
    section = PAGE.read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.M))


def main() -> int:
    sources_give, page_tells = given(), told()
    for reason in sorted(sources_give.keys() - page_tells):
        print(f"{sources_give[reason]}: the gap `{reason}` is not in docs/reference/gaps.md:")
        print("    add a row that says what it means and what a reader does about it")
    for reason in sorted(page_tells - sources_give.keys()):
        print(f"docs/reference/gaps.md: no source gives the gap `{reason}`: remove its row, or change it")
        print("    with the reason; if a source gives it in a new way, add that to tests/check_gaps.py")
    print(f"{len(sources_give)} reasons, {len(page_tells)} rows")
    return sources_give.keys() != page_tells


if __name__ == "__main__":
    sys.exit(main())
