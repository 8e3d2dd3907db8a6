"""A C program that embeds this Python and uses python.h; the header in C++; the wrong core."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from building import (
    EXTENSION,
    EXTENSION_INCLUDES,
    HERE,
    INCLUDES,
    PACKAGE,
    ROOT,
    compile_c,
    core_library,
    ran,
)


def embedding_flags() -> list[str]:
    """How to link this interpreter into a program."""
    library_dirs = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")]
    name = f"python{sysconfig.get_config_var('LDVERSION')}"
    for directory in filter(None, library_dirs):
        for file in (f"lib{name}.so", f"lib{name}.a"):
            if (Path(directory) / file).exists():
                flags = [f"-L{directory}", f"-Wl,-rpath,{directory}", f"-l{name}", "-rdynamic"]
                rest = f"{sysconfig.get_config_var('LIBS')} {sysconfig.get_config_var('SYSLIBS')}"
                return [*flags, *shlex.split(rest)]
    pytest.skip("this Python has no library to link with")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    output = tmp_path_factory.mktemp("embed") / "embed"
    return compile_c(output, [HERE / "embed_program.c"], "-pthread", *core_library(), *embedding_flags())


def run(
    program: Path, *arguments: str, path: Path | None = PACKAGE.parent
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = str(path or "")
    return ran(program, *arguments, status=None, env=environment)


def test_errors_outlive_the_interpreter(program):
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_import_failure_is_an_hresult(program):
    done = run(program, path=None)
    assert done.returncode == 7
    assert "No module named 'stacksplice'" in done.stderr


@pytest.fixture(scope="module")
def first_use(tmp_path_factory):
    output = tmp_path_factory.mktemp("first") / "first_use"
    return compile_c(output, [HERE / "first_use_program.c"], *core_library(), *embedding_flags())


def test_first_use_imports_the_package(first_use):
    done = run(first_use, "leave", "package")
    assert done.returncode == 0, done.stderr
    assert "KeyError: 'XXX'" in done.stdout
    assert re.search(r"\(Python\) .*in rate\b.*\(C\) .*in call\b", done.stdout, re.S)
    done = run(first_use, "enter", "package")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "HResultIndexError('born in C')\n"


def test_first_use_without_the_package_says_what_to_do(first_use):
    missing = "No module named 'stacksplice': install the package with pip, or put the folder that it is in"
    done = run(first_use, "leave", path=None)
    assert done.returncode == 0, done.stderr
    assert f"KeyError: 'XXX' (without its stack: {missing} into PYTHONPATH)" in done.stdout
    done = run(first_use, "enter", path=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f'SystemError("the error 0x8000000b cannot be raised. {missing}')


@pytest.mark.long
def test_extension_in_the_inittab(tmp_path):
    program = compile_c(
        tmp_path / "builtin",
        [HERE / "builtin_program.c", *EXTENSION],
        *EXTENSION_INCLUDES,
        "-D_GNU_SOURCE",
        "-pthread",
        *core_library(),
        *embedding_flags(),
    )
    done = run(program, path=None)  # the package's Python files are not needed by C
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    script = """
import stacksplice, pickle
assert stacksplice._stacksplice.__spec__.origin == "built-in"
assert stacksplice.capture()[0].function == "<module>"
exc = pickle.loads(pickle.dumps(stacksplice.HResultError(0x80004005, "x")))
assert stacksplice.originate(exc).message == "x"
"""
    done = run(program, script, path=ROOT / "bindings" / "python")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_unknown_version_is_said_in_a_gap(tmp_path):
    flags = embedding_flags()
    if not any(Path(flag[2:]).glob(f"lib{flags[2][2:]}.so") for flag in flags[:1]):
        pytest.skip("only a shared library's version can be covered")
    source = HERE / "unknown_version_program.c"
    program = compile_c(tmp_path / "unknown", [source], *core_library(), *flags)
    script = """
import stacksplice
def inner():
    return stacksplice.capture()
stack = inner()
print([f.reason for f in stack if f.kind == "gap"], [f for f in stack if f.kind == "script"])
try:
    {}["k"]
except KeyError as exc:
    info = stacksplice.originate(exc)
    print(info.type, [f.function for f in info.stack if f.kind == "script"])
"""
    done = run(program, script)
    assert done.returncode == 0, done.stderr
    reason = "cannot read Python frames: extension was built for another version (CPython 3.99.0)"
    assert done.stdout.splitlines() == [f"[{reason!r}] []", "KeyError ['<module>']"]


@pytest.mark.parametrize("standard", ["c++11", "c++17"])
def test_header_in_cpp(tmp_path, standard):
    first = tmp_path / "first.cpp"
    second = tmp_path / "second.cpp"
    first.write_text(
        "#include <stacksplice/python.h>\n"
        "const void *second();\n"
        "int check() { return second() == &stacksplice_python_table; }\n"
        'extern "C" PyObject *run() { return stacksplice_python_raise(-1); }\n'
    )
    second.write_text(
        "#include <stacksplice/python.h>\nconst void *second() { return &stacksplice_python_table; }\n"
    )
    command = ["c++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", *INCLUDES, "-shared", "-fPIC"]
    command += [str(first), str(second), "-o", str(tmp_path / "out.so"), *core_library()]
    ran(*command)


def test_header_without_the_windows_names(tmp_path):
    source = tmp_path / "plain.c"
    source.write_text(
        "#define STACKSPLICE_NO_WINRT\n"
        "#include <stacksplice/python.h>\n"
        "typedef long HRESULT_;\n"
        "int run(void); int run(void) { return stacksplice_python_import(); }\n"
    )
    compile_c(tmp_path / "plain.so", [source], "-shared", "-fPIC", *core_library())


def test_an_older_core_is_named(tmp_path):
    """A core of an older minor version, loaded first: the import says which file and what to do."""
    source = tmp_path / "old.c"
    source.write_text(
        'const char *stacksplice_version(void);\nconst char *stacksplice_version(void) { return "0.0.9"; }\n'
    )
    old = compile_c(tmp_path / "libold.so", [source], "-shared", "-fPIC")
    done = ran(sys.executable, "-c", "import stacksplice", status=1, LD_PRELOAD=str(old))
    assert "ImportError" in done.stderr and "0.0.9" in done.stderr
    assert str(old) in done.stderr and "upgrade" in done.stderr


def test_package_is_linked_as_promised():
    extension = next(PACKAGE.glob("_stacksplice*.so"))
    done = ran("readelf", "-d", extension)
    assert "[libstacksplice.so.0]" in done.stdout
    assert "[$ORIGIN]" in done.stdout
    assert "NODELETE" in done.stdout
