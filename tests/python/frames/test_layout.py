"""The check of the frame layout at import: each wrong offset is found, named, and never followed."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from building import EXTENSION, EXTENSION_INCLUDES, PACKAGE, SHARED, compile_c, core_library

VERSION = sys.version_info[:2]
LAYOUT = SHARED / "python.c"
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
WRONG = "cannot read Python frames: "

# What a stack and an error look like when the frames are refused.
SCRIPT = """
import sys
import stacksplice
def inner():
    return stacksplice.capture()
stack = inner()
reason = stacksplice._stacksplice.frames_unavailable()
assert [f.reason for f in stack if f.kind == "gap" and f.language == "python"] == [reason], reason
assert not [f for f in stack if f.kind == "script"]
assert any(f.kind == "native" for f in stack)
try:
    raise ValueError("x")
except ValueError as exc:
    info = stacksplice.originate(exc)
    assert [f.function for f in info.stack if f.kind == "script"] == ["<module>"]
print(reason)
"""


def refused(child, script: str, **environment: str) -> str:
    line = child(script, **environment).stdout.strip()
    version = ".".join(map(str, sys.version_info[:3]))
    assert line.startswith(WRONG) and line.endswith(f" (CPython {version})")
    return line[len(WRONG) :]


def test_this_interpreter_is_known():
    import stacksplice

    assert stacksplice._stacksplice.frames_unavailable() is None


# ---- 3.13 on: the interpreter's own table is made wrong before the import ------------------------

POKE = """
import ctypes, sys
table = (ctypes.c_uint64 * 128).in_dll(ctypes.pythonapi, "_PyRuntime")
index, value = int(sys.argv[1]), sys.argv[2]
table[index] = table[index] + int(value[1:]) if value[0] == "+" else int(value)
"""
# Words of the groups before: as bindings/shared/python.c has them, counted here by themselves.
GROUPS = {(3, 13): (3, 13, 9, 0), (3, 14): (3, 16, 9, 0), (3, 15): (3, 16, 16, 1)}
LOCK = {(3, 13): 8, (3, 14): 9, (3, 15): 9}


def words() -> dict[str, int]:
    """Where each word that is used lies in the table."""
    runtime, interpreter, thread, between = GROUPS.get(VERSION, (0, 0, 0, 0))
    first = 3 + runtime
    frame = first + interpreter + thread + between
    return {
        "cookie": 0,
        "version": 1,
        "free_threaded": 2,
        # It is not used where it does not say who runs.
        **({} if FREE_THREADED else {"lock": first + LOCK.get(VERSION, 0)}),
        "current": first + interpreter + 4,
        "previous": frame + 1,
        "code": frame + 2,
        "instruction": frame + 3,
        "owner": frame + 5,
    }


def changes() -> list[tuple[str, str]]:
    """(word, change) that make the table say something else than it did."""
    near = [(word, change) for word in words() for change in ("+8", "+1", "0", "1000000")]
    same = {("code", "0"), ("version", "+8"), ("version", "+1")}
    if not FREE_THREADED:
        same.add(("free_threaded", "0"))
    return [*(pair for pair in near if pair not in same), ("version", "+65536")]


@pytest.mark.skipif(VERSION < (3, 13), reason="the interpreter has no table of its own before 3.13")
@pytest.mark.parametrize(("word", "change"), changes())
def test_wrong_word_in_the_table(child, word, change):
    index = words()[word]
    reason = refused(child, f"import sys; sys.argv[1:] = ['{index}', '{change}']{POKE}{SCRIPT}")
    if word == "free_threaded" and change in ("0", "+1"):
        assert "free-threaded" in reason or "damaged" in reason
    if word in ("cookie", "version"):
        assert "for another version" in reason


# ---- 3.11 and 3.12: the row is made wrong before it is compiled ----------------------------------

FIELDS = ["thread_head", "cframe_current", "cframe_previous"]
FIELDS += ["frame_code", "frame_previous", "frame_instruction", "frame_owner"]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The extension without the file of the rows."""
    folder = tmp_path_factory.mktemp("objects")
    made = []
    for source in filter(lambda file: file != LAYOUT, EXTENSION):
        flags = ["-c", "-fPIC", "-D_GNU_SOURCE", "-O0", *EXTENSION_INCLUDES]
        made.append(compile_c(folder / f"{source.parent.name}_{source.stem}.o", [source], *flags))
    return made


@pytest.mark.long
@pytest.mark.skipif(VERSION > (3, 12), reason="the row is read from the interpreter since 3.13")
@pytest.mark.parametrize("field", FIELDS)
def test_wrong_number_in_the_row(child, tmp_path, objects, field):
    row = re.compile(r"(\.minor = %d,.*?\.%s = )(\d+)" % (VERSION[1], field), re.DOTALL)
    text = LAYOUT.read_text()
    right = int(row.search(text)[2])
    package = tmp_path / "stacksplice"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("_stacksplice*.so"))
    library = package / f"_stacksplice{sysconfig.get_config_var('EXT_SUFFIX')}"
    # Behind a _PyCFrame lies what an earlier call left on the stack, at times the right pointer.
    beside = -8 if field == "cframe_previous" else 8
    for wrong in (right + beside, 1 << 30):
        source = tmp_path / "python.c"
        source.write_text(row.sub(rf"\g<1>{wrong}", text, count=1))
        flags = ["-shared", "-fPIC", "-D_GNU_SOURCE", "-O0", *EXTENSION_INCLUDES]
        compile_c(library, [source, *objects], *flags, *core_library())
        assert refused(child, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}")
