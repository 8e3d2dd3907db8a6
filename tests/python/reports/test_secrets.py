"""Secrets in every part of an exception, and every way out of the process."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import traceback
import xml.etree.ElementTree

import pytest
import stacksplice
import stacksplice.logging
from building import command
from html_pages import error, frame
from pytest_runs import sections
from stacksplice import ErrorInfo
from stacksplice._base import redaction
from stacksplice._errors import github

SECRET = "hunter2"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture(autouse=True)
def usual_rules():
    yield
    stacksplice.redaction()


class Refused(Exception):
    pass


def _connect():
    try:
        raise KeyError(f"api_key={SECRET}")
    except KeyError as cause:
        error = Refused(f"cannot open postgres://bob:{SECRET}@db/x", {"password": SECRET}, TOKEN)
        error.add_note(f"called with --password {SECRET}\nsecret: {SECRET}")
        raise error from cause


def _called(password):
    _connect()


def failing():
    try:
        _called(password="hunter2")
    except Refused as exc:
        try:
            code = compile("\n\nraise_it(password='hunter2')", "/srv/token=hunter2/x.py", "exec")
            exec(code, {"raise_it": _again(exc)})
        except ExceptionGroup as group:
            return group
    raise AssertionError


def _again(exc):
    def raise_it(password):
        raise ExceptionGroup(f"pwd={SECRET}", [exc, ValueError(f"Authorization: Bearer {TOKEN}")])

    return raise_it


def crossed():
    exc = failing()
    stacksplice.originate(exc)
    return exc


def outputs(exc):
    """What leaves the process, by name."""
    info = stacksplice.error_info(exc)
    record = logging.LogRecord(
        "a", 40, "x.py", 1, "login of %s failed", (f"password={SECRET}",), (type(exc), exc, None)
    )
    record.session = {"token": SECRET, "n": 1}
    found = {
        "format_exception": "".join(stacksplice.format_exception(exc)),
        "log": stacksplice.logging.Formatter("%(levelname)s").format(
            record
        ),  # the program's own message is its own
        "log line": stacksplice.logging.JsonFormatter().format(record),
    }
    if info is not None:
        saved = stacksplice.ErrorInfo.from_dict({**info.to_dict(), "message": f"password={SECRET}"})
        found |= {
            "text": info.format(),
            "newest first": info.format(newest_last=False),
            "all frames": info.format(all_frames=True),
            "colour": info.format(color=True),
            "json": info.to_json(),
            "saved json": saved.to_json(),
            "saved text": saved.format(),
            "github": github.command("x.py:1", f"pwd={SECRET}", info.message),
            "sentry": info._handle.format(4, 0, True, False),
            "pickled": repr(info.__reduce__()),
        }
    if importlib.util.find_spec("opentelemetry"):
        from stacksplice.opentelemetry import exception_attributes

        found |= {
            name: text for name, text in exception_attributes(exc).items() if "." in name and " " in text
        }
    return found


@pytest.mark.parametrize("make", [failing, crossed])
def test_nothing_that_leaves_the_process_has_a_secret(make):
    for name, text in outputs(make()).items():
        if name == "log" and make is failing:
            continue  # it crossed no border: logging itself shows it
        assert SECRET not in text, (name, text)
        assert TOKEN not in text, (name, text)
        assert "[redacted: " in text, (name, text)


def test_hooks_of_the_interpreter_show_none(capsys, monkeypatch):
    exc = crossed()
    monkeypatch.setattr(sys, "last_value", exc, raising=False)  # as the interpreter does before it asks
    stacksplice.install()
    try:
        sys.excepthook(type(exc), exc, exc.__traceback__)
    finally:
        stacksplice.uninstall()
    text = capsys.readouterr().err
    assert "[redacted: password]" in text and SECRET not in text and TOKEN not in text


def test_objects_of_the_process_keep_their_texts():
    exc = Refused(f"password={SECRET}")
    stacksplice.originate(exc)
    info = stacksplice.error_info(exc)
    info.format()
    assert str(exc) == info.message == f"password={SECRET}"
    assert SECRET in repr(info)
    assert SECRET in "".join(traceback.format_exception(exc))


def test_a_marked_line_without_secrets_keeps_its_marks():
    def call(password):
        return password["x"]

    try:
        call({}) + call(password={"x": 1})
    except KeyError as exc:
        stacksplice.originate(exc)
        text = "".join(stacksplice.format_exception(exc))
    assert 'return password["x"]\n' in text and "^" in text


def text_of(message):
    exc = Refused(message)
    stacksplice.originate(exc)
    return stacksplice.error_info(exc).format()


def test_rules_are_chosen():
    message = "password=abc user_pin=1234 bob@example.org"
    assert "password=[redacted: password] user_pin=1234 bob@example.org" in text_of(message)
    stacksplice.redaction(emails=True, names=["pin"])
    assert "user_pin=[redacted: secret] [redacted: e-mail]" in text_of(message)
    stacksplice.redaction(False)
    assert message in text_of(message)
    stacksplice.install(redact=True)
    stacksplice.uninstall()
    assert "password=[redacted: password]" in text_of(message)
    for names in (["a b"], [""], ["p\xe4ss"], ["x" * 48], ["pin"] * 65):
        with pytest.raises(ValueError):
            stacksplice.redaction(names=names)
    for wrong in ({"names": "pin"}, {"hook": 1}, {"names": [1]}):
        with pytest.raises(TypeError):
            stacksplice.redaction(**wrong)
    assert "password=[redacted: password]" in text_of(message)


def test_a_hook_has_the_last_word():
    kinds = set()

    def hook(text, kind):
        kinds.add(kind)
        return text.replace("order 7", "an order")

    stacksplice.redaction(hook=hook)
    assert "Refused: password=[redacted: password] of an order" in text_of("password=x of order 7")
    assert {"message", "path"} <= kinds
    assert stacksplice._base.redaction.text_of("order 7") == "an order"


@pytest.mark.parametrize(
    "fault", [lambda *_: 1 / 0, lambda *_: None, lambda: "", lambda *_: text_of("x") and 1]
)
def test_a_text_whose_hook_fails_is_removed(fault):
    stacksplice.redaction(hook=fault)
    text = text_of("something")
    assert "something" not in text and "[redacted: hook failed]" in text
    info = stacksplice.error_info(crossed())
    saved = stacksplice.ErrorInfo.from_json(info.to_json())
    again = stacksplice.ErrorInfo.from_json(saved.to_json())
    assert saved.message == again.message == "[redacted: hook failed]"
    assert saved.fingerprint == again.fingerprint == info.fingerprint
    assert [frame.kind for frame in again.stack] == [frame.kind for frame in info.stack]


def test_a_hook_is_let_go():
    import gc
    import weakref

    class Hook:
        def __call__(self, text, kind):
            return text

    hook = Hook()
    gone = weakref.ref(hook)
    stacksplice.redaction(hook=hook)
    del hook
    assert gone() is not None
    stacksplice.redaction()
    gc.collect()
    assert gone() is None


# ---- Programs and commands that read errors ------------------------------------------------------


any_python = pytest.mark.any_python


def assert_clean(text: str, what: object = None) -> None:
    assert SECRET not in text, (what, text)
    assert TOKEN not in text, (what, text)
    assert "[redacted: " in text, (what, text)


SUITE = """
import border

def connect(password):
    raise ValueError(f"cannot open postgres://bob:{password}@db/x, token={password}")

def test_it():
    border.call(lambda: connect(password="hunter2"))
"""


@any_python
def test_pytest(run, tmp_path):
    output = run(SUITE, "--junitxml=junit.xml", GITHUB_ACTIONS="true")
    (section,) = sections(output)
    assert_clean(section)
    (annotation,) = [line for line in output.splitlines() if line.startswith("::error ")]
    assert_clean(annotation)
    file = tmp_path / "junit.xml"
    (failure,) = xml.etree.ElementTree.parse(file).iter("failure")
    assert_clean(sections(failure.text + "\n---")[0])


@any_python
def test_pages_of_live_errors():
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("pygments", reason="pygments is not installed")
    info = stacksplice.error_info(crossed())
    assert_clean(info.to_html())
    assert_clean(info._repr_html_())


@any_python
def test_an_uncaught_error_of_run(tmp_path, border_path):
    (tmp_path / "program.py").write_text(SUITE + "\ntest_it()\n")
    paths = [str(border_path.parent), str(stacksplice.__path__[0]).rpartition("/")[0]]
    done = command("run", "program.py", status=1, cwd=tmp_path, PYTHONPATH=":".join(paths))
    assert_clean(done.stderr)


@pytest.fixture
def saved(tmp_path):
    """A file of reports from a process that removed nothing."""
    stacksplice.redaction(False)
    text = stacksplice.originate(failing()).to_json()
    bad = frame(0, file=f"/srv/token={SECRET}/x.py", source=f"connect(password='{SECRET}')")
    texts = {"notes": [f"pwd={SECRET}"], "message": f"Authorization: Bearer {TOKEN}"}
    more = error([bad], **texts, fingerprint="1" * 32)
    stacksplice.redaction()
    assert SECRET in text and TOKEN in text
    file = tmp_path / "reports.jsonl"
    log = {"@timestamp": "2026-01-02T03:04:05Z", "ecs.version": "8", "message": f"password={SECRET}"}
    lines = [text, {"order": "A-1", "password": SECRET, "error": more}, {**log, "stacksplice": more}]
    file.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines))
    return str(file)


FORMS = [
    ["show"],
    ["show", "--all-frames", "--newest-first", "--color=always"],
    ["show", "--json"],
    ["symbolize"],
    ["symbolize", "--text"],
    ["top"],
    ["top", "--json"],
    ["show", "--html", "-"],
    ["top", "--html", "-"],
]


@any_python
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_commands(saved, form):
    if "--html" in form:
        pytest.importorskip("jinja2", reason="jinja2 is not installed")
        pytest.importorskip("pygments", reason="pygments is not installed")
    if form[0] == "symbolize" and stacksplice._stacksplice._lines_missing():
        pytest.skip("this process has no libdw")
    assert_clean(command(*form, saved).stdout)


@any_python
def test_a_title_that_is_cut_keeps_no_part_of_a_secret(tmp_path):
    file = tmp_path / "reports.jsonl"
    for before in range(70, 120, 3):
        report = error([frame(0)], message="x" * before + f" {TOKEN}")
        file.write_text(json.dumps(report) + "\n")
        assert TOKEN[:12] not in command("top", str(file)).stdout


@any_python
def test_groups_of_groups_stay_whole():
    """What is removed from a saved report is no matter of its depth."""
    inner = error([frame(0)], message="the innermost")
    for _ in range(32):
        inner = error([frame(0)], exceptions=[inner])
    assert ErrorInfo.from_dict(inner).to_dict() == inner


# How a name and a value stand together in texts, of which Sentry's scrubber only sees names of members.
TOGETHER = [
    "{name}={value}",
    '"{name}": "{value}"',
    "{name}: {value}",
    "{{'{name}': '{value}'}}",
    "('{name}', '{value}')",
    "GET / HTTP/1.1\r\n{name}: {value}\r\nHost: x",
]


def test_what_sentrys_scrubber_removes_is_removed():
    scrubber = pytest.importorskip("sentry_sdk.scrubber", reason="sentry-sdk is not installed")
    value = "k3Yo4tPass9"
    of_persons = set(scrubber.DEFAULT_PII_DENYLIST)
    names = [*scrubber.DEFAULT_DENYLIST, *of_persons]
    event = {"exception": {"values": [{"stacktrace": {"frames": [{"vars": dict.fromkeys(names, value)}]}}]}}
    scrubber.EventScrubber().scrub_event(event)
    left = event["exception"]["values"][0]["stacktrace"]["frames"][0]["vars"]
    removed = [name for name in names if left[name] != value]
    assert removed
    for name in removed:
        for spelt in (name, name.upper()):
            assert value not in redaction.local_of(spelt, repr(value)), spelt
            assert value not in str(redaction.clean({spelt: value})), spelt
            for form in () if name in of_persons else TOGETHER:
                text = form.format(name=spelt, value=value)
                assert value not in redaction.text_of(text), text
