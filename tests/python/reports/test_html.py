"""Pages of errors: what is on them, and that no text of an error is more than text there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from typing import Any

import pytest
import stacksplice
from building import command
from html_pages import HOSTILE, Page, crash_file, error, frame, hostile, process_of_many
from raising import caught, fail
from stacksplice import ErrorInfo

pytestmark = pytest.mark.any_python

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("pygments", reason="pygments is not installed")

LONG = 10_000


def page(data, **options) -> Page:
    return Page(ErrorInfo.from_dict(data).to_html(**options))


# ---- What is on a page ---------------------------------------------------------------------------


def test_a_page_has_all_of_a_live_error(price):
    info = stacksplice.error_info(caught(price, fail))
    shown = Page(info.to_html())
    assert shown.texts("h1") == ["ValueError: 3"] and shown.texts("title")[0] == "ValueError: 3"
    functions = shown.texts("span", "function")
    expected = [f.function for f in reversed(info.stack) if f.kind != "gap"]
    assert [name for name in functions if name != "???"] == [name for name in expected if name]
    assert {"Lua", "Python", "C"} <= set(shown.texts("span", "badge"))
    received = [text for text in shown.texts("li", "received")]
    assert len(received) == len(info.propagation) > 0
    assert info.fingerprint in " ".join(shown.texts("code"))


def test_a_title_is_one_line():
    group = page(error([], exceptions=[error([], message="first\nsecond")]))
    assert group.texts("h3")[0] == "ValueError: first" and group.texts("p", "message") == ["first second"]


def test_the_order_is_that_of_the_text():
    data = error([frame(0), frame(1)])
    assert page(data).texts("span", "function") == ["f1", "f0"]
    assert page(data, newest_last=False).texts("span", "function") == ["f0", "f1"]


def test_source_lines_have_their_columns_marked():
    at = {"source": "x = größe(1) + 2", "source_column": 5, "column": 9, "end_column": 19}
    assert "".join(page(error([frame(0, **at)])).texts("mark")) == "größe(1)"
    goes_on = {**at, "end_line": 3, "end_column": 2}
    assert "".join(page(error([frame(0, **goes_on)])).texts("mark")) == "größe(1)+2"
    native = frame(0, kind="native", language="native", file="a.c", source="return call(x);", column=12)
    native.pop("end_column")
    assert page(error([native])).texts("mark") == ["call"]


def test_glue_is_folded():
    data = error([frame(0), frame(1, glue=True), frame(2, glue=True), frame(3)])
    assert page(data).folds() == ["2 interpreter frames"]
    for options, is_open in (({}, False), ({"all_frames": True}, True)):
        found = [attributes for name, attributes, _ in page(data, **options).elements if name == "details"]
        (glue,) = [attributes for attributes in found if attributes.get("class") == "glue"]
        assert ("open" in glue) == is_open


def test_libraries_are_folded_as_in_text():
    """Those in a row in one line, which counts their own frames; the picture has the user's alone."""
    library = "/usr/lib/python3.11/asyncio/events.py", "/usr/lib/python3.11/threading.py"
    stack = [frame(0), frame(1, file=library[0]), frame(3, file=library[0])]
    stack.insert(2, frame(2, glue=True, kind="native", language="native"))
    stack += [frame(4, file=library[1]), frame(5), frame(6, file=library[1])]
    shown = page(error(stack))
    text = ErrorInfo.from_dict(error(stack)).format()
    folds = ["1 frame of threading", "3 frames of threading and asyncio"]
    assert [f"... {fold} hidden" in text for fold in folds] == [True, True]
    assert shown.folds() == folds
    assert shown.texts("span", "function") == [f"f{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    for options, is_open in (({}, False), ({"all_frames": True}, True)):
        found = [
            attributes for name, attributes, _ in page(error(stack), **options).elements if name == "details"
        ]
        assert {"open" in each for each in found if each.get("class") == "library"} == {is_open}


def test_frames_of_bridges_are_left_out_as_in_text():
    bridge = [frame(number, file="lupa/lua54.pyx", function=f"lupa.call{number}") for number in (1, 2)]
    stack = [frame(0), *bridge, frame(3)]
    shown = page(error(stack))
    assert "lupa" not in ErrorInfo.from_dict(error(stack)).format()
    assert shown.folds() == ["2 interpreter frames"]


def test_long_stacks_are_folded_without_loss():
    shown = page(error([frame(number) for number in range(1000)]))
    assert shown.texts("span", "function") == [f"f{number}" for number in range(999, -1, -1)]
    assert shown.folds() == [f"frames {first} to {first + 99}" for first in range(101, 900, 100)]
    shown = page(error([frame(1)] * LONG))
    assert shown.folds()[0].startswith("the same frame ")
    assert len(shown.texts("span", "function")) == LONG


# ---- How an error travelled ----------------------------------------------------------------------


def test_the_way_has_a_lane_for_each_language():
    stack = [frame(0), frame(1, language="lua"), frame(2, language="lua"), frame(3, language="native")]
    node = {"language": "lua", "thread_id": 8, "stack": stack[1:], "frames_left_out": 0}
    shown = page(error(stack, propagation=[node]))
    assert shown.texts("g", "lane") == ["C", "Lua", "Python"]
    assert [text.split(" a.py")[0] for text in shown.texts("li", "call")] == ["C f3", "Lua f2 → f1"]
    assert shown.texts("li", "raised") == ["Python raised f0 a.py:1"]
    assert shown.texts("li", "received") == ["Lua received it in f1 on thread 8 a.py:2"]


def test_the_way_of_many_crossings_is_cut():
    stack = [frame(number, language=("lua", "python")[number % 2]) for number in range(500)]
    shown = page(error(stack))
    assert shown.texts("li", "more") == ["484 more changes of language"]
    assert len(shown.texts("g", "step")) == 17


def test_start_up_code_has_no_lane():
    start = frame(9, kind="native", language="native", module="/lib/libc.so.6")
    del start["function"], start["file"]
    of_program = {**start, "module": "/bin/shop"}
    assert page(error([frame(0), start, start, of_program])).texts("g", "lane") == ["Python"]
    assert page(error([frame(0), of_program])).texts("g", "lane") == ["C", "Python"]
    assert page(error([start])).texts("g", "lane") == ["C"]


# ---- Lines around -------------------------------------------------------------------------------


def test_lines_around_are_of_the_file_that_the_error_met(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text("def rate():\n    a = 1\n    password = 'hunter2'\n    return RATES[a]\n\n\n\nend\n")
    at = {"file": str(file), "line": 4, "end_line": 4, "source": "return RATES[a]", "source_column": 5}
    shown = page(error([frame(0), frame(1, **at), frame(2, **at)]))
    first, second, *_ = [text for text in shown.folds(True) if text.startswith("lines ")]
    assert first == second == "lines 2 to 6"
    around = [text for text in shown.texts("pre", "source") if text.startswith("2")]
    assert len(around) == 2 and "4return RATES[a]" in around[0].replace(" ", "").replace("return", "return ")
    assert "hunter2" not in around[0] and "[redacted: password]" in around[0]
    details = [attributes for name, attributes, _ in shown.elements if attributes.get("class") == "around"]
    assert ["open" in attributes for attributes in details] == [False, True]  # f1, which is inside of f2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for changed in ({"source": "return RATES[b]"}, {"line": 5}, {"file": str(pipe)}, {"file": str(tmp_path)}):
        assert "around" not in page(error([frame(0, **{**at, **changed})])).classes()


def test_a_page_of_a_live_error_says_where_and_when(price):
    shown = Page(stacksplice.error_info(caught(price, fail)).to_html())
    assert shown.texts("dt")[:5] == ["Language", "Time", "Command", "Folder", "Versions"]
    assert f"stacksplice {stacksplice.__version__}, Python 3." in " ".join(shown.texts("dd"))
    assert "(Lua) File " in shown.texts("pre", "plain")[0]


def test_a_wrapper_is_a_page(price):
    def outside():
        try:
            price(fail)
        except ValueError as exc:
            raise RuntimeError("no quote") from exc

    shown = Page(stacksplice.error_info(caught(outside)).to_html())
    assert shown.texts("h1") == ["RuntimeError: no quote"]
    assert "Caused by" in shown.texts("h2") and "ValueError: 3" in shown.texts("h3")


# ---- Text stays text -----------------------------------------------------------------------------


def test_no_text_becomes_markup():
    shown = page(hostile())
    assert "img" not in shown.names() and shown.texts("script") == page(error([])).texts("script")
    assert not [name for _, attributes, _ in shown.elements for name in attributes if name.startswith("on")]
    text = " ".join(shown.texts("main"))
    assert "\u202e" not in text and "\x1b" not in text and "\\u202e\\x1b{{ 7*7 }}" in text
    plain = HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert "".join(shown.texts("h1")).count(plain) == 2


def test_the_policy_allows_only_what_is_ours():
    text = ErrorInfo.from_dict(hostile()).to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for tag in ("style", "script"):
        content = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    attributes = {name for _, found, _ in Page(text).elements for name in found}
    assert not attributes & {"style", "src", "srcset"} and "url(" not in text and "@import" not in text


def test_lone_surrogates_can_be_written():
    ErrorInfo.from_dict(error([frame(0, source="x = '\ud800'")], message="\ud800")).to_html().encode()


# ---- Notebooks and the command -------------------------------------------------------------------


def test_a_notebook_shows_the_page_in_a_frame_of_its_own():
    info = ErrorInfo.from_dict(hostile())
    cell = Page(info._repr_html_())
    ((name, attributes, _),) = cell.elements
    assert name == "iframe" and attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == info.to_html()


def test_without_the_packages(child):
    source = (
        "import sys, stacksplice; sys.modules['jinja2'] = None\n"
        f"info = stacksplice.ErrorInfo.from_dict({error([])!r})\n"
        "assert info._repr_html_() is None\n"
        "try: info.to_html()\n"
        "except ImportError as exc: print(exc)\n"
        "from stacksplice.__main__ import main\n"
        "assert main(['core', '--html', 'out.html', '/dev/null']) == 2\n"
        "assert main(['dump', '--html', 'out.html', '1']) == 2\n"
        "sys.exit(main(['show', '--html', 'out.html', 'in.json']))\n"
    )
    done = child(source, status=2)
    line = "HTML pages need Jinja2 and Pygments: pip install 'stacksplice[html]'\n"
    assert done.stdout == line and done.stderr == f"stacksplice: {line}" * 3


def test_the_command(tmp_path):
    file, other, out = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "out.html"
    file.write_text(json.dumps({"order": "O-1", "error": error([frame(0)])}))
    other.write_text(json.dumps(error([frame(1)], type="KeyError")))
    command("show", "--html", str(out), str(file), str(other))
    shown = Page(out.read_text(encoding="utf-8"))
    assert shown.texts("h1") == ["ValueError: no price", "KeyError: no price"]
    assert shown.texts("nav")[0] == "ValueError: no price KeyError: no price"
    assert shown.texts("p", "heading") == [f"{file}, order: O-1", str(other)]
    done = command("show", "--html", "-", "--newest-first", str(file))
    assert Page(done.stdout).texts("h1") == ["ValueError: no price"]


def test_what_the_command_cannot_do_is_one_line(tmp_path):
    good, bad, out = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "out.html"
    good.write_text(json.dumps(error([frame(0)])))
    bad.write_text(json.dumps(error([frame(0)], thread_id="many")))
    done = command("show", "--html", str(out), str(bad), str(good), status=2)
    assert done.stderr.startswith(f"stacksplice: cannot show {bad}: report 1 is damaged: ValueError: ")
    assert done.stderr.count("\n") == 1 and Page(out.read_text()).texts("h1") == ["ValueError: no price"]
    done = command("show", "--html", str(tmp_path / "no" / "out.html"), str(good), status=2)
    assert done.stderr == f"stacksplice: cannot write {tmp_path}/no/out.html: No such file or directory\n"
    assert "not allowed with" in command("show", "--html", "-", "--json", str(good), status=2).stderr


# ---- Threads -------------------------------------------------------------------------------------


@pytest.fixture
def shown(tmp_path):
    """The page that `show` makes of those values."""

    def make(item: dict[str, Any], *options: str) -> Page:
        file = tmp_path / "crash.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return Page(command("show", "--html", "-", *options, str(file)).stdout)

    return make


def process_page(tmp_path, document: dict[str, Any]) -> Page:
    from stacksplice._tools.html.command import write_process

    out = tmp_path / "process.html"
    assert write_process(document, "process 7", False, str(out)) == 0
    return Page(out.read_text(encoding="utf-8"))


def test_a_crash_has_its_current_error_and_threads(shown):
    page = shown(crash_file())
    assert page.texts("dt")[:2] == ["Language", "Time"] and page.texts("dd")[1] == "2026-11-23T14:08:34Z"
    assert [text.split()[1] for text in page.texts("li", "raised")] == ["crashed", "raised"]
    assert page.texts("h1") == ["SIGSEGV: no memory at address 0x8"]
    assert [text for text in page.texts("h2") if text not in ("How the error travelled", "Stack")] == [
        "Current error of this thread",
        "Other threads",
        "Binaries",
        "As text",
    ]
    assert page.texts("h3")[0] == "ValueError: no price"
    assert page.texts("details", "member") != []
    assert page.texts("td") == ["/lib/liba.so", "unknown", "1"]
    assert "3 more threads were too many for the report." in page.texts("p", "left-out")


def test_text_says_how_many_threads_were_left_out(tmp_path):
    file = tmp_path / "crash.json"
    file.write_text(json.dumps(crash_file()))
    assert command("show", str(file)).stdout.endswith("\n\n3 more threads were too many for the report.\n")


def test_threads_with_the_same_stack_are_one(shown):
    page = shown(crash_file())
    assert page.texts("h3")[-3:] == [
        "Thread 11 (worker) and 2 more with the same stack",
        "Thread 14 (reader)",
        "Thread 15 (deaf, which has not answered in time)",
    ]
    assert page.texts("p", "order")[-1] == "Thread 11 (worker), Thread 12 (worker), Thread 13 (worker)"
    first, second, third = page.texts("details", "member")
    assert first.count("Python f1 ") == second.count(" f2 a.py:3 ") == 1
    assert "The stack is not known." in third


def test_threads_whose_variables_differ_are_not_one(tmp_path):
    frames = [frame(0, locals={"n": value}) for value in ("1", "1", "2")]
    threads = [{"thread_id": number, "stack": [each]} for number, each in enumerate(frames, 1)]
    page = process_page(tmp_path, {"process": {"id": 7}, "notes": [], "threads": threads})
    assert page.texts("h3") == ["Thread 1 and 1 more with the same stack", "Thread 3"]


def test_tasks_that_no_thread_runs_are_on_the_page_of_a_process(tmp_path):
    """As the text of dump has them: who waits for whom, those with the same stack together."""
    common = {"interpreter": 0, "awaited_by": ["0x1"]}
    main = {"address": "0x1", "name": "main", "interpreter": 0, "awaited_by": [], "thread_id": 1}
    jobs = [{"address": f"0x{n}", "name": f"job {n}", "awaits": "Future", **common} for n in (2, 3)]
    tasks = [
        {"members": [main], "stack": [frame(0)]},
        {"members": jobs, "stack": [frame(1, function="job")]},
    ]
    page = process_page(tmp_path, {"process": {"id": 7}, "notes": [], "threads": [], "tasks": tasks})
    assert page.texts("h2") == ["Threads", "Tasks that no thread runs"]
    named = '2 tasks "job 2", "job 3" (waiting for a Future, awaited by "main")'
    assert page.texts("h3") == [named] and " job " in page.texts("details", "member")[0]


def test_the_order_of_threads_is_that_of_the_text(shown):
    for options, order in (((), ["f2", "f1"]), (("--newest-first",), ["f1", "f2"])):
        crash = crash_file()
        crash["threads"] = [{**crash["threads"][0], "stack": [frame(1), frame(2)]}]
        assert shown(crash, *options).texts("span", "function")[-2:] == order


def test_few_threads_are_open_and_many_are_folded(tmp_path):
    for count, opened in ((3, 3), (4, 1), (1000, 1)):
        page = process_page(tmp_path, process_of_many(count))
        found = [attributes for _, attributes, _ in page.elements if attributes.get("class") == "member"]
        assert len(found) == count and ["open" in each for each in found].count(True) == opened


def test_the_thread_that_got_the_signal_stands_alone(tmp_path):
    document = process_of_many(3)
    for thread in document["threads"]:
        thread["stack"] = [frame(0)]
    assert process_page(tmp_path, document).texts("h3") == ["Thread 0 (t0) and 2 more with the same stack"]
    document["process"]["signal"] = 11
    assert process_page(tmp_path, document).texts("h3") == [
        "Thread 0 (t0), which got the signal",
        "Thread 1 (t1) and 1 more with the same stack",
    ]


def test_errors_stand_at_their_threads(tmp_path):
    document = process_of_many(3)
    for thread in document["threads"]:
        thread["stack"] = [frame(0)]
    library = frame(5, kind="native", language="native", module="/lib/liba.so")
    own = {name: value for name, value in error([library]).items() if name != "fingerprint"}
    document["threads"][1]["error"] = {**own, "type": "KeyError", "exceptions": [error([frame(4)])]}
    document["failed"] = error([frame(6)], message="it is over")
    page = process_page(tmp_path, document)
    assert page.texts("h2")[:2] == ["The process ended itself because of this error", "Threads"]
    assert page.texts("h3")[0] == "ValueError: it is over"
    plain, failing = page.folds()[:2]
    assert plain == "Thread 0 (t0) and 1 more with the same stack f0 a.py:1"
    assert failing == "Thread 1 (t1) f0 a.py:1 KeyError: no price"
    assert "Current error of this thread" in page.texts("h4") and "KeyError: no price" in page.texts("h5")
    assert "Members of the group" in page.texts("h6") and page.texts("td")[0] == "/lib/liba.so"


def test_no_text_of_threads_becomes_markup(shown, tmp_path):
    stack = hostile()["stack"]
    crash = crash_file()
    crash["current_error"] = hostile()
    crash["threads"] = [{**crash["threads"][0], "name": HOSTILE, "stack": stack}]
    document = {
        "process": {"id": 7, "executable": HOSTILE},
        "notes": [HOSTILE],
        "threads": [{"thread_id": 1, "name": HOSTILE, "stack": stack, "error": hostile()}],
        "failed": hostile(),
    }
    for page in (shown(crash), process_page(tmp_path, document)):
        assert "img" not in page.names() and page.texts("script") == shown(error([])).texts("script")
        assert not [name for _, found, _ in page.elements for name in found if name.startswith("on")]
        assert "\u202e" not in " ".join(page.texts("main"))


def test_secrets_are_removed_from_threads(shown):
    crash = crash_file()
    thread = {**crash["threads"][0], "name": "token=hunter2"}
    crash["threads"] = [{**thread, "stack": [frame(0, source="connect(password='hunter2')")]}]
    text = " ".join(shown(crash).texts("html"))
    assert "hunter2" not in text and text.count("[redacted: ") == 4  # and below, as text


def test_a_damaged_thread_is_one_line(tmp_path):
    crash = crash_file()
    del crash["threads"][0]["answered"]
    file = tmp_path / "crash.json"
    file.write_text(json.dumps(crash))
    for form in ((), ("--html", "-")):
        done = command("show", *form, str(file), status=2)
        assert done.stderr == f"stacksplice: cannot show {file}: report 1 is damaged: KeyError: 'answered'\n"


def test_exceptions_of_python_stand_at_their_threads(tmp_path):
    document = process_of_many(2)
    told = {"type": "OSError", "message": "no file", "language": "python", "stack": [frame(3)]}
    cause = {**told, "type": "KeyError", "message": "'rate'", "relation": "cause"}
    handled = {**told, "state": "handled", "transformed": [cause]}
    document["threads"][0] |= {"exceptions": [handled], "error": error([frame(4)])}
    page = process_page(tmp_path, document)
    assert page.folds()[0].endswith("OSError: no file")
    assert page.texts("h4")[:2] == ["Exception that this thread handles", "Current error of this thread"]
    assert [text for text in page.texts("h5") if ": " in text] == ["OSError: no file", "ValueError: no price"]
    assert "KeyError: 'rate'" in page.texts("h6")
    assert page.texts("dt").count("HRESULT") == page.texts("dt").count("Thread") == 1
