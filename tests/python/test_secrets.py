"""Secrets in every part of an exception, and every way out of the process."""

import logging
import sys
import traceback

import pytest
import stacksplice
import stacksplice.logging
from stacksplice import _stacksplice
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


def test_values_of_programs():
    clean = redaction.clean
    assert clean({"password": SECRET, "n": [1, f"x token={SECRET}"]}) == {
        "password": "[redacted: password]",
        "n": [1, "x token=[redacted: token]"],
    }
    assert clean({"password": ""}) == {"password": ""}
    frame = {"kind": "script", "locals": {"kind": f"token={SECRET}"}}  # a variable may have any name
    assert redaction.clean_report(frame) == {"kind": "script", "locals": {"kind": "token=[redacted: token]"}}
    assert clean("\ud800 password=x") == "\ud800 password=[redacted: password]"
    deep = []
    deep.append(deep)
    assert "too deep" in repr(clean(deep))
    with pytest.raises(ValueError):
        _stacksplice._redact("x", 9)
