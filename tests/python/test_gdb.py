"""gdb's commands `stacksplice ...` and its frame filter: they show what dump and core do."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import HERE, PACKAGE, Resting, command, compile_c, start
from debugging import GDB_SCRIPT, begun, frames, gdb, needs_known_program, part, scripts_of
from test_core import copy_of

any_python = pytest.mark.any_python
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


@pytest.fixture(scope="module")
def process() -> Iterator[int]:
    with begun() as number:
        yield number


@pytest.fixture(scope="module", params=["process", "core"])
def target(request, process, tmp_path_factory) -> tuple[tuple[str, ...], str]:
    """How gdb is to be called, and what our own command says of the same."""
    if request.param == "process":
        return ("-p", str(process)), command("dump", "--all-frames", str(process)).stdout
    core = str(copy_of(process, tmp_path_factory.mktemp("core")))
    return (sys.executable, core), command("core", "--all-frames", core).stdout


def test_bt_shows_what_dump_and_core_do(target):
    arguments, told = target
    seen = gdb("echo BEGIN\\n", "stacksplice bt -all-frames", arguments=arguments)
    assert len(frames(told)) > 20
    assert frames(part(seen)) == frames(told)


@any_python
def test_bt_hides_glue(target):
    seen = part(gdb("echo BEGIN\\n", "stacksplice bt", arguments=target[0]))
    lines = seen.splitlines()
    assert re.match(r"thread \d+", lines[0])
    scripts = [line.partition(")")[0] for line in scripts_of(seen)]
    assert scripts[:5] == ["(Python"] * 3 + ["(Lua"] * 2
    assert re.search(r"^    \.\.\. \d+ glue frames hidden$", seen, re.MULTILINE)
    assert not re.search(r"^    \(C\) .*(lua_pcallk|_PyEval)", seen, re.MULTILINE)


def functions(text: str) -> list[str]:
    return re.findall(r"^(?:#\d+ +)?\((?:Python|Lua)\) (.+?) \(\) at ", text, re.MULTILINE)


def test_scripts_in_gdbs_own_bt(target):
    told = [line.rpartition(" in ")[2] for line in scripts_of(target[1])][::-1]
    told = [name.removesuffix(" [inferred]") for name in told]
    assert functions(part(gdb("echo BEGIN\\n", "bt", arguments=target[0]))) == told
    hidden = part(gdb("echo BEGIN\\n", "bt -hide", arguments=target[0]))
    assert functions(hidden) == told and "_PyEval" not in hidden and "ffi_call" not in hidden
    assert functions(part(gdb("echo BEGIN\\n", "thread apply all bt", arguments=target[0]))) == told


@any_python
def test_a_part_of_bt_and_the_machine_interface(target):
    needs_known_program()
    seen = gdb(
        "echo BEGIN\\n",
        "bt 2",
        "disable frame-filter global stacksplice",
        "echo DISABLED\\n",
        "bt",
        "enable frame-filter global stacksplice",
        "interpreter-exec mi2 -enable-frame-filters",
        'interpreter-exec mi2 "-stack-list-frames"',
        arguments=target[0],
    )
    assert functions(part(seen).partition("DISABLED")[0]) == ["rest"]
    assert functions(part(seen, "DISABLED\n")) == []
    names = re.findall(r'func="\(\w+\) ([^"]+)"', seen)
    assert names[0] == "rest" and names[-1] == "<module>"


@any_python
def test_a_process_behind_gdbserver(process):
    if shutil.which("gdbserver") is None:
        pytest.skip("gdbserver is not installed")
    remote = f"target remote | gdbserver --once --attach - {process}"
    seen = gdb("set sysroot /", remote, "echo BEGIN\\n", "stacksplice bt", "bt -hide", "detach")
    told = scripts_of(command("dump", str(process)).stdout)
    assert scripts_of(part(seen)) == told and len(functions(part(seen))) == len(told)


# ---- A C program with its own Lua ----------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Iterator[int]:
    library = Path("/usr/lib/x86_64-linux-gnu/liblua5.4.a")
    if not library.exists():
        pytest.skip("no static Lua 5.4")
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.c").write_text(HOST)
    program = compile_c(
        folder / "host", [folder / "host.c"], "-I/usr/include/lua5.4", "-s", str(library), "-lm", "-ldl"
    )
    with Resting(program) as child:
        yield child.pid


@any_python
def test_a_program_that_was_deleted_since(host, tmp_path):
    """Gdb cannot unwind it: what it cannot place follows behind a gap."""
    program = Path(shutil.copy(f"/proc/{host}/exe", tmp_path / "program"))
    with Resting(program) as child:
        program.unlink()
        told = scripts_of(command("dump", str(child.pid)).stdout)
        seen = gdb("echo BEGIN\\n", "stacksplice bt", "bt", arguments=("-p", str(child.pid)))
    assert len(told) == 3 and scripts_of(part(seen)) == told
    assert len(functions(part(seen))) == 3


@any_python
def test_static_lua_in_a_stripped_program(host):
    told = frames(command("dump", str(host)).stdout)
    assert sum(line.startswith("(Lua)") for line in told) == 3
    seen = gdb("echo BEGIN\\n", "stacksplice bt", "bt", arguments=("-p", str(host)))
    assert frames(part(seen)) == told
    assert len(functions(part(seen))) == 3


@any_python
def test_its_core_file(host, tmp_path):
    core = str(copy_of(host, tmp_path))
    program = os.readlink(f"/proc/{host}/exe")
    seen = gdb("echo BEGIN\\n", "stacksplice bt", "bt", arguments=(program, core))
    assert frames(part(seen)) == frames(command("core", core).stdout)
    assert len(functions(part(seen))) == 3


# ---- Threads -------------------------------------------------------------------------------------


def by_thread(text: str) -> dict[str, list[str]]:
    parts = re.split(r"^thread (\d+).*$", text, flags=re.MULTILINE)
    return {number: frames(stack) for number, stack in zip(parts[1::2], parts[2::2], strict=True)}


@any_python
def test_all_threads():
    with start(HERE / "dump_program.py") as child:
        told = command("dump", "--all-frames", str(child.pid)).stdout
        seen = gdb(
            "echo BEGIN\\n",
            "stacksplice bt all -all-frames",
            "echo BT\\n",
            "thread apply all bt",
            arguments=("-p", str(child.pid)),
        )
    stacks, _, own = part(seen).partition("BT\n")
    assert len(by_thread(told)) > 10
    assert by_thread(stacks) == by_thread(told)
    assert len(functions(own)) == len(scripts_of(told))


# ---- Loaded by gdb itself ------------------------------------------------------------------------

LOADED = "import stacksplice, sys\nprint('ready', flush=True)\nsys.stdin.read()"


@any_python
def test_gdb_loads_it_with_the_library_where_that_is_safe():
    with start("-c", LOADED) as child:
        safe = ("-iex", f"add-auto-load-safe-path {PACKAGE}")
        seen = gdb("stacksplice bt", script=None, arguments=(*safe, "-p", str(child.pid)))
        assert '(Python) File "<string>", line 3, in <module>' in seen
        declined = gdb("stacksplice bt", script=None, arguments=("-p", str(child.pid)))
        assert re.search(r'File "\S+/libstacksplice\.so\.0-gdb\.py" auto-loading has been', declined)


# ---- What cannot be done -------------------------------------------------------------------------


def error_of(*commands: str, **options) -> str:
    lines = [line for line in gdb(*commands, **options).splitlines() if "stacksplice: " in line]
    (line,) = lines
    return line.partition("stacksplice: ")[2]


@any_python
def test_errors_are_one_line_with_the_next_step(process):
    for command_of_process in ("stacksplice bt", "stacksplice errors", "stacksplice frame 0"):
        assert error_of(command_of_process) == (
            "no process and no core file here: begin with run, attach PID, or core-file FILE"
        )
    assert error_of("stacksplice nosuch") == 'no command "nosuch"; see help stacksplice'
    assert error_of("stacksplice bt everything") == (
        "'everything' is no option here; there are: all, -all-frames, -locals, -no-source"
    )
    assert error_of("stacksplice frame nosuch").startswith("No symbol")
    assert part(gdb("echo BEGIN\\n", "stacksplice frame 0", arguments=("-p", str(process)))).startswith(
        "[gap: the process has no stacksplice"
    )
    running = ("set non-stop on", f"attach {process}", "continue&", "stacksplice bt")
    assert error_of(*running) == "the process runs: stop it first, by Ctrl-C or interrupt -a"


@any_python
def test_without_the_program(process, tmp_path):
    alone = tmp_path / "alone" / "_debuggers"
    shutil.copytree(GDB_SCRIPT.parent, alone)
    seen = gdb(
        "bt 1", "bt 1", "stacksplice bt", script=alone / GDB_SCRIPT.name, arguments=("-p", str(process))
    )
    why = f"there is no stacksplice-inspect beside {alone} or in PATH: install stacksplice anew\n"
    assert seen.count(f"stacksplice: no frames of scripts: {why}") == 1  # bt goes on without them
    assert seen.count(f"stacksplice: {why}") == 1
    assert seen.count("#0 ") >= 2


@any_python
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "#!/bin/sh\nread line\necho '{\"schema\":'\nkill -9 $$\n",
            "stacksplice-inspect ended early: please report this",
        ),
        ("of another machine", "cannot run stacksplice-inspect: Exec format error"),
    ],
)
def test_a_program_that_does_not_work(process, text, why, tmp_path):
    alone = tmp_path / "_debuggers"
    shutil.copytree(GDB_SCRIPT.parent, alone)
    program = tmp_path / "stacksplice-inspect"
    program.write_text(text)
    program.chmod(0o755)
    script, arguments = alone / GDB_SCRIPT.name, ("-p", str(process))
    assert error_of("stacksplice bt", script=script, arguments=arguments) == why
    assert "#0 " in gdb("bt 1", script=script, arguments=arguments)  # goes on without it


@any_python
def test_a_program_without_its_library(process, tmp_path):
    shutil.copytree(GDB_SCRIPT.parent, tmp_path / "_debuggers")
    shutil.copy(PACKAGE / "stacksplice-inspect", tmp_path)
    script = tmp_path / "_debuggers" / GDB_SCRIPT.name
    why = error_of("stacksplice bt", script=script, arguments=("-p", str(process)))
    assert why == "libstacksplice.so.0 is not beside stacksplice-inspect: install stacksplice anew"


@any_python
def test_the_selected_thread_and_frame_stay(process):
    seen = gdb("frame 3", "stacksplice bt", "echo BEGIN\\n", "frame", arguments=("-p", str(process)))
    assert part(seen).startswith("#3 ")


@any_python
def test_help():
    seen = gdb("help stacksplice", "help stacksplice bt")
    assert "stacksplice bt -- Print the combined stack of the selected thread" in seen
    assert "-all-frames" in seen
