"""install(): unhandled exceptions in the main thread, in others, and where nobody can raise them."""

from __future__ import annotations

import re
import sys

import pytest

PROLOGUE = """
import sys, threading, stacksplice, border
def fails():
    raise ValueError("unhandled")
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


def test_excepthook_for_other_exceptions(child):
    """Finding that they have no more to show opens no debug files."""
    opened = "import atexit\natexit.register(lambda: print('libdw' in open('/proc/self/maps').read()))\n"
    plain = child(opened + "\nfails()\n", status=1)
    hooked = child(opened + "stacksplice.install()\nfails()\n", status=1)
    assert hooked.stderr == plain.stderr
    assert hooked.stdout == "False\n"


@pytest.mark.parametrize(
    "outer",
    [
        "raise RuntimeError('outer') from crossing()",
        "try: border.call(fails)\nexcept ValueError: {}['outer']",
        "raise ExceptionGroup('outer', [KeyError(), ExceptionGroup('inner', [crossing()])])",
    ],
)
def test_what_is_inside_counts(child, outer):
    """The outer exception crossed nothing, its cause, context or member did."""
    done = child(f"stacksplice.install()\n{outer}\n", status=1)
    assert done.stderr.count(COMBINED) == 1 and "outer" in done.stderr.replace(COMBINED, "")


def test_what_is_suppressed_does_not_count(child):
    source = "try: border.call(fails)\nexcept ValueError: raise KeyError('outer') from None\n"
    plain = child("\n" + source, status=1)
    hooked = child("stacksplice.install()\n" + source, status=1)
    assert hooked.stderr == plain.stderr


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


# ---- Files that cannot be written to -------------------------------------------------------------


@pytest.mark.parametrize("change", ["sys.stderr = None", "sys.stderr.close()", "del sys.stderr"])
def test_without_a_file(child, change):
    rest = f"""
stacksplice.install()
{change}
border.call(fails)
"""
    done = child(rest, status=1)
    # As without install(): the interpreter says at most that it lost its file.
    assert COMBINED not in done.stderr and "sys.excepthook" not in done.stderr


def test_a_thread_remembers_its_file(child):
    done = child("""
stacksplice.install()
thread = threading.Thread(target=border.call, args=(fails,), name="worker")
sys.stderr = None
thread.start(); thread.join()
""")
    assert "Exception in thread worker:\n" in done.stderr and COMBINED in done.stderr


def test_a_file_that_cannot_encode(child):
    done = child("""
stacksplice.install()
sys.stderr.reconfigure(encoding="ascii", errors="strict")
def fails(): raise ValueError("größe")
thread = threading.Thread(target=border.call, args=(fails,), name="wörker")
thread.start(); thread.join()
""")
    assert "Exception in thread w\\xf6rker:\n" in done.stderr
    assert "ValueError: gr\\xf6\\xdfe" in done.stderr


def test_a_file_of_somebody_elses(child):
    done = child.fails("""
stacksplice.install()
class Only:
    def write(self, text): print(text)
sys.stderr = Only()
import atexit; atexit.register(setattr, sys, "stderr", sys.__stderr__)  # it has no flush()
border.call(fails)
""")
    assert done.stdout.count(COMBINED) == 1


def test_a_report_that_fails_is_no_loss(child):
    done = child.fails("""
stacksplice.install()
def broken(*_): raise LookupError("no report")
import stacksplice._hooks.unhandled
stacksplice._hooks.unhandled.wants_color = broken
border.call(fails)
""")
    assert "stacksplice: no combined report: LookupError: no report\n" in done.stderr
    assert done.stderr.endswith("ValueError: unhandled\n")


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


WRAPPED = """
calls = []
def wrap(found):
    def wrapper(*arguments):
        calls.append(found)
        found(*arguments)
    return wrapper
stacksplice.install()
sys.excepthook = wrap(sys.excepthook)
"""


def test_installed_again_below_and_above_others(child):
    rest = "stacksplice.install()\nsys.excepthook = wrap(sys.excepthook)\nstacksplice.install()\n"
    show = "import atexit\natexit.register(lambda: print(len(calls)))\nborder.call(fails)"
    done = child(WRAPPED + rest + show, status=1)
    assert done.stdout == "2\n"
    assert done.stderr.count("ValueError: unhandled") == 1 == done.stderr.count(COMBINED)


def test_uninstalled_below_others_it_only_passes_on(child):
    rest = "stacksplice.uninstall()\nborder.call(fails)\n"
    done = child(WRAPPED + rest, status=1)
    assert COMBINED not in done.stderr
    assert done.stderr.count("ValueError: unhandled\n") == 1 and "Traceback (most" in done.stderr


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


def test_a_hook_that_fails_is_told_by_the_interpreter(child):
    done = child.fails("""
def theirs(*arguments): raise KeyError("theirs")
sys.excepthook = theirs
stacksplice.install()
border.call(fails)
""")
    assert "Error in sys.excepthook:" in done.stderr and "KeyError: 'theirs'" in done.stderr
    assert "Original exception was:" in done.stderr and COMBINED in done.stderr


def test_in_many_threads_at_once(child):
    done = child("""
stop = threading.Event()
def switch():
    while not stop.is_set():
        stacksplice.install(); stacksplice.uninstall()
switchers = [threading.Thread(target=switch) for _ in range(4)]
for thread in switchers: thread.start()
for _ in range(100):
    thread = threading.Thread(target=border.call, args=(fails,)); thread.start(); thread.join()
stop.set()
for thread in switchers: thread.join()
stacksplice.uninstall()
assert sys.excepthook is sys.__excepthook__
assert threading.excepthook is threading.__excepthook__
""")
    assert done.stderr.count("Exception in thread ") == 100
    assert done.stderr.count("ValueError: unhandled") == 100
