"""Pages of errors: what is on them, and that no text of an error is more than text there."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest
import stacksplice
from building import command
from html_pages import HOSTILE, Page, error, frame, hostile
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
    assert page(data).texts("summary") == ["2 glue frames"]
    (details,) = [attributes for name, attributes, _ in page(data).elements if name == "details"]
    assert "open" not in details
    (details,) = [
        attributes for name, attributes, _ in page(data, all_frames=True).elements if name == "details"
    ]
    assert "open" in details


def test_long_stacks_are_folded_without_loss():
    shown = page(error([frame(number) for number in range(1000)]))
    assert shown.texts("span", "function") == [f"f{number}" for number in range(999, -1, -1)]
    assert shown.texts("summary") == [f"frames {first} to {first + 99}" for first in range(101, 900, 100)]
    shown = page(error([frame(1)] * LONG))
    assert shown.texts("summary")[0].startswith("the same frame ")
    assert len(shown.texts("span", "function")) == LONG


# ---- The way of an error -------------------------------------------------------------------------


def test_the_way_has_a_lane_for_each_language():
    stack = [frame(0), frame(1, language="lua"), frame(2, language="lua"), frame(3, language="native")]
    node = {"language": "lua", "thread_id": 8, "stack": stack[1:], "frames_left_out": 0}
    shown = page(error(stack, propagation=[node]))
    assert shown.texts("g", "lane") == ["C", "Lua", "Python"]
    assert [text.split(" a.py")[0] for text in shown.texts("li", "call")] == ["C f3", "Lua f2 → f1"]
    assert shown.texts("li", "raised") == ["Python raised f0 a.py:1"]
    assert shown.texts("li", "received") == ["Lua received by f1 on thread 8 a.py:2"]


def test_the_way_of_many_crossings_is_cut():
    stack = [frame(number, language=("lua", "python")[number % 2]) for number in range(500)]
    shown = page(error(stack))
    assert shown.texts("li", "more") == ["484 more changes of language"]
    assert len(shown.texts("g", "step")) == 17


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


def test_secrets_are_removed_as_elsewhere(price):
    def connect(_):
        raise ValueError("password=hunter2")

    text = stacksplice.error_info(caught(price, connect)).to_html()
    assert "hunter2" not in text and "password=[redacted: password]" in "".join(Page(text).texts("h1"))
    cut = frame(0, source="connect(password='[redacted: password]') + 1")
    assert page(error([cut])).texts("mark") == []


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
