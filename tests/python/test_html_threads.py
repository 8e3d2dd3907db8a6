"""Pages with all threads: of crashes, of running processes and of core files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from building import command
from html_pages import HOSTILE, Page, crash_file, error, frame, hostile, process_of_many

pytestmark = pytest.mark.any_python

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("pygments", reason="pygments is not installed")


@pytest.fixture
def shown(tmp_path):
    """The page that `show` makes of those values."""

    def make(item: dict[str, Any], *options: str) -> Page:
        file = tmp_path / "crash.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return Page(command("show", "--html", "-", *options, str(file)).stdout)

    return make


def process_page(tmp_path, document: dict[str, Any]) -> Page:
    from stacksplice._tools.html.process import write_process

    out = tmp_path / "process.html"
    assert write_process(document, "process 7", False, str(out)) == 0
    return Page(out.read_text(encoding="utf-8"))


def test_a_crash_has_its_current_error_and_threads(shown):
    page = shown(crash_file())
    assert page.texts("p", "heading")[0].startswith("event: SIGSEGV, ")
    assert page.texts("h1") == ["SIGSEGV: no memory at address 0x8"]
    assert [text for text in page.texts("h2") if text not in ("The way of the error", "Stack")] == [
        "Current error of this thread",
        "Other threads",
        "Binaries",
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
    assert page.texts("p", "order")[-1] == "Threads 11 (worker), 12 (worker), 13 (worker)"
    first, second, third = page.texts("details", "member")
    assert first.count("Python f1 ") == second.count(" f2 a.py:3 ") == 1
    assert "The stack is not known." in third


def test_threads_whose_variables_differ_are_not_one(tmp_path):
    frames = [frame(0, locals={"n": value}) for value in ("1", "1", "2")]
    threads = [{"thread_id": number, "stack": [each]} for number, each in enumerate(frames, 1)]
    page = process_page(tmp_path, {"process": {"id": 7}, "notes": [], "threads": threads})
    assert page.texts("h3") == ["Thread 1 and 1 more with the same stack", "Thread 3"]


def test_the_order_is_that_of_the_text(shown):
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
    plain, failing = page.texts("summary")[:2]
    assert plain == "Thread 0 (t0) and 1 more with the same stack f0 a.py:1"
    assert failing == "Thread 1 (t1) f0 a.py:1 KeyError: no price"
    assert "Current error of this thread" in page.texts("h4") and "KeyError: no price" in page.texts("h5")
    assert "Members of the group" in page.texts("h6") and page.texts("td")[0] == "/lib/liba.so"


def test_no_text_becomes_markup(shown, tmp_path):
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
    assert "hunter2" not in text and text.count("[redacted: ") == 2


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
    assert page.texts("summary")[0].endswith("OSError: no file")
    assert page.texts("h4")[:2] == ["Exception that this thread handles", "Current error of this thread"]
    assert [text for text in page.texts("h5") if ": " in text] == ["OSError: no file", "ValueError: no price"]
    assert "KeyError: 'rate'" in page.texts("h6")
    assert page.texts("dt").count("HRESULT") == page.texts("dt").count("Thread") == 1
