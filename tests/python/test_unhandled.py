"""stacksplice_python_unhandled(): a host that embeds Python and has nobody to hand an error to."""

from __future__ import annotations

import pytest
from building import HERE, compile_c, core_library
from test_embedding import embedding_flags, run

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
def program(tmp_path_factory):
    output = tmp_path_factory.mktemp("unhandled") / "unhandled"
    return compile_c(output, [HERE / "unhandled_program.c"], *core_library(), *embedding_flags())


def test_as_the_interpreter_shows_it(program):
    done = run(program, SCRIPT)
    assert (done.returncode, done.stdout.splitlines()) == (0, LINES), done.stderr
    assert done.stderr.count("Traceback (most recent call last):") == 2
    assert "ValueError: unhandled\n" in done.stderr and "KeyboardInterrupt\n" in done.stderr
    assert done.stderr.count("a message\n") == 1


def test_by_the_hook_that_is_installed(program):
    script = SCRIPT + "stacksplice.install()\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n"
    done = run(program, script)
    shown = [line for line in done.stdout.splitlines() if line.startswith("hook")]
    assert shown == ["hook ValueError", "hook KeyboardInterrupt"] and done.returncode == 0
    script = SCRIPT + "calls[:] = [breaks_its_hook, works]\n"
    done = run(program, script)
    assert done.stdout.splitlines() == ["breaks_its_hook: 0x00000000, -1", "works: returned", "ended"]
    assert "Error in sys.excepthook:" in done.stderr and "ValueError: unhandled" in done.stderr


@pytest.mark.parametrize("installed", [False, True])
def test_the_hosts_handler_is_asked_first(program, installed):
    script = SCRIPT + "stacksplice.install()\n" * installed
    done = run(program, script, "handled")
    told = [line for line in done.stdout.splitlines() if line.startswith("handler")]
    assert [line.split(", ")[0] for line in told] == [
        "handler: ValueError: unhandled",
        "handler: KeyboardInterrupt",
    ]
    assert [line for line in done.stdout.splitlines() if line not in told] == LINES
    assert done.stderr == "a message\n" and done.returncode == 0


def test_what_it_does_not_handle_is_shown(program):
    """Once asked, once shown: install()'s hook does not ask again."""
    done = run(program, SCRIPT + "stacksplice.install()\ncalls[:] = [fails]\n", "refused")
    assert done.stdout.splitlines() == [
        "handler: ValueError: unhandled, refused",
        "fails: 0x00000000, -1",
        "ended",
    ]
    assert done.stderr.count("ValueError: unhandled") == 1 == done.stderr.count("Traceback")


@pytest.mark.parametrize("verdict", ["handled", "refused"])
def test_install_asks_it_about_what_python_itself_shows(program, verdict):
    """In an embedded interpreter too threads and finalizers end where the host sees nothing."""
    script = SCRIPT + "stacksplice.install()\ncalls[:] = [in_a_thread, in_a_finalizer]\n"
    done = run(program, script, verdict)
    assert done.stdout.count(f"handler: ValueError: unhandled, {verdict}\n") == 2
    if verdict == "handled":
        assert done.stderr == ""
    else:
        assert "Exception in thread worker:" in done.stderr and "Late.__del__" in done.stderr
        assert done.stderr.count("ValueError: unhandled\n") == 2


def test_in_logs_of_asyncio(program):
    script = (
        SCRIPT
        + """
stacksplice.install()
def loops():
    import asyncio
    async def main():
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(0)
    asyncio.run(main())
calls[:] = [loops]
"""
    )
    done = run(program, script, "handled")
    assert done.stdout.count("handler: ValueError: unhandled") == 1 and done.stderr == ""
    done = run(program, script, "refused")
    assert done.stderr.count("ValueError: unhandled\n") == 1
