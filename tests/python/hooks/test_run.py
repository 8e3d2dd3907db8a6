"""``stacksplice run X`` is ``python X``: each form is run both ways, and all that a program
can see of its interpreter is compared, as well as what a parent sees of the program."""

from __future__ import annotations

import difflib
import os
import pathlib
import py_compile
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest
from building import PACKAGE, ran

# What a program sees, as text that two runs have in common.
PROBE = """
import atexit, json, os, signal, sys, threading
seen = {name: getattr(sys, name) for name in (
    "argv", "orig_argv", "path", "warnoptions", "_xoptions", "executable", "prefix", "pycache_prefix",
    "dont_write_bytecode", "platlibdir")}
seen["flags"] = repr(sys.flags)
seen["main"] = {name: value if isinstance(value, (str, type(None))) else repr(type(value))
    for name, value in globals().items() if name.startswith("__")}
seen["names"] = [name for name in globals() if name.startswith("__")]
seen["spec"] = repr(globals().get("__spec__")).partition(" at 0x")[0]
seen["is main"] = sys.modules["__main__"].__dict__ is globals()
frame, seen["frames"] = sys._getframe(), []
while frame:
    seen["frames"].append((frame.f_code.co_filename, frame.f_code.co_name))
    frame = frame.f_back
seen["environment"] = list(os.environ.items())
seen["its C side"] = sorted(f"{name!r} {value!r}" for name, value in sys.modules["posix"].environ.items())
seen["files"] = [os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in (0, 1, 2)]
seen["more files"] = len(os.listdir("/proc/self/fd"))
seen["signals"] = [repr(signal.getsignal(n)) for n in range(1, 32)]
with open("/proc/self/status") as status:
    seen["masks"] = [line for line in status if line.startswith(("Name", "SigB", "SigI", "SigC", "Threads"))]
with open("/proc/self/cmdline") as line:
    seen["command"] = line.read()
seen["streams"] = [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines)
    for s in (sys.stdin, sys.stdout, sys.stderr)]
seen["hooks"] = [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__,
    sys.unraisablehook is sys.__unraisablehook__, threading.excepthook is threading.__excepthook__]
seen["traced"] = [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval()]
seen["exceptions"] = [repr(sys.exc_info()), hasattr(sys, "last_value"), hasattr(sys, "ps1")]
print(json.dumps(seen, indent=1))
def bye():
    print([repr(getattr(sys, name, None)) for name in ("last_exc", "last_value", "last_type")], flush=True)
    tb = getattr(sys, "last_traceback", None)
    while tb:
        print(tb.tb_frame.f_code.co_name, tb.tb_lineno, flush=True)
        tb = tb.tb_next
atexit.register(bye)
"""
ENDS = PROBE + "def f():\n    {}['lost']\nf()\n"
HIJACK = "print('hijacked')\nraise SystemExit(99)\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter that finds the package under -I and -E, too."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "stacksplice.pth").write_text(f"{PACKAGE.parent}\n")
    return str(folder / "bin/python")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with a program of each form; a library's module of ours is there under its own name."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "logging.py").write_text(HIJACK)  # install() needs the library's
    (folder / "here").mkdir()
    (folder / "program.py").write_text(ENDS)
    (folder / "here/inner.py").write_text(ENDS)
    (folder / "a b:c.py").write_text(ENDS)
    py_compile.compile(str(folder / "program.py"), str(folder / "compiled.pyc"))
    for name in ("app", "package"):
        (folder / name).mkdir()
        (folder / name / "__main__.py").write_text(ENDS)
    (folder / "package/__init__.py").touch()
    (folder / "empty").mkdir()
    (folder / "bare").mkdir()
    (folder / "bare/__init__.py").touch()
    with zipfile.ZipFile(folder / "app.pyz", "w") as file:
        file.writestr("__main__.py", ENDS)
    (folder / "wrong.py").write_text("def f(:\n")
    (folder / "wrong.pyc").write_text("no code")
    (folder / "imports.py").write_text("import nowhere\n")
    (folder / "startup.py").write_text("print('startup')\n")
    return folder


def both(python, folder, options, arguments, text="", run=("-m", "stacksplice", "run"), **environment):
    """What each way gives; the second must be the first."""
    found = []
    for ours in ((), run):
        done = ran(
            *(python, *options, *ours, *arguments),
            status=None,
            input=text,
            cwd=folder,
            env={**os.environ, "TERM": "dumb", **environment},
            # A shell's background jobs ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        found.append((done.returncode, done.stdout.splitlines(), done.stderr.splitlines()))
    assert list(difference(*found)) == [], (options, arguments)
    return found[0]


def difference(plain, ours):
    for theirs, mine in zip(plain[1:], ours[1:], strict=True):
        yield from (line for line in difflib.ndiff(theirs, mine) if line[0] in "+-")
    if plain[0] != ours[0]:
        yield f"status {plain[0]}, {ours[0]}"


FORMS = {
    "file": ["program.py", "a", "--", "-m", "--crash"],
    "file elsewhere": ["./here/../here/inner.py"],
    "file with a name": ["a b:c.py"],
    "compiled": ["compiled.pyc", "a"],
    "folder": ["app", "a"],
    "zip": ["./app.pyz", "-b"],
    "text": ["-c", ENDS, "a", "-c"],
    "module": ["-m", "here.inner", "-m", "a"],
    "package": ["-m", "package", "--", "a"],
    "input": ["-", "a"],
}
OPTIONS = [[], ["-I"], ["-P"], ["-E"], ["-s", "-O"], ["-X", "dev"], ["-W", "error"], ["-OO", "-b", "-u"]]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_each_form(python, programs, options):
    names = list(FORMS) if options in ([], ["-I"], ["-P"]) else ["file", "zip", "text", "module", "input"]
    for name in names:
        status, output, errors = both(python, programs, options, FORMS[name], ENDS if name == "input" else "")
        if options in (["-I"], ["-P"]) and name in ("module", "package"):  # of the working directory
            assert status == 1 and "No module named" in errors[-1], name
        else:
            assert (status, errors[-1]) == (1, "KeyError: 'lost'"), name
            assert "KeyError('lost')" in "\n".join(output), name


ENDINGS = [
    "raise SystemExit",
    "raise SystemExit(7)",
    "raise SystemExit('bye')",
    "raise SystemExit((1, 2))",
    "import threading; raise SystemExit(2 ** 70)",  # Python complains if that was not imported
    "raise SystemExit(-1)",
    "raise KeyboardInterrupt",
    "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import os; os._exit(3)",
    "import sys; sys.excepthook = 5; 1 / 0",
    "import sys\ndef broken(*_): raise LookupError('hook')\nsys.excepthook = broken; 1 / 0",
    "import sys\ndef ends(*_): sys.exit(4)\nsys.excepthook = ends; 1 / 0",
    "import sys; del sys.excepthook; 1 / 0",
    "import sys; sys.stderr = None; 1 / 0",
    "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    "import atexit; atexit.register(int, 'x')",
    "raise BaseExceptionGroup('both', [KeyError(1), KeyboardInterrupt()])",
]


def test_each_ending(python, programs):
    """Statuses, signals that end it, and what is printed; one program for each cannot be less."""
    statuses = [both(python, programs / "here", [], ["-c", text])[0] for text in ENDINGS]
    assert statuses[:9] == [0, 7, 1, 1, statuses[4], 255, -2, -2, -15]


MISSING = [
    ["missing.py"],
    ["empty"],
    ["wrong.py"],
    ["wrong.pyc"],
    ["imports.py"],
    ["-m", "nowhere.at.all"],
    ["-m", "bare"],
    ["-m", ".relative"],
    ["-m", "wrong"],
    ["-m", "sys"],
    ["-c", "def f(:"],
]


def test_what_cannot_be_run(python, programs):
    for arguments in MISSING:
        assert both(python, programs, [], arguments)[0] in (1, 2), arguments


def test_the_prompt_behind_a_program(python, programs):
    text = "print(x, sys.last_value)\nimport pdb\nprint(__name__, globals().get('__file__'))\n"
    program = "import sys; x = 5; 1 / 0"
    here = programs / "here"
    assert both(python, here, ["-i"], ["-c", program], text)[1] == ["5 division by zero", "__main__ None"]
    both(python, here, [], ["-c", program], text, PYTHONINSPECT="1")


@pytest.mark.parametrize("changed", [{"LC_ALL": "C"}, {"LC_ALL": "", "LANG": "C", "LC_CTYPE": ""}])
def test_environments(python, programs, changed):
    both(python, programs / "here", [], ["-c", PROBE], LD_PRELOAD="", **changed)
    library = "libc.so.6" if "LC_CTYPE" in changed else ""
    both(python, programs / "here", [], ["-c", PROBE], LD_PRELOAD=library, PYTHONSAFEPATH="1", **changed)


def test_a_package_in_a_folder_with_a_space_and_a_colon(tmp_path, programs):
    """LD_PRELOAD can have neither.  And somebody else's program may call main()."""
    folder = tmp_path / "a b:c $x"
    folder.mkdir()
    (folder / "stacksplice").symlink_to(PACKAGE)
    program = f"import sys\nsys.path.append({str(folder)!r})\nfrom stacksplice.__main__ import main\nmain()\n"
    run = ("-c", program, "run")
    python, here = sys.executable, programs / "here"
    both(python, here, ["-I"], ["-c", PROBE], run=run)
    text = "import sys; print('stacksplice' in sys.modules)"
    assert subprocess.check_output([python, "-I", *run, "-c", text], cwd=here, timeout=60) == b"True\n"


def test_a_python_that_loads_nothing_before_it(python, programs, tmp_path):
    """The loader obeys no LD_PRELOAD for a file that has capabilities or a set-ID bit."""
    groups = {*os.getgroups(), *([os.getegid() + 1] if os.geteuid() == 0 else [])} - {os.getegid()}
    program = os.path.realpath(sys.executable)
    if not groups or os.statvfs(tmp_path).f_flag & os.ST_NOSUID or program != os.readlink("/proc/self/exe"):
        pytest.skip("needs another group, files with a set-ID bit, and a Python that is no script")
    venv = pathlib.Path(python).parent.parent
    shutil.copytree(venv, tmp_path / "venv", symlinks=True)
    mine = tmp_path / "venv/bin/python"
    mine.unlink()
    shutil.copy(program, mine)
    os.chown(mine, -1, groups.pop())
    mine.chmod(0o2755)
    plain, ours = (
        subprocess.run([mine, *run, "-c", ENDS, "a"], capture_output=True, text=True, cwd=programs / "here")
        for run in ([], ["-m", "stacksplice", "run"])
    )
    assert plain.stderr.endswith("KeyError: 'lost'\n")
    warning = "stacksplice: run without install(): this Python's file has capabilities or a set-ID bit\n"
    assert ours.stderr == warning + plain.stderr
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
