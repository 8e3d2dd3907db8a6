"""install() beside asyncio, the interactive prompt, IPython, Sentry's SDK, rich and pytest, for real."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from building import HERE, compile_c, core_library, ran
from gap_reasons import RETURNED
from pytest_runs import SUITE, sections
from test_hooks import COMBINED, PROLOGUE

# ---- asyncio -------------------------------------------------------------------------------------

ASYNC = (
    PROLOGUE
    + """
import asyncio, gc
async def forgotten(where):
    def fails(): raise ValueError(f"unhandled in {where}")
    border.call(fails)
async def main(where):
    asyncio.ensure_future(forgotten(where))
    await asyncio.sleep(0.01)
    gc.collect()
"""
)


def test_tasks_of_any_loop(child):
    done = child(
        ASYNC
        + """
before = asyncio.new_event_loop()
stacksplice.install()
before.run_until_complete(main("before"))
before.close()
after = asyncio.new_event_loop()
after.run_until_complete(main("after"))
after.close()
asyncio.run(main("run"))
class Loop(asyncio.SelectorEventLoop):
    pass
with asyncio.Runner(loop_factory=Loop) as runner:
    runner.run(main("custom"))
stacksplice.uninstall()
asyncio.run(main("uninstalled"))
"""
    )
    for where in ("before", "after", "run", "custom"):
        assert done.stderr.count(f"ValueError: unhandled in {where}\n") == 1
    assert done.stderr.count("Task exception was never retrieved\nfuture: <Task ") == 5
    assert done.stderr.count("Propagation:") == 4
    assert done.stderr.endswith("ValueError: unhandled in uninstalled\n")


def test_callbacks_and_futures(child):
    done = child(
        ASYNC
        + """
import concurrent.futures
stacksplice.install()
loop = asyncio.new_event_loop()
loop.call_soon(border.call, fails)
loop.run_until_complete(asyncio.sleep(0.01))
loop.close()
future = concurrent.futures.Future()
future.add_done_callback(lambda future: border.call(fails))
future.set_result(1)
"""
    )
    assert "Exception in callback " in done.stderr
    assert "exception calling callback for <Future at " in done.stderr
    assert done.stderr.count(COMBINED) == 2


def test_what_was_awaited_ends_in_the_excepthook(child):
    done = child(ASYNC + "stacksplice.install()\nasyncio.run(forgotten('run'))\n", status=1)
    assert done.stderr.count("ValueError: unhandled in run\n") == 1


def test_a_handler_of_the_loop_wins(child):
    done = child(
        ASYNC
        + """
stacksplice.install()
def handler(loop, context):
    print("handled", context["exception"])
    if "default" in str(context["exception"]):
        loop.default_exception_handler(context)
async def both():
    asyncio.get_running_loop().set_exception_handler(handler)
    await main("mine")
    await main("default")
asyncio.run(both())
"""
    )
    assert done.stdout == "handled unhandled in mine\nhandled unhandled in default\n"
    assert "unhandled in mine" not in done.stderr
    assert done.stderr.count("ValueError: unhandled in default\n") == 1


def test_tasks_of_uvloop(child):
    pytest.importorskip("uvloop")
    done = child(
        ASYNC
        + """
import uvloop
stacksplice.install()
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main("uvloop"))
    assert "uvloop" in type(runner.get_loop()).__module__
"""
    )
    assert done.stderr.count("ValueError: unhandled in uvloop\n") == 1


def test_other_records_stay(child):
    source = """
import asyncio, logging
{}
log = logging.getLogger("asyncio")
log.error("only text")
try: fails()
except ValueError: log.exception("plain")
try: border.call(fails)
except ValueError: log.warning("below an error", exc_info=True)
"""
    plain = child(PROLOGUE + source.format("")).stderr
    hooked = child(PROLOGUE + source.format("stacksplice.install()")).stderr
    if sys.version_info >= (3, 12):  # install() has stacks captured at the raise, the other one at the border
        line = re.compile(r'(border\.c"), line \d+, in call\n    .*\n')
        plain, hooked = (line.sub(r"\1\n", text, count=1) for text in (plain, hooked))
    assert hooked == plain


# ---- The interactive prompt ----------------------------------------------------------------------

TYPED = """
import sys, border, stacksplice; stacksplice.install()
def fails(): raise ValueError("unhandled")

border.call(fails)
{}["plain"]
print("last", repr(sys.last_value))
import pdb, traceback; traceback.print_last()
"""


def test_prompt_after_a_script(child, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROLOGUE + "stacksplice.install()\nborder.call(fails)\n")
    typed = "print('last', repr(sys.last_value))\nborder.call(fails)\n"
    done = ran(sys.executable, "-i", script, input=typed, env=child.environment)
    assert done.stdout == "last ValueError('unhandled')\n"
    assert done.stderr.count(COMBINED) == 2


@pytest.mark.parametrize("is_console", [False, True])
def test_prompt(child, is_console):
    """A console has output of its own, where __traceback__ has the other languages' frames."""
    options = ["-c", "import code; code.interact(banner='')"] if is_console else ["-i", "-q"]
    done = ran(sys.executable, *options, input=TYPED, env=child.environment)
    assert done.stderr.count(COMBINED) == (0 if is_console else 1)
    assert "KeyError: 'plain'" in done.stderr and 'border.c", line ' in done.stderr
    assert "last KeyError('plain')\n" in done.stdout


def test_prompt_of_asyncio(child):
    typed = TYPED + "import asyncio\nawait asyncio.to_thread(border.call, fails)\n"
    environment = {**child.environment, "PYTHON_BASIC_REPL": "1"}
    done = ran(sys.executable, "-m", "asyncio", input=typed, env=environment)
    assert done.stderr.count('border.c", line ') == 2 == done.stderr.count("ValueError: unhandled\n")


def test_prompt_on_a_terminal(child):
    """With colours, as everything there."""
    main, side = pty.openpty()
    environment = {**child.environment, "TERM": "xterm"}
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS"):
        environment.pop(name, None)
    with subprocess.Popen(
        [sys.executable, "-q"], stdin=side, stdout=side, stderr=side, env=environment, close_fds=True
    ) as prompt:
        os.close(side)
        for line in [*TYPED.splitlines()[:5], "exit()"]:
            os.write(main, line.encode() + b"\r")
        shown = read_all(main)
        prompt.wait(60)
    os.close(main)
    assert "\033[1;35mValueError\033[0m: \033[35munhandled\033[0m" in shown


def read_all(descriptor: int) -> str:
    text, end = b"", time.monotonic() + 60
    while time.monotonic() < end and select.select([descriptor], [], [], 30)[0]:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        text += part
    return text.decode("utf-8", "replace")


# ---- IPython -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def border_without_source(tmp_path_factory, border_path):
    """IPython reads all source as Python's, and some C is none that it survives."""
    output = tmp_path_factory.mktemp("sourceless") / border_path.name
    sources = [HERE / "border.c", HERE / "border_second.c"]
    return compile_c(output, sources, "-g0", "-shared", "-fPIC", "-pthread", *core_library())


@pytest.mark.parametrize("start", ["import stacksplice; stacksplice.install()", "%load_ext stacksplice"])
def test_ipython(child, tmp_path, border_without_source, start):
    pytest.importorskip("IPython")
    lines = [start, start, "import border", "def fails(): raise ValueError('unhandled')", ""]
    lines += ["border.call(fails)", "1 / 0", "border.call(fails)"]
    end = "%unload_ext stacksplice" if "%" in start else "stacksplice.uninstall()"
    lines += [end, "border.call(fails)"]
    options = ("--simple-prompt", "--no-banner", "--colors=NoColor")
    paths = f"{border_without_source.parent}:{child.environment['PYTHONPATH']}"
    variables = {"NO_COLOR": "1", "PYTHONPATH": paths, "IPYTHONDIR": tmp_path, "HOME": tmp_path}
    done = ran(sys.executable, "-m", "IPython", *options, input="\n".join([*lines, ""]), **variables)
    # Each is shown once, by the shell, which has the frames of C from the traceback.
    assert (done.stdout.count("ValueError: unhandled"), done.stderr) == (3, ""), done.stdout
    assert done.stdout.count("in call()") == 3 and "ZeroDivisionError" in done.stdout


LUA = """
import lupa.lua54
lua = lupa.lua54.LuaRuntime()
lua.execute("function price(rate) return rate() end")
def fails(): raise ValueError("unhandled")
def call(): lua.globals().price(fails)
"""


def test_jupyter(child, tmp_path, monkeypatch):
    """In a kernel a cell that fails has one traceback, and no report has the kernel's frames."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("lupa")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", child.environment["PYTHONPATH"])
    monkeypatch.setenv("NO_COLOR", "1")
    sources = [
        f"import stacksplice; stacksplice.install(){LUA}",
        "call()",
        "try: call()\nexcept ValueError: stacksplice.print_exc()",
        "import asyncio\nasync def calls(): call()\n"
        "try: await asyncio.create_task(calls())\nexcept ValueError: stacksplice.print_exc()",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, kernel_name="python3", allow_errors=True, timeout=60).execute()
    first, (failed,), (printed,), (awaited,) = (cell.outputs for cell in book.cells)
    assert first == [] and failed.output_type == "error"
    shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(failed.traceback))
    assert "Cell In[2], line 1" in shown and "in price(" in shown and "ipykernel/" not in shown
    for text in (printed.text, awaited.text):
        assert " frames of IPython hidden\n" in text and "in price\n" in text, text
        assert "site-packages" not in text and "/asyncio/" not in text, text


# ---- Who else sets hooks -------------------------------------------------------------------------

SENTRY = (
    PROLOGUE
    + """
import sentry_sdk
def init():
    sentry_sdk.init(dsn="http://key@localhost/1", transport=print_event, default_integrations=True)
class Transport(sentry_sdk.transport.Transport):
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        if event is not None:
            print([value["type"] for value in event["exception"]["values"]])
print_event = Transport
"""
)


@pytest.mark.parametrize("order", ["init(); stacksplice.install()", "stacksplice.install(); init()"])
def test_sentry(child, order):
    """It gets each exception once, and so does our report: of a thread and of the main one."""
    pytest.importorskip("sentry_sdk")
    thread = "thread = threading.Thread(target=border.call, args=(fails,)); thread.start(); thread.join()"
    done = child(f"{SENTRY}{order}\n{thread}\nborder.call(fails)\n", status=1)
    assert done.stdout == "['ValueError']\n" * 2
    assert done.stderr.count(COMBINED) == 2


@pytest.mark.parametrize(
    "order",
    ["rich.traceback.install(); stacksplice.install()", "stacksplice.install(); rich.traceback.install()"],
)
def test_rich(child, order):
    """Who has chosen its look has it, once, with the frames of other languages."""
    pytest.importorskip("rich")
    pytest.importorskip("lupa")
    done = child(f"import rich.traceback, stacksplice\n{order}{LUA}call()\n", status=1)
    assert COMBINED not in done.stderr and done.stderr.count("ValueError: ") == 1
    assert "╭─" in done.stderr and " in price:1" in done.stderr


def test_pytest_with_its_plugin(run):
    """Hooks that pytest sets itself are called, and ours are gone where it puts back its own."""
    source = (
        SUITE.partition("def test_call")[0]
        + """
import sys
import threading

import stacksplice


def test_threads(recwarn):
    stacksplice.install(capture_at_raise=sys.version_info >= (3, 12))
    thread = threading.Thread(target=crosses)
    thread.start()
    thread.join()
    stacksplice.uninstall()


def test_stack_at_the_raise():
    stacksplice.install(capture_at_raise=sys.version_info >= (3, 12))
    try:
        crosses()
    finally:
        stacksplice.uninstall()
"""
    )
    output = run(source, "-W", "ignore")
    assert "1 failed, 1 passed" in output
    (found,) = sections(output)
    assert RETURNED not in found
