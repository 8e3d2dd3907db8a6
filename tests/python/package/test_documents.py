"""The code in the manual runs as it stands, and its pages name what there is."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import stacksplice
from building import INCLUDES, ROOT, command, compile_c, core_library, ran

pytestmark = pytest.mark.any_python

DOCS = ROOT / "docs"
LUA_FOLDER = "/usr/include/lua5.4"
LUA_HEADERS = [f"-I{LUA_FOLDER}", f"-I{ROOT / 'bindings' / 'lua' / 'include'}"]
# A program whose errors cross a border.
HOST = """
import border

def fails():
    raise ValueError("no price")

def run():
    border.call(fails)
"""
CRASHED = """
import os, subprocess, sys
os.environ["STACKSPLICE_REPORT_DIR"] = os.getcwd()
crash = "import os, stacksplice; stacksplice.install(crash=True); os.abort()"
subprocess.run([sys.executable, "-c", crash], stderr=subprocess.DEVNULL)
(path,) = [name for name in os.listdir() if name.startswith("stacksplice-")]
dsn = release = environment = None
"""
PROVIDERS = """
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
provider, logger_provider = TracerProvider(), LoggerProvider()
"""
# The pages whose code in Python runs here: what stands before it, what it needs, a word of what it prints.
PROGRAMS = {
    "how-to/asyncio.md": ("", None, "Propagation into python"),
    "how-to/crashes-to-sentry.md": (CRASHED, "sentry_sdk", ""),
    "how-to/redact.md": ("", None, ""),
    "how-to/reduce-noise.md": ("", None, ""),
    "how-to/sandboxes-and-limits.md": ("", "lupa.lua54", "rules did not finish within 0.05 s\n"),
    "how-to/troubleshooting.md": ("", None, "None\n"),
    "how-to/wrapped-errors.md": ("", None, "order O-25150 failed <- no price\n"),
}
OTHERS = {
    "how-to/fakeredis.md": "tests/suites",
    "how-to/games-and-c-hosts.md": "tests/install/guide",
    "how-to/logs-and-opentelemetry.md": "below, and test_other_loggers.py",
    "how-to/unhandled-errors.md": "below",
    "how-to/web-servers.md": "tests/suites",
    "start/python.md": "below",
}
# The pages with code in C, C++, CMake or Rust.
COMPILED = {
    "how-to/build.md": "tests/install/c_host",
    "how-to/crashes-to-sentry.md": "below",
    "how-to/fibers.md": "tests/core",
    "how-to/games-and-c-hosts.md": "tests/install/guide",
    "how-to/sandboxes-and-limits.md": "below",
    "inside/bindings.md": "tests/tiny",
    "start/c.md": "tests/install",
    "start/cpp.md": "tests/install",
    "start/winrt.md": "tests/install",
}
SCRIPTS = {
    "start/lua.md",
    "how-to/lua-servers.md",
    "how-to/sandboxes-and-limits.md",
    "how-to/games-and-c-hosts.md",
}
SHOWN = {"text", "sh", "console", "json", "xml", "dockerfile", "{toctree}", "{eval-rst}"}


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}(?: \S+)?\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


def test_each_piece_of_code_is_tested():
    for file in sorted(DOCS.rglob("*.md")):
        name = str(file.relative_to(DOCS))
        for language in set(re.findall(r"^```([^\s`]+)", page(name), re.MULTILINE)):
            if language == "python":
                assert name in PROGRAMS or name in OTHERS, name
            elif language in ("c", "cpp", "cmake", "rust"):
                assert name in COMPILED, name
            elif language == "lua":
                assert name in SCRIPTS, name
            else:
                assert language in SHOWN or name == "how-to/games-and-c-hosts.md", (name, language)


def run_in(folder: Path, child, source: str):
    """SOURCE as a program in FOLDER, beside the module host."""
    (folder / "host.py").write_text(HOST)
    paths = f"{folder}{os.pathsep}{child.environment['PYTHONPATH']}"
    return child(f"import os\nos.chdir({str(folder)!r})\n{source}", PYTHONPATH=paths)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page(child, tmp_path, name):
    before, needed, printed = PROGRAMS[name]
    if needed:
        pytest.importorskip(needed)
    outputs = []
    for number, source in enumerate(blocks(name, "python")):
        folder = tmp_path / str(number)
        folder.mkdir()
        outputs.append(run_in(folder, child, before + source).stdout)
    assert printed in "".join(outputs) and outputs


@pytest.mark.parametrize("name", ["how-to/unhandled-errors.md", "how-to/logs-and-opentelemetry.md"])
def test_unhandled(child, name):
    source = blocks(name, "python")[0]
    reports = "logging.exception('it')" if "logging" in source else "raise"
    crossing = f"""
import border
def fails(): raise ValueError("unhandled")
try: border.call(fails)
except ValueError: {reports}
"""
    done = child(source + crossing, status=int(reports == "raise"))
    assert "ValueError: unhandled" in done.stderr


def test_opentelemetry(child):
    pytest.importorskip("opentelemetry.sdk")
    (source,) = [
        block for block in blocks("how-to/logs-and-opentelemetry.md", "python") if "provider" in block
    ]
    child(PROVIDERS + source)


TICK = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stacksplice/python.h>
void stop_main_loop(int status);
{}
void (*use)(PyObject *) = tick;
"""
# The pages whose blocks in C are one program, in their order and without anything else.
IN_C = {
    "how-to/crashes-to-sentry.md": [],
    "how-to/fibers.md": ["-D_GNU_SOURCE"],
    "how-to/sandboxes-and-limits.md": LUA_HEADERS,
    "start/c.md": LUA_HEADERS,  # without its main(), which uses them
}


# Those in C++, in the same way.
IN_CPP = {
    "start/cpp.md": LUA_HEADERS,
    "start/winrt.md": [f"-I{ROOT / 'core' / 'include' / 'stacksplice' / 'winrt'}", "-fshort-wchar"],
}


@pytest.mark.parametrize("name", IN_CPP)
def test_cpp(tmp_path, name):
    cxx = shutil.which(os.environ.get("CXX", "c++")) or pytest.skip("there is no C++ compiler")
    if IN_CPP[name] is LUA_HEADERS and not Path(LUA_FOLDER, "lua.hpp").exists():
        pytest.skip("Lua's headers are not here")
    # Statements of a function are indented.
    parts = [
        f"void part_{number}()\n{{\n{block}}}\n" if block.startswith(" ") else block
        for number, block in enumerate(blocks(name, "cpp"))
    ]
    source = tmp_path / "page.cpp"
    source.write_text("".join(parts))
    include = [f"-I{ROOT / 'bindings' / of / 'include'}" for of in ("cpp", "lua")]
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    ran(cxx, *flags, *INCLUDES, *include, *IN_CPP[name], source)


def test_c_of_a_callback(tmp_path):
    (tick,) = [block for block in blocks("how-to/games-and-c-hosts.md", "c") if "tick(" in block]
    source = tmp_path / "host.c"
    source.write_text(TICK.format(tick))
    compile_c(tmp_path / "host.so", [source], "-shared", "-fPIC", *core_library())


@pytest.mark.parametrize("name", IN_C)
def test_c(tmp_path, name):
    if IN_C[name] is LUA_HEADERS and not Path(LUA_FOLDER, "lua.h").exists():
        pytest.skip("Lua's headers are not here")
    source = tmp_path / "page.c"
    source.write_text("\n".join(blocks(name, "c")))
    compile_c(
        tmp_path / "page.so",
        [source],
        "-shared",
        "-fPIC",
        "-Wno-unused-function",
        *IN_C[name],
        *core_library(),
    )


def test_a_call_within_a_time():
    """tests/lua/host_deadline.c calls it."""
    (call,) = blocks("how-to/sandboxes-and-limits.md", "c")
    name = re.search(r"stacksplice_lua_\w+", call)[0]
    assert name in (ROOT / "tests" / "lua" / "host_deadline.c").read_text(encoding="utf-8")


PAGES = ["../README.md", *sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_what_is_not_run_can_be_read(name):
    """Shell by sh, JSON by json, and Python that another folder runs by its compiler."""
    for source in blocks(name, "sh"):
        ran("/bin/sh", "-nc", source)
    for source in blocks(name, "json"):
        json.loads(source)
    for source in blocks(name, "python"):
        compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_tutorial_with_lupa(child):
    pytest.importorskip("lupa.lua54")
    (source,) = [block for block in blocks("start/python.md", "python") if "import lupa" in block]
    text = child(source, status=1).stderr
    wanted = ("in <module>", '(Lua) File "pricing.lua", line 3, in price', "in rate", "KeyError: 'XXX'")
    places = [text.index(words) for words in wanted]
    assert places == sorted(places)


def test_the_tutorial(child, tmp_path):
    sources = [block for block in blocks("start/python.md", "python") if "import lupa" not in block]
    outputs = [run_in(tmp_path, child, source) for source in sources]
    assert "ValueError: no price" in outputs[1].stderr and "received by python" in outputs[1].stdout
    assert "in report_progress" in outputs[2].stdout
    (shell,) = [block for block in blocks("start/python.md", "sh") if "errors.ndjson" in block]
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "stacksplice").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stacksplice "$@"\n')
    (tmp_path / "stacksplice").chmod(0o755)
    shown = ran("/bin/sh", "-ec", shell, cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert shown.stdout.count("==== order: O-25150 ====\n") == 3


def test_each_option_in_the_pages_is_one_of_the_command():
    used: dict[str, set[str]] = {}
    for file in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = file.read_text(encoding="utf-8")
        for name, rest in re.findall(r"\bstacksplice (run|show|core|dump|symbolize|top)\b([^\n`|]*)", text):
            used.setdefault(name, set()).update(re.findall(r"(?<= )--?[a-z][a-z-]*", rest))
    assert len(used) == 6
    for name, options in used.items():
        told = command(name, "--help").stdout
        assert not [option for option in options if not re.search(rf"{option}\b", told)], name


def test_troubleshooting_names_gaps_that_there_are():
    table = page("reference/gaps.md")
    text = page("how-to/troubleshooting.md")
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    quoted = [reason for row in rows for reason in re.findall("`(.*?)`", row)]
    quoted.remove("not permitted to trace process")
    assert len(quoted) >= 8 and "Lua tail calls replaced the frames of the callers" in table
    for reason in quoted:
        assert any(line.startswith(f"| `{reason}") for line in table.splitlines()), reason


EXAMPLES = runpy.run_path(str(ROOT / "scripts" / "site" / "examples.py"))


def test_the_reference_has_every_public_name():
    text = page("reference/python.md")
    described = re.findall(r"^\.\. auto(?:function|class|exception|module):: stacksplice\.(\w+)$", text, re.M)
    assert {*stacksplice.__all__} <= {*described, "__version__"}
    names = {*stacksplice.__all__} - {"__version__", "winrt"}
    assert [name for name in names if not EXAMPLES["example"]("python", f"stacksplice.{name}")] == []


def test_the_examples_of_the_reference(tmp_path):
    for name in ("lupa.lua54", "sentry_sdk", "opentelemetry.sdk", "jinja2", "pygments"):
        pytest.importorskip(name)
    program = DOCS / "reference" / "examples" / "package.py"
    done = ran(sys.executable, program, cwd=tmp_path, STACKSPLICE_REPORT_DIR=tmp_path)
    assert done.stdout.endswith("\nok\n") and "(Lua) File" in done.stderr


HEADERS = [
    *sorted((ROOT / "core" / "include").rglob("*.h")),
    *(ROOT / "bindings" / name / "include" / "stacksplice" / f"{name}.h" for name in ("lua", "python")),
]
FOR_BINDINGS = ("script.h", "source.h", "thrown.h")


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_the_reference_has_an_example_of_each_function(header):
    """Of C; for C++, Lua and methods ./dev docs sees it.  tests/install runs the programs."""
    text = header.read_text(encoding="utf-8")
    names = re.findall(
        r"^STACKSPLICE_(?:\w*API|PYTHON_INLINE) [\w *\n]+?\b((?!STACKSPLICE_)\w+)\(", text, re.M
    )
    for name in {*names} - {"stacksplice_python_save", "stacksplice_python_restore"}:
        piece = EXAMPLES["example"]("c", name)
        assert piece, f"{name} has no example"
        assert header.name in FOR_BINDINGS or "_visit" in name or "examples" in piece.program.parts, name


def test_the_reference_has_an_example_of_each_function_of_lua():
    for file in (ROOT / "bindings" / "lua" / "library").glob("*.lua"):
        module = file.name.partition(".")[0].replace("_", ".")
        names = re.findall(r"^function \w+([.:]\w+)\(", file.read_text(encoding="utf-8"), re.M)
        assert names and [name for name in names if not EXAMPLES["example"]("lua", module + name)] == []


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/inside/contracts.md"])
def test_the_tests_of_promises_are_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    table = text[text.index("Tests of this page") :]
    named = re.findall(r"`(tests/[^`]+)`", table)
    assert len(named) > 5 and [path for path in named if not (ROOT / path).is_file()] == []


def test_what_is_certain_has_a_test():
    """Each row that claims it names at least one, which exists; a row without one is in bold."""
    there = {path.name for path in (ROOT / "tests").rglob("*")}
    rows = re.findall(r"^\| (?!---|where|what is cached)(.+) \|$", page("inside/certain.md"), re.MULTILINE)
    named = [(row, re.findall(r"`(?:tests/[\w/]+/)?(\w+\.(?:py|c|cpp|lua))`", row)) for row in rows]
    assert len(rows) > 35 and [name for _, names in named for name in names if name not in there] == []
    assert [row for row, names in named if not names and "**" not in row] == []


def test_each_part_of_the_contracts_has_tests():
    *parts, last = re.findall(r"^## (.+)$", page("inside/contracts.md"), re.MULTILINE)
    assert last == "Tests of this page"
    anchors = {re.sub(r"[^\w -]", "", part).lower().replace(" ", "-") for part in parts}
    named = set(re.findall(r"^\| \[.+\]\(#(.+)\) \| `tests/", page("inside/contracts.md"), re.MULTILINE))
    assert named == anchors
