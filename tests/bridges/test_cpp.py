"""The borders that docs/how-to/games-and-c-hosts.md shows for C++ bridges: pybind11, nanobind and sol2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import stacksplice
from bridging import HERE, LUA_MODULES, ROOT, Run, compile_extension

pybind11 = pytest.importorskip("pybind11", reason="pybind11 is not installed")


def lua_flags() -> list[str]:
    """How to compile with the Lua that Debian installs; empty where there is none."""
    done = subprocess.run(["pkg-config", "--cflags", "--libs", "lua5.4"], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def extract_guide(folder: Path) -> list[str]:
    """Write the code of docs/how-to/games-and-c-hosts.md into FOLDER; the options to compile it."""
    extract = ROOT / "tests" / "install" / "guide" / "extract.py"
    guide = ROOT / "docs" / "how-to" / "games-and-c-hosts.md"
    subprocess.run([sys.executable, str(extract), str(guide), str(folder)], check=True)
    package = Path(stacksplice.__file__).resolve().parent
    parts = ("core", "bindings/python", "bindings/lua", "bindings/cpp")
    includes = [f"-I{ROOT / name / 'include'}" for name in parts]
    return [f"-I{folder}", *includes, f"-L{package}", "-l:libstacksplice.so.0", f"-Wl,-rpath,{package}"]


def nanobind_options() -> list[str]:
    nanobind = pytest.importorskip("nanobind", reason="nanobind is not installed")
    library = Path(nanobind.__file__).parent
    headers = [f"-I{library / 'include'}", f"-I{library / 'ext' / 'robin_map' / 'include'}"]
    return ["-fno-strict-aliasing", *headers, str(library / "src" / "nb_combined.cpp")]


def in_words_of_nanobind(text: str) -> str:
    for ours, its in (
        ("pybind11/pybind11.h", "nanobind/nanobind.h"),
        ("pybind11::error_already_set", "nanobind::python_error"),
        ("py::function", "py::callable"),
        ("PYBIND11_MODULE", "NB_MODULE"),
        ('throw py::import_error("stacksplice")', "py::raise_python_error()"),
        ("pybind11", "nanobind"),
    ):
        text = text.replace(ours, its)
    return text


@pytest.fixture(scope="session", params=["pybind11", "nanobind"])
def guided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The border that docs/how-to/games-and-c-hosts.md shows for pybind11, taken out of it."""
    folder = tmp_path_factory.mktemp("guided")
    options = [*extract_guide(folder), f"-I{pybind11.get_include()}"]
    source = HERE / "guided.cpp"
    if request.param == "nanobind":
        options += nanobind_options()
        for path in (source, folder / "pybind_border.hpp"):
            (folder / path.name).write_text(in_words_of_nanobind(path.read_text()))
        source = folder / "guided.cpp"
    compile_extension(folder / "guided", source, *options)
    return folder


@pytest.mark.any_python
def test_the_guides_border_for_pybind11(run: Run, guided: Path) -> None:
    """Python -> C++ -> HRESULT -> C++ -> Python is the same object; C++ errors have their stacks."""
    run(
        """
import sys
sys.path.insert(0, sys.argv[1])
import guided, stacksplice
from seen import *

mine = ValueError("mine")
def raise_mine():
    raise mine

assert guided.pass_it(lambda: None) is None
assert caught(guided.pass_it, raise_mine) is mine
assert len(stacksplice.error_info(mine).propagation) == 1
ours = caught(guided.fail, True)
assert (type(ours).__name__, str(ours)) == ("HResultIndexError", "shelf 17")
assert isinstance(ours, IndexError)
plain = caught(guided.fail, False)
assert (type(plain).__name__, str(plain)) == ("HResultError", "plain")
for exc in (ours, plain):
    told = [f.function for f in stacksplice.error_info(exc).stack]
    assert any(f is not None and f.startswith("fail") for f in told), told
    assert "caught" in told, told
    assert GAP_RETURNED not in [f"[{f.reason}]" for f in stacksplice.error_info(exc).stack]
assert stacksplice.peek_error() is None
""",
        str(guided),
    )


@pytest.mark.any_python
def test_a_traced_function_raises_what_the_bridge_raises(run: Run, guided: Path) -> None:
    """So a script's own handlers keep matching; the report has the throw's own frames."""
    run(
        """
import sys
sys.path.insert(0, sys.argv[1])
import guided, stacksplice
from seen import *

assert guided.traced(7) == 7
for kind, wanted, text in (
    (0, IndexError, "shelf 17"), (1, RuntimeError, "plain"), (2, ValueError, "of the bridge"),
):
    exc = caught(guided.traced, kind)
    assert type(exc) is wanted and str(exc) == text, exc
    told = [f.function for f in stacksplice.error_info(exc.__cause__).stack]
    assert any(f is not None and f.startswith("traced") for f in told), told
    report = "".join(stacksplice.format_exception(exc))
    assert report.index("traced(int)") < report.index("direct cause"), report
    assert report.index("direct cause") < report.rindex(f"\\n{wanted.__name__}: {text}"), report
assert stacksplice.peek_error() is None
""",
        str(guided),
    )


@pytest.fixture(scope="session")
def guided_sol2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handler that docs/how-to/games-and-c-hosts.md shows for sol2."""
    library = LUA_MODULES.parent.parent / "bindings" / "lua" / "libstacksplice-lua.a"
    command = ["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", *lua_flags(), "-"]
    if subprocess.run(command, input="#include <sol/sol.hpp>", capture_output=True, text=True).returncode:
        pytest.skip("sol2 is not installed")
    if not library.exists():
        pytest.skip(f"there is no {library}")
    folder = tmp_path_factory.mktemp("sol2")
    options = [*extract_guide(folder), f"-I{pybind11.get_include()}", str(library), *lua_flags()]
    compile_extension(folder / "with_sol2", HERE / "with_sol2.cpp", *options)
    return folder


@pytest.mark.any_python
def test_the_guides_handler_for_sol2(run: Run, guided_sol2: Path) -> None:
    """C++ -> Lua -> C++ by sol2: the exception, its type and the stack of its throw."""
    run(
        """
import sys
sys.path.insert(0, sys.argv[1])
import with_sol2
from seen import *

plain, traced = with_sol2.order("plain"), with_sol2.order("traced")
for kind, text in (plain, traced):
    assert kind == "no_stock of shelf 9: no stock", kind
    assert "Lua received it in " in text and "(Lua) File" in text, text
assert "already returned" in plain[1] and ", in leaf" not in plain[1], plain[1]
assert "already returned" not in traced[1] and ", in leaf" in traced[1], traced[1]
""",
        str(guided_sol2),
    )
