"""install() and how a process ends: statuses, forks, threads and interpreters."""

from __future__ import annotations

import signal
import sys

import pytest
from test_hooks import COMBINED, PROLOGUE


@pytest.fixture
def child(child):
    return child.behind(PROLOGUE)


@pytest.mark.parametrize(
    "target, status",
    [
        ("lambda: sys.exit(7)", 7),
        ("lambda: sys.exit('a message')", 1),
        ("sys.exit", 0),
        ("lambda: [][0]", 1),
        ("interrupt", -signal.SIGINT),
    ],
)
def test_exit_statuses_stay(child, target, status):
    source = f"def interrupt(): raise KeyboardInterrupt\nstacksplice.install()\nborder.call({target})\n"
    done = child(source, status=status)
    assert ("Propagation:" in done.stderr) == (status in (1, -2) and "message" not in target)
    assert ("a message\n" in done.stderr) == ("message" in target)


HOOKS = {
    "found": "def hook(*args): pass\nsys.excepthook = hook\nstacksplice.install()",
    "around": "stacksplice.install()\nfound = sys.excepthook\n"
    "def hook(*args): found(*args)\nsys.excepthook = hook",
}


@pytest.mark.parametrize("order", HOOKS)
def test_an_interrupt_ends_the_program_beside_other_hooks(child, order):
    source = f"def interrupt(): raise KeyboardInterrupt\n{HOOKS[order]}\nborder.call(interrupt)\n"
    assert COMBINED in child(source, status=-signal.SIGINT).stderr


def test_an_interrupt_that_is_only_shown_ends_nothing(child):
    done = child("""
def interrupt(): raise KeyboardInterrupt
stacksplice.install()
try:
    border.call(interrupt)
except KeyboardInterrupt as exc:
    sys.last_value = exc
    sys.excepthook(type(exc), exc, exc.__traceback__)
""")
    assert COMBINED in done.stderr


def test_at_the_end_of_the_interpreter(child):
    done = child("""
stacksplice.install()
class Late:
    def __init__(self, call): self.call, self.fails = call, fails
    def __del__(self): self.call(self.fails)
import builtins
sys.modules["late"] = Late(border.call)  # dropped while modules are still whole
builtins.late = Late(border.call)        # dropped when all others are empty
""")
    assert "Error in sys.unraisablehook" not in done.stderr
    assert done.stderr.count("ValueError: unhandled") == 2


def test_daemon_threads_at_the_end(child):
    for _ in range(5):
        done = child("""
import time
stacksplice.install()
def forever():
    while True:
        exc = crossing()
        threading.excepthook(threading.ExceptHookArgs((type(exc), exc, exc.__traceback__, None)))
class Quiet:
    def write(self, text): pass
    def flush(self): pass
sys.stderr = Quiet()
for _ in range(4): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""")
        assert done.stderr == ""


def test_after_a_fork(child):
    done = child("""
import os
stacksplice.install()
pid = os.fork()
if not pid:
    border.call(fails)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
stacksplice.uninstall()
assert sys.excepthook is sys.__excepthook__
""")
    assert done.stderr.count(COMBINED) == 1


def test_faulthandler_is_left_alone(child):
    done = child(
        "import faulthandler; faulthandler.enable(); stacksplice.install()\nfaulthandler._sigsegv()\n",
        status=-signal.SIGSEGV,
    )
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert 'File "<string>"' in done.stderr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="one interpreter there is of 3.12 and newer")
def test_every_interpreter_has_its_own(child):
    done = child("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
own = sys.excepthook
stacksplice.install()
def run(source):
    made = interpreters.create()
    try:
        failed = interpreters.run_string(made, source)
        assert failed is None, failed
    finally:
        interpreters.destroy(made)
run('''
import sys, threading, stacksplice
assert type(sys.excepthook) is type(print)
stacksplice.install()
def fails():
    raise ValueError("inside")
def crosses():
    try:
        fails()
    except ValueError as exc:
        stacksplice.originate(exc)
        stacksplice.take_error()
        sys.excepthook(type(exc), exc, exc.__traceback__)
crosses()
''')
assert sys.excepthook is not own
stacksplice.uninstall()
assert sys.excepthook is own
run("import sys, stacksplice; assert type(sys.excepthook) is type(print)")
""")
    assert done.stderr.count("ValueError: inside") == 1
