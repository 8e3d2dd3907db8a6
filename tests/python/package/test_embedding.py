"""A C program that embeds this Python and uses python.h; the header in C++; the wrong core."""

from __future__ import annotations

import os
import re
import shlex
import signal
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


@pytest.fixture(scope="module")
def unread(tmp_path_factory):
    output = tmp_path_factory.mktemp("unread") / "unread"
    return compile_c(output, [HERE / "unread_program.c"], *core_library(), *embedding_flags())


def shown_frames(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Of the first stack: the functions that reports name, and the reasons of gaps without their remedy."""
    text = done.stdout if "below Python" in done.stdout else done.stderr
    lines = text.split(" (most recent call first):\n", 1)[1].split("\n\n", 1)[0].splitlines()
    shown = [line for line in lines if line.startswith(("    (", "    ["))]
    pattern = r"\[gap: (.*?) in \S+: import |, in (\S+)|\(C\) (\w+)\+0x"
    found = [re.search(pattern, line) for line in shown]
    return [next(filter(None, match.groups())) for match in found if match]


UNREAD_ENVIRONMENT = {"STACKSPLICE_REPORT_DIR": "", "PYTHONHOME": sys.base_prefix}
UNREAD = "Python frames unknown: stacksplice is not imported"


@pytest.mark.parametrize("interpreter", ["", "second"])
@pytest.mark.parametrize("way", ["report", "crash"])
def test_python_that_nobody_reads_is_a_gap(unread, way, interpreter):
    """The bytecode's loop, not the calls of C around it, has it: once for each time that it was entered."""
    done = ran(unread, f"{way} {interpreter}", status=None, **UNREAD_ENVIRONMENT)
    assert done.returncode == (-signal.SIGSEGV if way == "crash" else 0), done.stderr
    expected = ["fail", UNREAD, "call", UNREAD, "main"]
    assert shown_frames(done)[: len(expected)] == expected, done.stdout + done.stderr


@pytest.mark.parametrize("interpreter", ["", "second"])
@pytest.mark.parametrize("way", ["report", "crash"])
def test_python_that_is_read_has_no_such_gap(unread, way, interpreter):
    """One import is enough for all interpreters of the process."""
    done = ran(unread, f"{way} imported {interpreter}", status=None, **UNREAD_ENVIRONMENT)
    expected = ["fail", "inner", "call", "outer", "<module>", "main"]
    assert shown_frames(done)[: len(expected)] == expected, done.stdout + done.stderr


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


# ---- Errors that nobody takes --------------------------------------------------------------------


SCRIPT = """
import sys, threading, stacksplice
def fails(): raise ValueError("unhandled")
def works(): pass
def exits(): sys.exit(7)
def exits_with_a_message(): sys.exit("a message")
def exits_well(): sys.exit()
def interrupts(): raise KeyboardInterrupt
def in_a_thread():
    thread = threading.Thread(target=fails, name="worker"); thread.start(); thread.join()
def in_a_finalizer():
    class Late:
        def __del__(self): fails()
    Late()
def breaks_its_hook():
    def broken(*_): raise LookupError("hook")
    sys.excepthook = broken
    fails()
def kept():
    assert not hasattr(sys, "last_value") and not hasattr(sys, "last_exc")
calls = [fails, works, exits, exits_with_a_message, exits_well, interrupts, kept]
"""


LINES = [
    "fails: 0x00000000, -1",
    "works: returned",
    "exits: 0x00000001, 7",
    "exits_with_a_message: 0x00000001, 1",
    "exits_well: 0x00000001, 0",
    "interrupts: 0x00000000, -1",
    "kept: returned",
    "ended",
]


@pytest.fixture(scope="module")
def unhandled(tmp_path_factory):
    output = tmp_path_factory.mktemp("unhandled") / "unhandled"
    return compile_c(output, [HERE / "unhandled_program.c"], *core_library(), *embedding_flags())


INSTALL = "stacksplice.install()\n"
OWN_HOOK = INSTALL + "sys.excepthook = lambda *a: print('hook', a[0].__name__)\n"
LOOPS = """
def loops():
    import asyncio
    async def main():
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(0)
    asyncio.run(main())
calls[:] = [loops]
"""
# In an embedded interpreter too threads and finalizers end where the host sees nothing.
ELSEWHERE = INSTALL + "calls[:] = [in_a_thread, in_a_finalizer]\n"
SHOWN = {"ValueError: unhandled\n": 1, "KeyboardInterrupt\n": 1, "Traceback": 2, "a message\n": 1}
NOT_SHOWN = {"ValueError: unhandled\n": 0, "KeyboardInterrupt\n": 0, "Traceback": 0, "a message\n": 1}
UNHANDLED = "handler: ValueError: unhandled, "
# What the script has besides, the host's verdict, what it prints and Python prints, how often.
ENDS = {
    "as the interpreter shows it": ("", None, {"hook": 0, "handler": 0}, SHOWN),
    "the hook that is installed": (OWN_HOOK, None, {"hook ValueError\n": 1, "hook Keyb": 1}, NOT_SHOWN),
    "a hook that breaks": (
        INSTALL + "calls[:] = [breaks_its_hook, works]\n",
        None,
        {"breaks_its_hook: 0x00000000, -1\nworks: returned\n": 1},
        {"Error in sys.excepthook:": 1, "ValueError: unhandled": 1},
    ),
    "handled": ("", "handled", {UNHANDLED + "handled\n": 1, "handler: KeyboardInterrupt": 1}, NOT_SHOWN),
    "handled, installed": (INSTALL, "handled", {UNHANDLED: 1, "handler: KeyboardInterrupt": 1}, NOT_SHOWN),
    # Once asked, once shown: install()'s hook does not ask again.
    "refused": (INSTALL, "refused", {UNHANDLED + "refused\n": 1, "handler: Keyb": 1}, SHOWN),
    "elsewhere, handled": (ELSEWHERE, "handled", {UNHANDLED + "handled\n": 2}, {"": 1}),
    "elsewhere, refused": (
        ELSEWHERE,
        "refused",
        {UNHANDLED + "refused\n": 2},
        {"Exception in thread worker:": 1, "Late.__del__": 1, "ValueError: unhandled\n": 2},
    ),
    "in logs of asyncio": (INSTALL + LOOPS, "handled", {UNHANDLED: 1}, {"": 1}),
    "in logs of asyncio, refused": (INSTALL + LOOPS, "refused", {}, {"ValueError: unhandled\n": 1}),
}


@pytest.mark.parametrize("name", ENDS)
def test_errors_that_nobody_takes(unhandled, name):
    script, verdict, printed, shown = ENDS[name]
    done = run(unhandled, SCRIPT + script, *filter(None, [verdict]))
    assert done.returncode == 0, done.stderr
    assert {text: done.stdout.count(text) for text in printed} == printed, done.stdout
    assert {text: done.stderr.count(text) for text in shown} == shown, done.stderr
    if "calls[:]" not in script:
        told = [line for line in done.stdout.splitlines() if not line.startswith(("handler", "hook"))]
        assert told == LINES


# ---- Python that starts and ends again -----------------------------------------------------------


BEGIN = """
import host, stacksplice
def fails():
    raise ValueError("of the last round")
def caught(function):
    try:
        function()
    except Exception as exc:
        return exc
def group():
    raise ExceptionGroup("all", [caught(fails), KeyError("never raised")]) from caught(fails)
"""


# The slot, C, and what goes last of all; a thread of the host has a slot in the main interpreter only.
LEAVE = """
import sys
host.hold(caught(group))
stacksplice.originate(caught(group))
class Late:
    def __del__(self):
        stacksplice.originate(caught(fails))
sys.keep = Late()
"""


LEAVE_IN_A_THREAD = """
host.call_in_thread(lambda: stacksplice.originate(caught(group)))
"""


# As much as the texts of some errors; the modules that an exception holds are 250 KiB and more.
SOME_TEXTS = 8 * 1024


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    """By how many bytes malloc's blocks grow with each start and end of Python that runs a script."""
    program = tmp_path_factory.mktemp("restart") / "restart"
    source = HERE / "restart_program.c"
    compile_c(program, [source], "-pthread", "-rdynamic", *core_library(), *embedding_flags())

    def measure(script: str, *where: str) -> int:
        environment = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONMALLOC": "malloc"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(PACKAGE.parent)}
        done = ran(program, "50", BEGIN + script, *where, env=environment, timeout=300)
        assert done.stderr == ""
        return int(done.stdout)

    return measure


@pytest.mark.long
@pytest.mark.parametrize(
    ("leave", "where"),
    [(LEAVE + LEAVE_IN_A_THREAD, ()), (LEAVE, ("sub",))],
    ids=["interpreter", "sub-interpreter"],
)
def test_errors_that_are_left_hold_no_interpreter(growth, leave, where):
    """Beside what CPython itself does not give back, when no error is left."""
    assert growth(leave, *where) - growth("caught(group)", *where) < SOME_TEXTS
