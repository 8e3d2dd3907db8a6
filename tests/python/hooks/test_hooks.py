"""install(): unhandled exceptions in the main thread, in others, where nobody raises them, and at the end."""

from __future__ import annotations

import re
import signal
import sys

import pytest

PROLOGUE = """
import sys, threading, stacksplice, border
def fails():
    raise ValueError("unhandled")
def interrupt():
    raise KeyboardInterrupt
def crossing():
    try:
        border.call(fails)
    except ValueError as exc:
        return exc
"""
COMBINED = "Propagation:"


@pytest.fixture
def child(child):
    return child.behind(PROLOGUE)


# ---- What is shown -------------------------------------------------------------------------------

INSTALL = "stacksplice.install()\n"
WRAP = """
def wrap(found):
    def wrapper(*arguments):
        print("called", file=sys.__stderr__)
        found(*arguments)
    return wrapper
stacksplice.install()
sys.excepthook = wrap(sys.excepthook)
"""
CROSS = "border.call(fails)\n"
THREAD = """
thread = threading.Thread(target=border.call, args=(fails,), name="w\u00f6rker")
sys.stderr = {file}
thread.start(); thread.join()
"""
ONLY_WRITES = """
class Only:
    def write(self, text): print(text, file=sys.__stderr__)
sys.stderr = Only()
import atexit; atexit.register(setattr, sys, "stderr", sys.__stderr__)  # it has no flush()
"""
BREAKS = """
def broken(*_): raise LookupError("no report")
import stacksplice._hooks.unhandled
stacksplice._hooks.unhandled.style_of = broken
"""
LATE_ONES = """
class Late:
    def __init__(self, call): self.call, self.fails = call, fails
    def __del__(self): self.call(self.fails)
import builtins
sys.modules["late"] = Late(border.call)  # dropped while modules are still whole
builtins.late = Late(border.call)        # dropped when all others are empty
"""
ONLY_SHOWN = """
try:
    border.call(interrupt)
except KeyboardInterrupt as exc:
    sys.last_value = exc
    sys.excepthook(type(exc), exc, exc.__traceback__)
"""
FORK = """
import os
pid = os.fork()
if not pid:
    border.call(fails)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
stacksplice.uninstall()
assert sys.excepthook is sys.__excepthook__
"""
KEPT = "def hook(*args): print('called', file=sys.stderr)\nsys.excepthook = hook\n"
FAILING_HOOK = "def theirs(*arguments): raise KeyError('theirs')\nsys.excepthook = theirs\n"
FAULT = "import faulthandler; faulthandler.enable()\n" + INSTALL + "faulthandler._sigsegv()\n"
# name: (program, its status, how often texts are in its stderr)
ENDS = {
    "a cause": (INSTALL + "raise RuntimeError('outer') from crossing()", 1, {COMBINED: 1, "outer\n": 1}),
    "a context": (
        INSTALL + "try: border.call(fails)\nexcept ValueError: {}['outer']",
        1,
        {COMBINED: 1, "KeyError: 'outer'": 1},
    ),
    "a member": (
        INSTALL + "raise ExceptionGroup('outer', [KeyError(), ExceptionGroup('inner', [crossing()])])",
        1,
        {COMBINED: 1},
    ),
    "suppressed": (
        INSTALL + "try: border.call(fails)\nexcept ValueError: raise KeyError('outer') from None",
        1,
        {COMBINED: 0, "KeyError: 'outer'": 1, "unhandled": 0},
    ),
    # As without install(): the interpreter says at most that it lost its file.
    "no file": (INSTALL + "sys.stderr = None\n" + CROSS, 1, {COMBINED: 0, "sys.excepthook": 0}),
    "a closed file": (INSTALL + "sys.stderr.close()\n" + CROSS, 1, {COMBINED: 0, "sys.excepthook": 0}),
    "a file deleted": (INSTALL + "del sys.stderr\n" + CROSS, 1, {COMBINED: 0, "sys.excepthook": 0}),
    "a thread remembers its file": (
        INSTALL + THREAD.format(file=None),
        0,
        {"Exception in thread w\u00f6rker:\n": 1, COMBINED: 1},
    ),
    "a file that cannot encode": (
        INSTALL
        + "sys.stderr.reconfigure(encoding='ascii', errors='strict')\n"
        + "def fails(): raise ValueError('gr\u00f6\u00dfe')\n"
        + THREAD.format(file="sys.stderr"),
        0,
        {"Exception in thread w\\xf6rker:\n": 1, "ValueError: gr\\xf6\\xdfe": 1},
    ),
    "a file of somebody else": (INSTALL + ONLY_WRITES + CROSS, 1, {COMBINED: 1}),
    "a report that fails": (
        INSTALL + BREAKS + CROSS,
        1,
        {"stacksplice: no combined report: LookupError: no report\n": 1, "ValueError: unhandled\n": 1},
    ),
    "installed again below and above others": (
        WRAP + INSTALL + "sys.excepthook = wrap(sys.excepthook)\n" + INSTALL + CROSS,
        1,
        {"called\n": 2, "ValueError: unhandled": 1, COMBINED: 1},
    ),
    "uninstalled below others": (
        WRAP + "stacksplice.uninstall()\n" + CROSS,
        1,
        {COMBINED: 0, "ValueError: unhandled\n": 1, "Traceback (most": 1},
    ),
    "a hook that fails": (
        FAILING_HOOK + INSTALL + CROSS,
        1,
        {"Error in sys.excepthook:": 1, "KeyError: 'theirs'": 1, "Original exception was:": 1, COMBINED: 1},
    ),
    "a status": (INSTALL + "border.call(lambda: sys.exit(7))", 7, {COMBINED: 0}),
    "a message": (INSTALL + "border.call(lambda: sys.exit('a message'))", 1, {COMBINED: 0, "a message\n": 1}),
    "no status": (INSTALL + "border.call(sys.exit)", 0, {COMBINED: 0}),
    "an error": (INSTALL + "border.call(lambda: [][0])", 1, {COMBINED: 1}),
    "an interrupt": (INSTALL + "border.call(interrupt)", -signal.SIGINT, {COMBINED: 1}),
    "an interrupt with a hook": (KEPT + INSTALL + "border.call(interrupt)", -signal.SIGINT, {COMBINED: 1}),
    "an interrupt in a hook": (WRAP + "border.call(interrupt)", -signal.SIGINT, {COMBINED: 1}),
    "an interrupt that is only shown": (INSTALL + ONLY_SHOWN, 0, {COMBINED: 1}),
    "finalizers at the end": (
        INSTALL + LATE_ONES,
        0,
        {"Error in sys.unraisablehook": 0, "ValueError: unhandled": 2},
    ),
    "a forked child": (INSTALL + FORK, 0, {COMBINED: 1}),
    "faulthandler": (
        FAULT,
        -signal.SIGSEGV,
        {"Fatal Python error: Segmentation fault": 1, 'File "<string>"': 1},
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_program_ends(child, name):
    program, status, counts = ENDS[name]
    done = child(program, status=status)
    assert {text: done.stderr.count(text) for text in counts} == counts, done.stderr


def test_excepthook_for_other_exceptions(child):
    """Finding that they have no more to show opens no debug files."""
    opened = "import atexit\natexit.register(lambda: print('libdw' in open('/proc/self/maps').read()))\n"
    plain = child(opened + "\nfails()\n", status=1)
    hooked = child(opened + "stacksplice.install()\nfails()\n", status=1)
    assert hooked.stderr == plain.stderr
    assert hooked.stdout == "False\n"


def test_threading_excepthook(child):
    done = child("""
started, go = threading.Event(), threading.Event()
def early():
    started.set(); go.wait(); border.call(fails)
before = threading.Thread(target=early, name="before")
before.start(); started.wait()
stacksplice.install()
go.set(); before.join()
for name, target in [("worker", fails), ("quiet", sys.exit)]:
    thread = threading.Thread(target=border.call, args=(target,), name=name)
    thread.start(); thread.join()
""")
    assert done.stderr.startswith("Exception in thread before:\nTraceback (most recent call last)")
    assert "\nException in thread worker:\nTraceback (most recent call last)" in done.stderr
    assert done.stderr.count(COMBINED) == 2 and "quiet" not in done.stderr
    assert "reported by thread" not in done.stderr


LATE = """
class Late:
    def __del__(self):
        target()
Late()
"""


def test_unraisablehook_says_what_the_interpreter_says(child):
    plain = child("target = fails" + LATE)
    done = child("stacksplice.install()\ntarget = lambda: border.call(fails)" + LATE)
    assert done.stderr.startswith("Exception ignored ") and "Late.__del__" in done.stderr
    assert COMBINED in done.stderr
    if sys.version_info >= (3, 12):  # 3.11 prints the address of the function
        headers = [text.splitlines()[0].rpartition(" at 0x")[0] for text in (plain.stderr, done.stderr)]
        assert headers[0] == headers[1] and "Late.__del__" in headers[0]


def test_unraisable_without_an_object(child):
    done = child("""
import types
stacksplice.install()
class Bad:
    def __repr__(self): raise KeyError
for what, message in [(None, None), (None, "Exception somewhere"), (Bad(), "Ignored")]:
    exc = crossing()
    sys.unraisablehook(types.SimpleNamespace(
        exc_type=type(exc), exc_value=exc, exc_traceback=None, err_msg=message, object=what))
""")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback (most recent call last)")
    assert "Exception somewhere:" in lines and "Ignored: <object repr() failed>" in lines
    assert done.stderr.count(COMBINED) == 3


def test_nothing_is_kept_alive(child):
    done = child("""
import gc, io, weakref
stacksplice.install()
gc.disable()
seen = []
class Error(ValueError):
    def __init__(self):
        seen.append(weakref.ref(self))
def fails():
    raise Error
class Late:
    def __del__(self):
        border.call(fails)
late = Late()
seen.append(weakref.ref(late))
del late
thread = threading.Thread(target=border.call, args=(fails,)); thread.start(); thread.join()
seen.append(weakref.ref(thread))
del thread
print(len(seen), [one() for one in seen if one()])
""")
    assert done.stderr.count("\nError\n") == 2
    assert done.stdout == "4 []\n"


# ---- Hooks of others -----------------------------------------------------------------------------


def test_hooks_are_polite(child):
    done = child("""
seen = []
def mine(*arguments): seen.append(arguments)
sys.excepthook = threading.excepthook = sys.unraisablehook = mine
stacksplice.install()
stacksplice.install()
assert sys.excepthook is not mine
try: border.call(fails)
except ValueError as exc: sys.excepthook(type(exc), exc, exc.__traceback__)
assert len(seen) == 1 and seen[0][0] is ValueError
thread = threading.Thread(target=border.call, args=(fails,)); thread.start(); thread.join()
assert len(seen) == 2
def theirs(*arguments): pass
sys.excepthook = theirs
stacksplice.uninstall()
assert sys.excepthook is theirs
assert threading.excepthook is mine and sys.unraisablehook is mine
stacksplice.uninstall()
print("ok")
""")
    assert done.stdout == "ok\n"
    assert done.stderr.count(COMBINED) == 2


def test_uninstall_restores_the_interpreters_own(child):
    child("""
import logging
theirs = {**vars(sys), "threading": threading.excepthook}
stacksplice.uninstall()
for round in range(3):
    stacksplice.install()
    ours = sys.excepthook, threading.excepthook, sys.unraisablehook
    stacksplice.install()
    for name in ("excepthook", "unraisablehook"):
        assert getattr(sys, name) is getattr(sys, f"__{name}__") is not theirs[name]
    assert threading.excepthook is threading.__excepthook__ is not theirs["threading"]
    assert ours == (sys.excepthook, threading.excepthook, sys.unraisablehook)
    stacksplice.uninstall()
    for name in ("excepthook", "unraisablehook"):
        assert getattr(sys, name) is getattr(sys, f"__{name}__") is theirs[name]
    assert threading.excepthook is threading.__excepthook__ is theirs["threading"]
    assert not logging.getLogger("asyncio").filters
    assert not logging.getLogger("concurrent.futures").filters
""")


ASKS = """
import code, io
class Console(code.InteractiveInterpreter):
    def write(self, data): print(data, end="")
console = Console({"border": border, "fails": fails})
for source in ("1 / 0", "def f(:", "border.call(fails)"):
    console.runsource(source)
exc = crossing()
sys.stderr = io.StringIO()
sys.__excepthook__(type(exc), exc, exc.__traceback__)
try: border.call(fails)
except ValueError: sys.excepthook(*sys.exc_info())
print(sys.stderr.getvalue(), sys.excepthook is sys.__excepthook__)
sys.stderr = sys.__stderr__
"""


def test_who_asks_whether_a_hook_is_the_interpreters_own_is_not_deceived(child):
    """A console with a write() of its own, and calls by hand."""
    plain = child("\n" + ASKS)
    done = child("stacksplice.install()\n" + ASKS)
    assert plain.stdout.count("ValueError: unhandled") == 3 and plain.stderr == ""
    line = re.compile(r'border\.c", line \d+, in call\n    .*\n')  # from 3.12 on that of the raise
    assert (line.sub("", done.stdout), done.stderr) == (line.sub("", plain.stdout), "")


def test_a_hook_of_ours_looks_like_the_one_in_whose_place_it_is(child):
    child("""
import sys, threading, stacksplice
def about(hook):
    return [getattr(hook, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")]
def fails(hook, *arguments):
    try: hook(*arguments)
    except Exception as exc: return repr(exc)
def all_about(hooks):
    return [(about(hook), fails(hook), fails(hook, 5), fails(hook, ValueError())) for hook in hooks]
def hooks():
    return sys.excepthook, threading.excepthook, sys.unraisablehook
plain = all_about(hooks())
stacksplice.install()
assert all_about(hooks()) == plain, (all_about(hooks()), plain)
""")


QT = """
from PyQt5.QtCore import QCoreApplication, QTimer
{}
app = QCoreApplication([])
QTimer.singleShot(0, lambda: border.call(fails))
QTimer.singleShot(1, app.quit)
sys.exit(app.exec_())
"""


@pytest.mark.parametrize("installed", ["", "stacksplice.install()", "sys.excepthook = print"])
def test_qt_ends_its_programs_as_before(child, installed):
    """PyQt aborts, unless somebody has set a hook."""
    pytest.importorskip("PyQt5.QtCore")
    done = child(QT.format(installed), status=0 if "print" in installed else -6)
    assert done.stderr.count(COMBINED) == (1 if "install" in installed else 0)


def test_one_of_ours_that_was_put_back(child):
    done = child("""
for place, name in [(sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")]:
    stacksplice.install()
    ours = getattr(place, name)
    stacksplice.uninstall()
    setattr(place, name, ours)          # as at the end of a context manager
    stacksplice.install()
    assert getattr(place, name) is getattr(place, f"__{name}__")
    stacksplice.uninstall()
    assert getattr(place, name) is getattr(place, f"__{name}__")
""")
    assert done.stderr == ""


@pytest.mark.parametrize("threads", [40, pytest.param(100, marks=pytest.mark.long)])
def test_in_many_threads_at_once(child, threads):
    done = child(
        """
stop = threading.Event()
def switch():
    while not stop.is_set():
        stacksplice.install(); stacksplice.uninstall()
switchers = [threading.Thread(target=switch) for _ in range(4)]
for thread in switchers: thread.start()
for _ in range(THREADS):
    thread = threading.Thread(target=border.call, args=(fails,)); thread.start(); thread.join()
stop.set()
for thread in switchers: thread.join()
stacksplice.uninstall()
assert sys.excepthook is sys.__excepthook__
assert threading.excepthook is threading.__excepthook__
""".replace("THREADS", str(threads))
    )
    assert done.stderr.count("Exception in thread ") == threads
    assert done.stderr.count("ValueError: unhandled") == threads


# ---- The end ---------------------------------------------------------------------------------------


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
