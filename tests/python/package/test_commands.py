"""The commands of ``stacksplice`` that test_reports.py does not try, and doctor()."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys

import pytest
import stacksplice
import stacksplice.logging
from building import MODULE, PACKAGE, command, compile_c, environment, lua_with_stacksplice
from raising import caught, fail, with_cause
from stacksplice import _stacksplice
from stacksplice.__main__ import main

# ---- run -----------------------------------------------------------------------------------------


def test_run_of_a_text_or_a_module():
    assert "not allowed with" in command("run", "-m", "-c", "x", status=2).stderr


def test_run_of_a_lua_script(tmp_path):
    lua, variables = lua_with_stacksplice()
    (tmp_path / "lua5.4").symlink_to(lua)
    script = tmp_path / "x.lua"
    done = command("run", str(script), status=2)
    assert done.stderr == f"stacksplice: cannot read {script}: No such file or directory\n"
    script.write_text("print(package.loaded.stacksplice ~= nil, io.read(), ...)\nos.exit(5)\n")
    variables["PATH"] = tmp_path
    done = command("run", script, "-m", "b c", status=5, input="typed\n", **variables)
    assert done.stdout == "true\ttyped\t-m\tb c\n"
    script.write_text("error('from Lua')\n")
    assert "from Lua" in command("run", script, status=1, **variables).stderr
    script.write_text("os.execute('kill -SEGV $PPID')\n")
    done = command("run", "--crash", script, status=-11, STACKSPLICE_REPORT_DIR="", **variables)
    assert "\nSIGSEGV: sent by process " in done.stderr and "line 1, in main chunk" in done.stderr
    done = command("run", script, status=2, PATH=tmp_path, LUA_CPATH="", LUA_CPATH_5_4="")
    assert done.stderr.count("\n") == 1 and "install it with luarocks" in done.stderr


# ---- show ----------------------------------------------------------------------------------------


@pytest.fixture
def info(border):
    return stacksplice.error_info(caught(border.call, with_cause))


@pytest.fixture
def saved(info, tmp_path):
    file = tmp_path / "saved.json"
    file.write_text(info.to_json(), encoding="utf-8")
    return str(file)


def test_show_in_either_order(info, saved):
    last = info.format(newest_last=True)
    assert command("show", saved).stdout == command("show", "--oldest-first", saved).stdout == last
    first = command("show", "--newest-first", saved).stdout
    assert first == info.format(newest_last=False) != last
    both = command("show", "--newest-first", "--oldest-first", saved, status=2)
    assert "not allowed with" in both.stderr


def test_show_in_colour(info, saved):
    plain, coloured = info.format(), info.format(color=True)
    assert plain != coloured
    assert command("show", saved).stdout == plain  # it is no terminal
    assert command("show", "--color", "always", saved).stdout == coloured
    wanted = environment(FORCE_COLOR="1")
    assert command("show", saved, env=wanted).stdout == coloured
    assert command("show", "--color=never", saved, env=wanted).stdout == plain


def wrapped(info, **data) -> str:
    return json.dumps({**data, "error": info.to_dict()})


def test_show_says_what_the_wrapper_says(info):
    text = info.format()
    items = [
        wrapped(info, order="O-25150", customer="Ada", count=3, ready=True, more={"x": 1}),
        wrapped(info, order="two\nlines", note="\x1b[31m"),
        wrapped(info, schema="stacksplice-report/1", header={"event": "fail_fast", "pid": 5}, modules=[{}]),
        wrapped(info),
    ]
    assert command("show", "-", input="\n".join(items)).stdout == "\n".join(
        [
            f"==== order: O-25150, customer: Ada, count: 3, ready: true ====\n{text}",
            f'==== order: "two\\nlines", note: "\\u001b[31m" ====\n{text}',
            f"==== event: fail_fast ====\npid: 5\n{text}",
            text,
        ]
    )


def test_show_reads_logs(info, border, tmp_path):
    log = tmp_path / "log.ndjson"
    logger = logging.Logger("shop")
    handler = logging.FileHandler(log)
    handler.setFormatter(stacksplice.logging.JsonFormatter())
    logger.addHandler(handler)
    logger.warning("no error")
    plain = log.read_text(encoding="utf-8")
    none = command("show", str(log), status=2)
    assert none.stderr.endswith(
        ': no line of this log has a report, the member "stacksplice" of JsonFormatter\n'
    )
    for number in range(2):
        exc = info.language_exception
        logger.error("no price %d", number, exc_info=exc, extra={"order": "A-1"})
    logger.error("plain", exc_info=caught(fail))
    handler.close()
    lines = log.read_text(encoding="utf-8").splitlines()
    moments = [json.loads(line)["@timestamp"] for line in lines[1:3]]
    # A log has no lines of source.
    text = stacksplice.ErrorInfo.from_json(info.to_json(brief=True)).format()
    assert command("show", str(log)).stdout == "\n".join(
        f"==== @timestamp: {moment}, log.level: error, log.logger: shop, message: no price {number} ===="
        f"\n{text}"
        for number, moment in enumerate(moments)
    )
    assert command("show", "--json", "-", input=plain + lines[1]).stdout == lines[1] + "\n"


def test_show_of_several_files(info, saved, tmp_path):
    text = info.format()
    other = tmp_path / "other.json"
    other.write_text(wrapped(info, order="A-1"), encoding="utf-8")
    done = command("show", saved, "/nowhere.json", str(other), status=2)
    assert done.stdout == f"==== {saved} ====\n{text}\n==== {other}, order: A-1 ====\n{text}"
    assert done.stderr == "stacksplice: cannot read /nowhere.json: No such file or directory\n"


def test_show_as_json(info, saved, tmp_path):
    many = tmp_path / "many.json"
    many.write_text(f"[{wrapped(info, order='A-1')}, {info.to_json()}]", encoding="utf-8")
    assert command("show", str(many)).stdout == f"==== order: A-1 ====\n{info.format()}\n{info.format()}"
    lines = command("show", "--json", str(many), saved).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"order": "A-1", "error": info.to_dict()},
        info.to_dict(),
        info.to_dict(),
    ]
    many.write_text('[{"error": {"message": "no report"}}]')
    assert "not a report" in command("show", "--json", str(many), status=2).stderr


def test_show_prints_each_report_as_it_is_read(info):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    line, text = info.to_json(), info.format()
    with subprocess.Popen([*MODULE, "show", "-"], **pipes, text=True, env=environment()) as show:
        show.stdin.write(line)
        show.stdin.flush()
        assert show.stdout.read(len(text)) == text
        show.stdin.write(line[:50] + "\n" + line + "hello\n")
        show.stdin.close()
        assert show.stdout.read() == "\n" + text
        told = "on line 2: it is cut off, and 1 more line"
        assert show.stderr.read() == f"stacksplice: cannot show standard input: {told}\n"
    assert show.returncode == 2


@pytest.mark.parametrize(
    "arguments", [["show"], ["show", "--json"], ["show", "--html", "/nowhere"], ["top"], ["symbolize"]]
)
def test_ctrl_c(info, arguments):
    if "--html" in arguments:
        pytest.importorskip("jinja2", reason="jinja2 is not installed")
        pytest.importorskip("pygments", reason="pygments is not installed")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen([*MODULE, *arguments, "-"], **pipes, text=True, env=environment()) as child:
        child.stdin.write(info.to_json() * 200)  # more than a pipe holds
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        assert child.stderr.read() == "stacksplice: interrupted\n"
    assert child.returncode == 130


def test_ctrl_c_while_a_command_is_imported(monkeypatch, capsys):
    class Interrupts:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "stacksplice._tools.command_line":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "stacksplice._tools.command_line", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupts, *sys.meta_path])
    assert main(["show", "-"]) == 130
    assert capsys.readouterr().err == "stacksplice: interrupted\n"


# ---- Output --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["--help"], ["show", "--help"]])
def test_a_reader_that_has_gone(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = command(*arguments, stdout=writer)
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no file that is always full")
def test_output_that_cannot_be_written(saved):
    with open("/dev/full", "w") as full:
        done = command("show", str(saved), stdout=full, status=2)
    assert done.stderr == "stacksplice: cannot write to standard output: No space left on device\n"


# ---- doctor --------------------------------------------------------------------------------------


def examine() -> tuple[bool, str]:
    text = io.StringIO()
    return stacksplice.doctor(text), text.getvalue()


def test_doctor_says_what_is_there():
    fine, text = examine()
    for part in (
        f"package: stacksplice {stacksplice.__version__}, {PACKAGE}\n",
        f"core: {_stacksplice.core_version()}, {PACKAGE / 'libstacksplice.so.0'}\n",
        f"Python: CPython {sys.version.split()[0]}, {sys.executable}\n",
        "Lua binding: ",
        "lupa: ",
        "install(): ",
    ):
        assert part in text
    assert fine == ("nothing is missing" in text) == (not text.count("\nmissing "))


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_doctor_does_not_depend_on_how_long_stacks_may_be(child, limit):
    source = f"""
import io, stacksplice
def deep(left):
    return deep(left - 1) if left else stacksplice.doctor(io.StringIO())
before = deep(0)
stacksplice.set_max_frames({limit})
print(before, deep(0), deep(50))
"""
    before, *after = child(source).stdout.split()
    assert set(after) == {before}


def test_the_command_ends_with_what_doctor_finds():
    done = subprocess.run([*MODULE, "doctor"], capture_output=True, text=True, env=environment())
    assert done.returncode == (0 if "nothing is missing" in done.stdout else 1), done.stderr
    document = json.loads(command("doctor", "--json", status=None).stdout)
    assert document["missing"] == sum(each["state"] == "missing" for each in document["findings"])
    assert {"state", "subject", "text", "advice"} == {*document["findings"][0]}
    for each in document["findings"]:
        assert each["advice"] or each["state"] == "ok", each
        assert each["text"].split("\n")[0] in done.stdout


def test_doctor_knows_whether_the_hooks_are_set_and_loads_no_lua(child):
    source = (
        "import io, sys, stacksplice\n{}\ntext = io.StringIO()\n"
        "stacksplice.doctor(text)\nprint(text.getvalue())\n"
        "assert not [name for name in sys.modules if name.startswith('lupa')]"
    )
    assert "note     install(): was not called" in child(source.format("")).stdout
    assert "ok       install(): " in child(source.format("stacksplice.install()")).stdout


def test_doctor_says_what_to_do_without_lines(monkeypatch):
    before, text = examine()
    assert ("ok       lines of C code: " in text) == (_stacksplice._lines_missing() is None)
    monkeypatch.setattr(
        _stacksplice, "_lines_missing", lambda: "libdw.so.1 not found (Debian package: libdw1)"
    )
    fine, text = examine()
    assert fine == before and "note     lines of C code: libdw.so.1 not found" in text
    assert "-> to see them, install the package libdw1 (elfutils-libs)\n" in text
    monkeypatch.setattr(_stacksplice, "_lines_missing", lambda: "stacksplice was built without libdw")
    assert "-> to see them, build the core with libdw: " in examine()[1]


def test_doctor_names_the_binary_without_unwind_data(tmp_path):
    """As a linker for musl makes it that is not told to write .eh_frame_hdr."""
    ctypes = pytest.importorskip("ctypes")
    source = tmp_path / "calls.c"
    source.write_text("int calls(int (*f)(void)); int calls(int (*f)(void)) { return f() + 1; }\n")
    library = compile_c(tmp_path / "libcalls.so", [source], "-shared", "-fPIC", "-Wl,--no-eh-frame-hdr")
    texts = []
    calls = ctypes.CDLL(str(library)).calls
    assert calls(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: texts.append(examine()[1]) or 1)) == 2
    assert "note     native frames: they end in " in texts[0], texts[0]
    assert "libcalls.so, which has no unwind data\n" in texts[0]
    assert "-> compile it with -funwind-tables and link it with -Wl,--eh-frame-hdr" in texts[0]
    assert "ok       native frames: they can be read\n" in examine()[1]


def test_doctor_says_the_package_of_the_system(monkeypatch):
    reason = "libdw.so.1 not found (Alpine package: elfutils)"
    monkeypatch.setattr(_stacksplice, "_lines_missing", lambda: reason)
    assert "-> to see them: apk add elfutils\n" in examine()[1]


def test_doctor_finds_a_copy_of_lua(child):
    pytest.importorskip("lupa.lua54")
    source = """
import sys
from stacksplice._tools.doctor.lua_copies import copies_of_lua
assert not copies_of_lua()
import lupa.lua54, lupa.lua53
print(sorted((copy.version[:7], copy.file) for copy in copies_of_lua()) == [
    ("Lua 5.3", lupa.lua53.__file__), ("Lua 5.4", lupa.lua54.__file__)])
"""
    assert child(source).stdout == "True\n"


def test_doctor_counts_attached_runtimes(child):
    pytest.importorskip("lupa.lua54")
    source = """
import io, sys, stacksplice
from lupa.lua54 import LuaRuntime
one, two = LuaRuntime(), LuaRuntime()
for action in (lambda: None, lambda: stacksplice.attach(one), stacksplice.install):
    action()
    text = io.StringIO()
    stacksplice.doctor(text)
    print(*[line for line in text.getvalue().splitlines() if "lupa's runtimes" in line])
    if sys.version_info >= (3, 12):
        is_on = "ok       capture at raise: is on\\n" in text.getvalue()
        assert is_on == ("0 of 2" not in text.getvalue())
"""
    assert child(source).stdout.splitlines() == [
        "unread   lupa's runtimes: 0 of 2 are attached",
        "unread   lupa's runtimes: 1 of 2 are attached",
        "ok       lupa's runtimes: 2 of 2 are attached",
    ]


def test_doctor_in_a_poor_python(child):
    """Without ctypes, and with another lupa."""
    source = """
import io, sys, types
sys.modules["ctypes"] = None
sys.modules["lupa"] = types.ModuleType("lupa")
import stacksplice
import stacksplice.logging
text = io.StringIO()
stacksplice.doctor(text)
print(text.getvalue())
"""
    assert "note     lupa: is not installed" in child(source).stdout


# ---- Stacks as text ------------------------------------------------------------------------------


def test_a_stack_hides_glue(border):
    stack = border.call(stacksplice.capture)
    glue = [frame for frame in stack if frame.glue]
    assert glue and len(glue) < len(stack)
    shown = [f"    {frame}\n" for frame in stack if not frame.glue]
    assert stack.format("newest_first") == shown
    assert str(stack) == "".join(shown[::-1])
    assert stack.format("newest_first", all_frames=True) == [f"    {frame}\n" for frame in stack]


@pytest.mark.parametrize("equal, more", [(3, None), (4, "1 more time"), (9, "6 more times")])
def test_a_stack_counts_equal_frames(equal, more):
    frame, other = (stacksplice.Frame("script", "lua", name, "x.lua", 3) for name in "fg")
    expected = [f"    {frame}\n"] * 3 + [f"    [Previous line repeated {more}]\n"] * bool(more)
    stack = stacksplice.Stack.from_frames([other, *[frame] * equal, other])
    assert stack.format() == [f"    {other}\n", *expected, f"    {other}\n"]


def test_a_stack_counts_rounds_of_frames():
    f, g, h = (stacksplice.Frame("script", "lua", name, "x.lua", 3) for name in "fgh")
    stack = stacksplice.Stack.from_frames([h, *[g, f] * 7, g, h])
    more = "    [Previous 2 frames repeated 4 more times]\n"
    expected = [f"    {frame}\n" for frame in (h, *[g, f] * 3, g, h)]
    assert stack.format("newest_first") == [*expected[:7], more, *expected[7:]]
