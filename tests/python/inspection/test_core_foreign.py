"""``stacksplice core`` reads core files of 64-bit Arm, whatever machine it runs on."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess

import pytest
from building import command
from debugging import gdb, lldb, part, scripts_of
from foreign_core import COMPILER, CROSS, address_of, core_of, needs, place_of, programs, start
from test_core import CRASH, damage, functions, inspected, read

pytestmark = pytest.mark.any_python

# Writes its own stack where it fails, or in the handler of the signal, which then aborts.
NATIVE = """
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_stack(void)
{
    void *frames[64];
    int count = backtrace(frames, 64);

    for (int i = 0; i < count; i++)
        printf("%p\\n", frames[i]);
    fflush(stdout);
}

static void handler(int signal)
{
    write_stack();
    abort();
}

static void write_maps(void)
{
    FILE *from = fopen("/proc/self/maps", "r"), *to = fopen("maps", "w");

    for (int c; (c = getc(from)) != EOF;)
        putc(c, to);
    fclose(to);
}

static void set_handler(const char *kind)
{
    static char other[1 << 16];
    stack_t place = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_handler = handler, .sa_flags = strcmp(kind, "same") ? SA_ONSTACK : 0};

    sigaltstack(&place, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

__attribute__((noinline)) static int leaf(const int *value)
{
    return *value;
}

static int with_handler;

static int compare(const void *left, const void *right)
{
    if (!with_handler)
        write_stack();
    return leaf((const int *)16) + (left < right);
}

int main(int count, char **arguments)
{
    int numbers[] = {2, 1};

    write_maps();
    with_handler = count > 1;
    if (with_handler)
        set_handler(arguments[1]);
    qsort(numbers, 2, sizeof *numbers, compare);
    return numbers[0];
}
"""

# A metamethod in a coroutine in a protected call; the signal comes while the innermost waits.
CRASHING_LUA = """
local function crash()
  io.open("maps", "w"):write(io.open("/proc/self/maps"):read("a")):close()
  return (os.execute("kill -ABRT $PPID"))
end
local function inner(n)
  if n == 0 then return crash() end
  local value = inner(n - 1)
  return value
end
local co = coroutine.wrap(function()
  local t = setmetatable({}, {__index = function(_, key) local value = inner(key) return value end})
  local value = t[2]
  return value
end)
local ok = pcall(function() local value = co() return value end)
print(ok)
"""
LINES = [4, 8, 8, 12, 13, 16, 16]


def native_stack(folder, *arguments, flags=()):
    """The stack that a program wrote, the one that its core file has, and that file."""
    needs("qemu-aarch64", COMPILER)
    (folder / "crash.c").write_text(NATIVE)
    subprocess.run([COMPILER, "-O2", "-g", *flags, "crash.c", "-o", "crash"], cwd=folder, check=True)
    child = start(CROSS, folder / "crash", *arguments, cwd=folder)
    assert child.stdout is not None
    own = [int(line, 16) for line in child.stdout]
    core = core_of(child, CROSS, folder)
    document = read(core, "--root", CROSS, "--exe", str(folder / "crash"))
    (thread,) = document["threads"]
    assert document["process"]["signal"] == (signal.SIGABRT if arguments else signal.SIGSEGV)
    assert document["notes"] == []
    return own, thread["stack"], core


def address(frame):
    return int(frame["address"], 16)


@pytest.mark.parametrize("flags", [(), ("-mbranch-protection=standard",), ("-fomit-frame-pointer",)])
def test_the_native_stack_is_the_one_that_the_program_wrote(flags, tmp_path):
    own, stack, _ = native_stack(tmp_path, flags=flags)
    assert [frame.get("function") for frame in stack[:2]] == ["leaf", "compare"]
    assert [address(frame) for frame in stack[2:]] == own[2:]
    assert "main" in [frame.get("function") for frame in stack]
    assert {frame["trust"] for frame in stack} == {"exact"}


@pytest.mark.parametrize("place", ["same", "other"])
@pytest.mark.parametrize("flags", [(), ("-mbranch-protection=standard",)])
def test_a_stack_goes_on_below_a_signal(place, flags, tmp_path):
    own, stack, _ = native_stack(tmp_path, place, flags=flags)
    names = [frame.get("function") for frame in stack]
    back = names.index("handler") + 1  # the code by which the handler returns
    assert names[back + 1 : back + 3] == ["leaf", "compare"] and "main" in names
    assert address(stack[back]) in own
    outer = [address(frame) for frame in stack[back + 2 :]]
    assert outer == own[-len(outer) :]
    assert "gap" not in [frame["kind"] for frame in stack]


PC_IN_SIGNAL_FRAME, SP_IN_SIGNAL_FRAME = 568, 560


def test_signals_that_lead_in_a_circle(tmp_path):
    """Two frames of signals, on two stacks, each of which says that it interrupted the other's return."""
    _, stack, core = native_stack(tmp_path, "other")
    back = [frame.get("function") for frame in stack].index("handler") + 1
    data = bytearray(core.read_bytes())
    interrupted = struct.pack("<Q", address(stack[back + 1]) - 1)
    there = data.rindex(interrupted) - PC_IN_SIGNAL_FRAME  # those further inside are copies
    place = there + SP_IN_SIGNAL_FRAME
    (main_stack,) = struct.unpack_from("<Q", data, place)
    made = main_stack - 4096  # the program had its handler elsewhere, so this is not used
    pair = (address_of(data, there), address(stack[back]))
    struct.pack_into("<QQ", data, place_of(data, made) + SP_IN_SIGNAL_FRAME, *pair)
    struct.pack_into("<QQ", data, place, made, address(stack[back]))
    core.write_bytes(data)
    document = inspected(core, "--root", CROSS, "--exe", str(tmp_path / "crash"))
    assert document is not None
    last = document["threads"][0]["stack"][-1]
    assert last["reason"] == "native part truncated: the stack is damaged"


@pytest.fixture(scope="module")
def root():
    return programs()


@pytest.fixture(scope="module")
def program(root) -> str:
    return str(next((root / "usr" / "bin").glob("python3.[0-9]*")))


def core_of_python(root, program, how, folder):
    writes = "open('maps', 'w').write(open('/proc/self/maps').read())\nmain()\n"
    (folder / "crash.py").write_text(CRASH.removesuffix("main()\n") + writes)
    return core_of(start(root, program, "crash.py", how, cwd=folder), root, folder)


@pytest.mark.parametrize(("how", "top"), [("abort", []), ("call", []), ("read", ["string_at"])])
def test_python(how, top, root, program, tmp_path):
    core = core_of_python(root, program, how, tmp_path)
    document = read(core, "--root", str(root))
    crashed, other = document["threads"]
    assert document["notes"] == []
    assert functions(crashed) == [*top, "crash", "main", "<module>"]
    assert "resting" in functions(other) and "other" in functions(other)
    assert "gap" not in [frame["kind"] for frame in crashed["stack"] + other["stack"]]
    natives = [frame.get("function", "") for frame in crashed["stack"] if frame["kind"] == "native"]
    assert "qsort_r" in natives


@pytest.fixture(scope="module")
def lua_core(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lua")
    (folder / "crash.lua").write_text(CRASHING_LUA)
    return core_of(start(root, root / "usr" / "bin" / "lua5.4", "crash.lua", cwd=folder), root, folder)


def test_lua(root, lua_core):
    (thread,) = read(lua_core, "--root", str(root))["threads"]
    assert [frame["line"] for frame in thread["stack"] if frame["kind"] == "script"] == LINES
    assert "gap" not in [frame["kind"] for frame in thread["stack"]]
    # pcall, coroutine.wrap and the loops between them are there, too.
    first = next(at for at, frame in enumerate(thread["stack"]) if frame["kind"] == "script")
    kinds = "".join(frame["kind"][0] for frame in thread["stack"][first:])
    assert kinds.startswith("sss") and kinds.count("sn") == 4, kinds


@pytest.mark.long
def test_damaged_files(root, lua_core, tmp_path):
    damage(lua_core, tmp_path, 0, "--root", str(root))


def test_files_of_another_machine_are_not_used(root, lua_core, tmp_path):
    program = bytearray((root / "usr" / "bin" / "lua5.4").read_bytes())
    program[18] = 62  # x86-64
    (tmp_path / "lua").write_bytes(program)
    shutil.copytree(root / "lib", tmp_path / "lib")  # no link may lead out of a root
    # The second finds this machine's own program where the other had its.
    for where in (("--root", str(root), "--exe", str(tmp_path / "lua")), ("--root", str(tmp_path))):
        document = read(lua_core, *where)
        (note,) = document["notes"]
        assert note.startswith("1 binaries of the process were not found here") and "/usr/bin/lua5.4" in note
        (thread,) = document["threads"]
        frames = [frame for frame in thread["stack"] if frame.get("module") == "/usr/bin/lua5.4"]
        assert frames and not any("function" in frame for frame in frames)
    assert any("binaries of the process were not found here" in note for note in read(lua_core)["notes"])


# ---- Debuggers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def core(root, program, tmp_path_factory) -> str:
    return str(core_of_python(root, program, "call", tmp_path_factory.mktemp("arm")))


def told(root, core: str) -> list[str]:
    found = scripts_of(command("core", "--all-frames", "--root", str(root), core).stdout)
    assert len(found) > 4
    return found


def in_gdb(root, program: str, core: str, debugger: str, *commands: str) -> str:
    begin = (f"set sysroot {root}", f"file {program}", f"core-file {core}", "echo BEGIN\\n")
    return part(gdb(*begin, *commands, program=debugger))


def test_gdb(root, program, core):
    seen = in_gdb(root, program, core, "gdb-multiarch", "stacksplice bt all -all-frames", "echo BT\\n", "bt")
    every, _, own = seen.partition("BT\n")
    assert scripts_of(every) == told(root, core)
    # gdb's own unwinder may end early.
    assert "(Python) crash () at " in own and "(Python) <module> () at " in own
    assert "Traceback" not in seen


def test_a_gdb_that_does_not_know_the_machine(root, program, core):
    seen = in_gdb(
        root, program, core, "gdb", "stacksplice bt", "bt", "disable frame-filter global stacksplice", "bt"
    )
    if " 0x0000000000000010 in " in seen:
        pytest.skip("this gdb knows 64-bit Arm")
    assert seen.count("gdb-multiarch may know it") == 2 and "Traceback" not in seen
    first, second = (text for text in seen.split("#0 ")[1:])
    assert first.splitlines()[:2] == second.splitlines()[:2]


def test_lldb(root, program, core):
    begin = (f"platform select remote-linux --sysroot {root}", f"target create {program} --core {core}")
    assert scripts_of(lldb(*begin, "stacksplice bt all -all-frames")) == told(root, core)
