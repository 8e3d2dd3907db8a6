"""gdb-multiarch and lldb on core files of 64-bit Arm, which have no pages of the binaries in them."""

from __future__ import annotations

import pytest
from building import command
from debugging import gdb, lldb, part, scripts_of
from foreign_core import core_of, programs, start
from test_core import CRASH

pytestmark = pytest.mark.any_python


@pytest.fixture(scope="module")
def root():
    return programs()


@pytest.fixture(scope="module")
def program(root) -> str:
    return str(next((root / "usr" / "bin").glob("python3.[0-9]*")))


@pytest.fixture(scope="module")
def core(root, program, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("arm")
    writes = "open('maps', 'w').write(open('/proc/self/maps').read())\nmain()\n"
    (folder / "crash.py").write_text(CRASH.removesuffix("main()\n") + writes)
    return str(core_of(start(root, program, "crash.py", "call", cwd=folder), root, folder))


def told(root, core: str) -> list[str]:
    found = scripts_of(command("core", "--root", str(root), core).stdout)
    assert len(found) > 4
    return found


def in_gdb(root, program: str, core: str, debugger: str, *commands: str) -> str:
    begin = (f"set sysroot {root}", f"file {program}", f"core-file {core}", "echo BEGIN\\n")
    return part(gdb(*begin, *commands, program=debugger))


def test_gdb(root, program, core):
    seen = in_gdb(root, program, core, "gdb-multiarch", "stacksplice bt all", "echo BT\\n", "bt")
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
    assert scripts_of(lldb(*begin, "stacksplice bt all")) == told(root, core)
