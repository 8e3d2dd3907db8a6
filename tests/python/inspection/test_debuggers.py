"""gdb and lldb: their commands `stacksplice ...` show what dump and core do, and gdb's own bt has scripts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from building import HERE, PACKAGE, Resting, command, compile_c, start
from debugging import (
    GDB_SCRIPT,
    begun,
    each_debugger,
    frames,
    gdb,
    in_gdb,
    in_parts,
    lldb,
    needs_known_program,
    part,
    scripts_of,
)
from test_core import copy_of
from test_dump import dumped
from test_dump_errors import PROGRAM_WITH_ERRORS
from test_dump_lua import luas

any_python = pytest.mark.any_python


def of_lldb(test):
    """It takes seconds to start; some of the tests of both debuggers try it in each run."""
    return any_python(pytest.mark.long(test))


GLUE = re.compile(r"^    \(C\) .*(lua_pcallk|_PyEval)", re.MULTILINE)
PROGRAM = os.path.realpath(sys.executable)


def functions(text: str) -> list[str]:
    """The script frames in gdb's own bt."""
    return re.findall(r"^(?:#\d+ +)?\((?:Python|Lua)\) (.+?) \(\) at ", text, re.MULTILINE)


# ---- Stacks --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process() -> Iterator[int]:
    with begun() as number:
        yield number


@pytest.fixture(scope="module", params=["process", "core"])
def target(request, process, tmp_path_factory) -> tuple[tuple[str, ...], str, str]:
    """Arguments of gdb, how lldb is to begin, and what our own command says of the same."""
    if request.param == "process":
        told = command("dump", "--all-frames", str(process)).stdout
        return ("-p", str(process)), f"process attach --pid {process}", told
    core = str(copy_of(process, tmp_path_factory.mktemp("core")))
    told = command("core", "--all-frames", core).stdout
    return (sys.executable, core), f"target create {PROGRAM} --core {core}", told


def test_gdb_shows_what_dump_and_core_do(target):
    arguments, _, told = target
    commands = ("stacksplice bt -all-frames", "stacksplice bt", "bt", "bt -hide", "thread apply all bt")
    whole, plain, *own = in_parts(arguments, *commands)
    assert len(frames(told)) > 20 and frames(whole) == frames(told)
    assert re.match(r"thread \d+", plain) and not GLUE.search(plain)
    languages = [line.partition(")")[0] for line in scripts_of(plain)]
    assert languages[:5] == ["(Python"] * 3 + ["(Lua"] * 2
    names = [line.rpartition(" in ")[2].removesuffix(" [inferred]") for line in scripts_of(told)]
    assert [functions(text) for text in own] == [names[::-1]] * 3
    assert "_PyEval" not in own[1] and "ffi_call" not in own[1]


@of_lldb
def test_lldb_shows_it_too(target):
    _, begin, told = target
    if "--core" in begin:
        needs_known_program()
    whole, _, plain = lldb(begin, "stacksplice bt -all-frames", "stacksplice bt all").partition("bt all\n")
    assert len(frames(told)) > 20 and frames(whole) == frames(told)
    assert scripts_of(plain) == scripts_of(told) and not GLUE.search(plain)


@any_python
def test_a_part_of_bt_the_machine_interface_and_the_selected_frame(process):
    needs_known_program()
    filtered, without, mi, frame = in_parts(
        ("-p", str(process)),
        "bt 2",
        "disable frame-filter global stacksplice\nbt\nenable frame-filter global stacksplice",
        'interpreter-exec mi2 -enable-frame-filters\ninterpreter-exec mi2 "-stack-list-frames"',
        "frame 3\nstacksplice bt\nframe",
    )
    assert functions(filtered) == ["rest"] and functions(without) == []
    names = re.findall(r'func="\(\w+\) ([^"]+)"', mi)
    assert names[0] == "rest" and names[-1] == "<module>"
    assert re.findall(r"^#(\d+) ", frame, re.MULTILINE) == ["3", "3"]


FOLDED = """
import asyncio, own, sys
def rest():
    print(flush=True)
    sys.stdin.read()
async def main():
    own.through(rest)
asyncio.run(main())
"""


@each_debugger
def test_frames_of_libraries_are_counted_as_in_dump(debugger, tmp_path, monkeypatch):
    """Those that users name, too; -all-frames shows them."""
    (tmp_path / "own.py").write_text("def through(f):\n    return f()\n")
    (tmp_path / "app.py").write_text(FOLDED)
    monkeypatch.setenv("STACKSPLICE_HIDE", f"{tmp_path}/own.py")
    with start(tmp_path / "app.py") as child:
        told = command("dump", child.pid).stdout
        seen = debugger(child.pid, "stacksplice bt")
        whole = debugger(child.pid, "stacksplice bt -all-frames")

    def shown(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("    (Python)", "    ... "))]

    hidden = [line for line in shown(told) if line.endswith(" hidden")]
    assert len(hidden) == 2 and f"    ... 1 frame of {tmp_path}/own.py hidden" in hidden
    assert shown(seen) == shown(told)
    assert "hidden" not in whole and "asyncio/runners.py" in whole


@any_python
def test_gdb_behind_gdbserver(process):
    if shutil.which("gdbserver") is None:
        pytest.skip("gdbserver is not installed")
    remote = f"target remote | gdbserver --once --attach - {process}"
    seen = gdb("set sysroot /", remote, "echo BEGIN\\n", "stacksplice bt", "bt -hide", "detach")
    told = scripts_of(command("dump", str(process)).stdout)
    assert scripts_of(part(seen)) == told and len(functions(part(seen))) == len(told)


@of_lldb
@pytest.mark.parametrize("numbers", ["this machine", "another"])
def test_lldb_behind_gdbserver(process, numbers):
    if shutil.which("gdbserver") is None:
        pytest.skip("gdbserver is not installed")
    needs_known_program()
    elsewhere = "import stacksplice_lldb as target; target._is_traced = lambda process: False"
    told = scripts_of(command("dump", str(process)).stdout)
    attach = ["gdbserver", "--once", "--attach", "localhost:0", str(process)]
    with subprocess.Popen(attach, stderr=subprocess.PIPE, text=True) as server:
        try:
            port = next(line.split()[-1] for line in server.stderr if line.startswith("Listening on port"))
            script = f"script {elsewhere if numbers == 'another' else 0}"
            connect = (f"target create {PROGRAM}", f"gdb-remote localhost:{port}")
            seen = lldb(*connect, script, "stacksplice bt", "detach")
        finally:
            server.terminate()
    if numbers == "another":  # gdbserver does not tell lldb where stacks are
        assert "note: this target does not say what is mapped: frames of scripts may be missing" in seen
        assert set(scripts_of(seen)) < set(told)
    else:
        assert scripts_of(seen) == told


@of_lldb
@pytest.mark.parametrize("interpreter", ["/usr/bin/python3", sys.executable])
def test_lldb_on_a_core_file_without_the_pages_of_binaries(interpreter, tmp_path):
    """It takes them from the files, section by section."""
    needs_known_program()
    program = os.path.realpath(interpreter)
    if not os.path.exists(program):
        pytest.skip(f"no {program}")
    core = tmp_path / "core"
    with Resting(program, "-c", "def rest():\n print(flush=True)\n input()\nrest()") as child:
        gdb(f"gcore {core}", script=None, arguments=("-p", str(child.pid)))
    told = scripts_of(command("core", str(core)).stdout)
    assert len(told) == 2
    assert scripts_of(lldb(f"target create {program} --core {core}", "stacksplice bt")) == told


def by_thread(text: str) -> dict[str, list[str]]:
    parts = re.split(r"^thread (\d+).*$", text, flags=re.MULTILINE)
    return {number: frames(stack) for number, stack in zip(parts[1::2], parts[2::2], strict=True)}


@any_python
def test_all_threads():
    with Resting(sys.executable, HERE / "dump_any_program.py") as child:
        told = command("dump", "--all-frames", str(child.pid)).stdout
        commands = ("stacksplice bt all -all-frames", "thread apply all bt")
        stacks, own = in_parts(("-p", str(child.pid)), *commands)
    assert len(by_thread(told)) > 10 and by_thread(stacks) == by_thread(told)
    assert len(functions(own)) == len(scripts_of(told))


HOST = r"""
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

static int rest(lua_State *L)
{
    (void)L;
    puts("ready");
    fflush(stdout);
    return getchar();
}

int main(void)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "rest", rest);
    return luaL_dostring(L, "local function inner()\n rest()\nend\n"
                            "local function outer()\n inner()\nend\nouter()");
}
"""


@any_python
@pytest.mark.parametrize("kind", ["process", "core", "deleted"])
def test_a_stripped_program_with_its_own_lua(tmp_path, kind):
    """Gdb cannot unwind one that was deleted since: what it cannot place follows behind a gap."""
    library = Path("/usr/lib/x86_64-linux-gnu/liblua5.4.a")
    if not library.exists():
        pytest.skip("no static Lua 5.4")
    (tmp_path / "host.c").write_text(HOST)
    flags = ("-I/usr/include/lua5.4", "-s", str(library), "-lm", "-ldl")
    program = compile_c(tmp_path / "host", [tmp_path / "host.c"], *flags)
    with Resting(program) as child:
        arguments, told = ("-p", str(child.pid)), command("dump", str(child.pid)).stdout
        if kind == "core":
            core = str(copy_of(child.pid, tmp_path))
            arguments, told = (str(program), core), command("core", core).stdout
        elif kind == "deleted":
            program.unlink()
            told = command("dump", str(child.pid)).stdout
        ours, own = in_parts(arguments, "stacksplice bt", "bt")
    compared = scripts_of if kind == "deleted" else frames
    assert len(scripts_of(told)) == 3 and compared(ours) == compared(told)
    assert len(functions(own)) == 3


# ---- Errors --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing() -> Iterator[int]:
    """A process whose threads have an error each."""
    with start(PROGRAM_WITH_ERRORS, "wait") as child:
        yield child.pid


def errors_in(text: str) -> list[str]:
    """The report of each thread's error in TEXT, as far as debuggers and dump know the same symbols."""
    found = re.findall(
        r"^Current error of this thread:\n(.*?\n)(?=\n?thread |\(lldb\)|\[Inf|\Z)", text, re.M | re.S
    )
    # Debuggers show no source lines, for which they have commands of their own, and no marks below them.
    source = re.compile(r'^(\W*)(File ".*\n)\1  \S.*\n(?:\1  *[~^ ]+\n)?', re.MULTILINE)
    return sorted(source.sub(r"\1\2", report.rstrip("\n")) for report in found)


def line_of(frame: dict) -> str:
    trust = "" if frame["trust"] == "exact" else f" [{frame['trust']}]"
    return f'(Python) File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}{trust}'


@any_python
@each_debugger
def test_errors_and_elements_are_those_of_dump(failing, debugger: Callable[..., str]):
    told = errors_in(command("dump", str(failing)).stdout)
    assert len(told) == 3 and "ExceptionGroup: inner" in told[0]
    stacks = [frame for thread in dumped(failing)["threads"] for frame in thread["error"]["stack"]]
    scripts = [frame for frame in stacks if frame["kind"] == "script"]
    seen = debugger(failing, "stacksplice errors")
    assert errors_in(seen) == told
    assert "hunter2" not in seen and "Thread.run" not in seen  # no secrets, and no stacks of threads
    elements = [f"stacksplice frame {frame['address']}" for frame in scripts]
    seen = debugger(failing, *elements, "stacksplice frame 0x5353000012345678", "stacksplice frame")
    assert re.findall(r"^\(Python\) .*", seen, re.MULTILINE) == [line_of(frame) for frame in scripts]
    assert "frame does not belong to this process" in seen
    assert "stacksplice: an element of a stack is missing: stacksplice frame TOKEN" in seen


@any_python
@each_debugger
def test_a_process_that_knows_its_threads_by_other_numbers(debugger: Callable[..., str]):
    inside = ["unshare", "--fork", "--pid", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("this system gives no namespaces of process numbers")
    program = [sys.executable, PROGRAM_WITH_ERRORS, "wait"]
    with Resting(*inside, *program, PYTHONPATH=str(PACKAGE.parent)) as child:
        assert "1" in json.loads(child.line)
        process = int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())
        assert len(errors_in(debugger(process, "stacksplice errors"))) == 3


COPIES = """
import ctypes, sys
for path in sys.argv[1:]:
    lib = ctypes.CDLL(path)
    lib.stacksplice_RoOriginateError(ctypes.c_int(-2147467259), None)
print(flush=True)
sys.stdin.read()
"""


@any_python
def test_two_copies_of_the_library(tmp_path):
    own = str(PACKAGE / "libstacksplice.so.0")
    other = shutil.copy(own, tmp_path / "other.so")
    with start("-c", COPIES, own, str(other)) as child:
        seen = in_gdb(child.pid, "stacksplice errors")
    assert "note: the process has several copies of stacksplice: of a thread's errors, only that" in seen
    assert seen.count("HRESULT 0x80004005") == 1


# ---- Variables -----------------------------------------------------------------------------------

RECURSION = """local function rest(n)
    local long = {}
    for i = 1, 9 do long[i] = string.rep("x", 80) end
    if n > 0 then rest(n - 1) else print() io.stdout:flush() io.read() end
    return n
end
rest(9)
"""


def of_scripts(text: str) -> list[str]:
    """The script frames of TEXT with what is below each, but for what reports redact."""
    found, within = [], False
    for line in text.splitlines():
        if not line.startswith("      "):
            within = line.startswith(("    (Python)", "    (Lua)"))
        if within and not line.strip().startswith(("password = ", "shop = ")):
            found.append(line)
    return found


def first_thread(text: str) -> str:
    return re.split("^thread ", text, flags=re.MULTILINE)[1]


@any_python
@each_debugger
@pytest.mark.parametrize("program", ["dump_any_program.py", "dump_locals_program.lua", RECURSION])
def test_variables_are_those_of_dump(program, debugger: Callable[..., str], tmp_path):
    """With lines of source, and frames that repeat as one."""
    (tmp_path / "program.lua").write_text(RECURSION)
    path = HERE / program if program != RECURSION else tmp_path / "program.lua"
    interpreter = [sys.executable] if program.endswith(".py") else next(luas())
    with Resting(*interpreter, path) as child:
        told = of_scripts(first_thread(command("dump", "--locals", str(child.pid)).stdout))
        repeated = command("dump", str(child.pid)).stdout
        seen = debugger(child.pid, "stacksplice bt -locals", "stacksplice bt")
    stacks = of_scripts(seen)
    assert stacks[: len(told)] == told and not any(" = " in line for line in stacks[len(told) :])
    if program == RECURSION:
        assert any(line.endswith(", ...}") for line in told)
        lines = [line for line in repeated.splitlines() if "line repeated" in line]
        assert len(lines) == 1 and [line for line in seen.splitlines() if "line repeated" in line] == lines
    else:
        assert "        half = 0.5" in told


def variables_in_gdb(process: int, function: str) -> set[str]:
    seen = in_gdb(process, "bt -full -hide")
    frame = re.search(rf"^(?:#\d+ +)?\({function} .*\n((?:  .*\n)+)", seen, re.MULTILINE)
    assert frame
    return {line.strip() for line in frame[1].splitlines()}


@any_python
def test_variables_in_gdbs_own_bt(tmp_path):
    with Resting(sys.executable, HERE / "dump_any_program.py") as child:
        seen = variables_in_gdb(child.pid, r"Python\) numbers")
    assert {'half = "0.5"', "small = 7", 'yes = "True"'} <= seen
    with Resting(*next(luas()), HERE / "dump_locals_program.lua") as child:
        seen = variables_in_gdb(child.pid, r"Lua\) others")
    assert {'whole = "2.0"', "negative = -7", 'unset = "nil"', "parameter = 1"} <= seen
    program = tmp_path / "program.py"  # with names that gdb's charset lacks
    program.write_text("def größe(text):\n print(flush=True)\n input()\ngröße('é\\ud800')\n", "utf-8")
    with Resting(sys.executable, str(program)) as child:
        text = in_gdb(child.pid, "set charset ASCII", "bt -full -hide")
    assert r"(Python) gr\xf6\xdfe () at " in text and r'text = "\\xe9\\ud800"' in text


# ---- Loading, help, and what cannot be done ------------------------------------------------------


@any_python
def test_gdb_loads_it_with_the_library_where_that_is_safe():
    with start("-c", "import stacksplice, sys\nprint('ready', flush=True)\nsys.stdin.read()") as child:
        safe = ("-iex", f"add-auto-load-safe-path {PACKAGE}")
        seen = gdb("stacksplice bt", script=None, arguments=(*safe, "-p", str(child.pid)))
        assert '(Python) File "<string>", line 3, in <module>' in seen
        declined = gdb("stacksplice bt", script=None, arguments=("-p", str(child.pid)))
        assert re.search(r'File "\S+/libstacksplice\.so\.0-gdb\.py" auto-loading has been', declined)


def error_of(*commands: str, **options) -> str:
    lines = [line for line in gdb(*commands, **options).splitlines() if "stacksplice: " in line]
    (line,) = lines
    return line.partition("stacksplice: ")[2]


OPTIONS = "is no option here; there are: all, -all-frames, -locals, -no-source"


@any_python
def test_errors_are_one_line_with_the_next_step(process):
    for words in ("bt", "errors", "frame 0"):
        assert error_of(f"stacksplice {words}") == (
            "no process and no core file here: begin with run, attach PID, or core-file FILE"
        )
    assert error_of("stacksplice nosuch") == 'no command "nosuch"; see help stacksplice'
    assert error_of("stacksplice bt everything") == f"'everything' {OPTIONS}"
    assert error_of("stacksplice frame nosuch").startswith("No symbol")
    frame, errors = in_parts(("-p", str(process)), "stacksplice frame 0", "stacksplice errors")
    assert frame.startswith("[gap: the process has no stacksplice")
    assert "no thread has an error that stacksplice knows" in errors
    running = ("set non-stop on", f"attach {process}", "continue&", "stacksplice bt")
    assert error_of(*running) == "the process runs: stop it first, by Ctrl-C or interrupt -a"
    seen = gdb("help stacksplice", "help stacksplice bt")
    assert "stacksplice bt -- Print the combined stack of the selected thread" in seen
    assert "-all-frames" in seen


@of_lldb
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "a command is missing, one of: bt, errors, frame"),
        ("bt every", f"'every' {OPTIONS}"),
        ("bt", "no process and no core file here: begin with run, process attach, or target create"),
    ],
)
def test_errors_and_help_of_lldb(words, why):
    if not words:
        assert "bt prints the combined stack of the selected thread" in lldb("help stacksplice")
    (line,) = [each for each in lldb(f"stacksplice {words}").splitlines() if "stacksplice: " in each]
    assert line.startswith(f"error: stacksplice: {why}")


@any_python
def test_without_the_program(process, tmp_path):
    alone = tmp_path / "alone" / "_debuggers"
    shutil.copytree(GDB_SCRIPT.parent, alone)
    script, arguments = alone / GDB_SCRIPT.name, ("-p", str(process))
    seen = gdb("bt 1", "bt 1", "stacksplice bt", script=script, arguments=arguments)
    why = f"there is no stacksplice-inspect beside {alone} or in PATH: install stacksplice anew\n"
    assert seen.count(f"stacksplice: no frames of scripts: {why}") == 1  # bt goes on without them
    assert seen.count(f"stacksplice: {why}") == 1 and seen.count("#0 ") >= 2


@any_python
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "#!/bin/sh\nread line\necho '{\"schema\":'\nkill -9 $$\n",
            "stacksplice-inspect ended early: please report this",
        ),
        ("of another machine", "cannot run stacksplice-inspect: Exec format error"),
        (None, "libstacksplice.so.0 is not beside stacksplice-inspect: install stacksplice anew"),
    ],
)
def test_a_program_that_does_not_work(process, text, why, tmp_path):
    shutil.copytree(GDB_SCRIPT.parent, tmp_path / "_debuggers")
    program = tmp_path / "stacksplice-inspect"
    if text is None:
        shutil.copy(PACKAGE / program.name, program)
    else:
        program.write_text(text)
    program.chmod(0o755)
    script, arguments = tmp_path / "_debuggers" / GDB_SCRIPT.name, ("-p", str(process))
    assert error_of("stacksplice bt", script=script, arguments=arguments) == why
    assert "#0 " in gdb("bt 1", script=script, arguments=arguments)  # goes on without it
