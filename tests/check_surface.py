"""What users can name may become more only with a line in CHANGELOG.md.  Prints what has none, and fails.

tests/surface.txt has the names of the last release, or of the day when this check began: functions that
the C libraries export, functions and parameters of Python, functions of Lua, commands and options,
environment variables and reasons of gaps.  What is new since must stand under "Unreleased" of CHANGELOG.md.
What is gone must leave the file.  `check_surface.py --release` writes it anew, for a release.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "surface.txt"
PACKAGE = ROOT / "bindings" / "python" / "stacksplice"
STUB = PACKAGE / "_stacksplice.pyi"
TOOLS = PACKAGE / "_tools"
MAPS = ["core/stacksplice.map", "bindings/lua/module.map", "bindings/lupa/loadable/loadable.map"]
LUA_API = "bindings/lua/src/api"

REGISTERED = re.compile(r'\{"(\w+)", (?:ss_lua|stacksplice_lua|module)_\w+\}')
OPTION = re.compile(r'add_argument\(\s*(?:"-\w", )?"(--[\w-]+)"')
COMMAND = re.compile(r"@_Command\([^@]*?\ndef _add_(\w+)\(")


def text_of(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def exported() -> Iterator[str]:
    for path in MAPS:
        text = re.sub(r"/\*.*?\*/", "", text_of(path), flags=re.DOTALL)
        yield from (f"C {name}" for name in re.findall(r"^\s+(\w+);", text, re.MULTILINE))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    every = function.args
    for one in [*every.posonlyargs, *every.args, *every.kwonlyargs]:
        if one.arg not in ("self", "cls") and not one.arg.startswith("_"):
            yield one.arg


def named(tree: ast.Module | ast.ClassDef, prefix: str, wanted: set[str] | None) -> Iterator[str]:
    """The names that TREE defines; of a module only those WANTED, all without a list."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith("_") or (wanted is not None and node.name not in wanted):
            continue
        yield f"Python {prefix}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from named(node, f"{prefix}{node.name}.", None)
        else:
            yield from (f"Python {prefix}{node.name}({name})" for name in parameters(node))


def python() -> Iterator[str]:
    """What `__all__` names, wherever it is defined, and the public modules."""
    public = re.search(r"__all__ = (\[.*?\])", text_of(PACKAGE / "__init__.py"), re.DOTALL)
    assert public
    wanted = set(ast.literal_eval(public[1]))
    for path in sorted({*PACKAGE.rglob("*.py"), STUB}):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix()
        is_public = "/" not in module and not module.startswith("_")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from named(tree, f"{module}." if is_public else "", None if is_public else wanted)


def lua() -> Iterator[str]:
    for path in sorted((ROOT / LUA_API).glob("*.c")):
        yield from (f"Lua {name}" for name in REGISTERED.findall(text_of(path)))


def commands() -> Iterator[str]:
    for path in sorted(TOOLS.rglob("*.py")):
        text = text_of(path)
        yield from (f"option {name}" for name in OPTION.findall(text))
        yield from (f"command {name}" for name in COMMAND.findall(text))


def variables() -> Iterator[str]:
    table = re.findall(r"^\| (`[^|]*) \|", text_of("docs/reference/environment.md"), re.MULTILINE)
    for row in table:
        yield from (f"variable {name}" for name in re.findall(r"`(\w+)`", row))


def gaps() -> Iterator[str]:
    for reason in re.findall(r"^\| `([^`]+)` \|", text_of("docs/reference/gaps.md"), re.MULTILINE):
        yield f"gap {reason}"


def surface() -> list[str]:
    kinds = [exported(), python(), lua(), commands(), variables(), gaps()]
    found = [set(kind) for kind in kinds]
    assert all(found), "a kind of names was not found where it is looked for"
    return sorted(set().union(*found))


def is_told(name: str, told: str) -> bool:
    """Whether TOLD has the last word of NAME: of a parameter that, and the function."""
    words = name.partition(" ")[2]
    if words.endswith(")"):
        function, _, parameter = words[:-1].partition("(")
        return is_told(f"Python {function}", told) and bool(re.search(rf"\b{parameter}\b", told))
    if name.startswith("gap "):
        return words in told
    return bool(re.search(rf"(?<![\w-]){re.escape(words.rpartition('.')[2])}(?![\w-])", told))


def main() -> int:
    now = surface()
    if "--release" in sys.argv:
        LIST.write_text("\n".join(now) + "\n", encoding="utf-8")
        return 0
    was = set(text_of(LIST).splitlines())
    told = text_of("CHANGELOG.md").partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    untold = [name for name in now if name not in was and not is_told(name, told)]
    gone = sorted(was - set(now))
    for name in untold:
        print(f"{name}: new, and CHANGELOG.md does not name it under Unreleased")
    for name in gone:
        print(f"{name}: gone; take it out of tests/surface.txt, and say so in CHANGELOG.md")
    print(f"{len(now)} names, {len(now) - len(was) + len(gone)} of them new")
    return 1 if untold or gone else 0


if __name__ == "__main__":
    sys.exit(main())
