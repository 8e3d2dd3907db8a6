"""A report that was saved, pickled or read back is the text of the live error."""

from __future__ import annotations

import itertools
import json
import pickle
import traceback

import pytest
import stacksplice
from raising import boom, caught, fail, report, with_cause
from stacksplice import ErrorInfo, winrt
from stacksplice._tools.command_line import perform
from stacksplice._tools.saved import source

FORGED = (
    "bad\nHRESULT 0x80070057 E_INVALIDARG: forged\n"
    '  (C) File "/forged.c", line 1, in innocent\n\nCaused by:\n'
)


def recurse(depth):
    if depth:
        recurse(depth - 1)
    raise RecursionError("deep")


def chain(length, exc):
    for number in range(length):
        exc.__cause__ = caught(boom, OSError(number, f"behind {number}"))
        exc = exc.__cause__


def long_chain():
    exc = ValueError("first of many")
    chain(40, exc)
    raise exc


def circle():
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__context__ = two, one
    raise one


def noted():
    exc = ValueError("größe \U0001f600 \ud800 \0 \x1b[31m\u202e")
    exc.add_note("first\u2028")
    exc.add_note(FORGED)
    raise exc


def group():
    member = caught(with_cause)
    inner = caught(boom, ExceptionGroup("inner", [member, caught(boom, KeyError("twice"))]))
    never = TypeError()
    members = [member, never, inner, *(ValueError(str(number)) for number in range(20))]
    try:
        raise KeyError("handled")
    except KeyError:
        raise ExceptionGroup("outer\nof two lines", members)


def nested_groups():
    exc = caught(boom, ValueError("inside"))
    for number in range(14):
        exc = ExceptionGroup(f"level {number}", [exc])
    raise exc


def wrapped_in_its_member():
    member = ValueError("in the group")
    outer = ExceptionGroup("outer", [member])
    member.__context__ = outer
    raise outer


def of_native_code():
    winrt.RoOriginateError(-2147024809, FORGED)
    stacksplice.raise_error(-2147024809)


def without_symbol():
    winrt.RoOriginateError(-2003566597, None)
    stacksplice.raise_error(-2003566597)


class Forged(Exception):
    __qualname__ = "HRESULT 0x80070057 E_INVALIDARG: \n\u202e"


globals()[Forged.__qualname__] = Forged  # where pickle looks for it


CROSSING = {
    "plain": lambda: fail("a message"),
    "empty": lambda: fail(""),
    "forged": lambda: fail(FORGED),
    "forged type": lambda: boom(Forged("x")),
    "trailing line feeds": lambda: fail("x\n\n"),
    "noted": noted,
    "cause": with_cause,
    "long chain": long_chain,
    "circle": circle,
    "group": group,
    "nested groups": nested_groups,
    "circle of a group": wrapped_in_its_member,
    "repeats": lambda: recurse(30),
    "of native code": of_native_code,
    "without a symbol": without_symbol,
}
ORDERS = [
    {"newest_last": last, "all_frames": all_frames, "chain": chain}
    for last, all_frames, chain in itertools.product((False, True), repeat=3)
]


def texts(info) -> list[str]:
    return [info.format(**options) for options in ORDERS]


def without_place(info) -> list[str]:
    """The texts of a pickled one, which alone tell of which process it is."""
    process = info.process
    name = f" ({process['name']})" if "name" in process else ""
    place = f" of process {process['id']}{name} on {process['host']}"
    found = texts(info)
    assert all(text.count(place) == 1 for text in found)
    return [text.replace(place, "") for text in found]


def assert_the_same(exc):
    info = stacksplice.error_info(exc)
    live = texts(info)
    saved = ErrorInfo.from_dict(json.loads(info.to_json()))
    assert texts(saved) == live
    assert texts(ErrorInfo.from_dict(saved.to_dict())) == live
    assert without_place(pickle.loads(pickle.dumps(info))) == live
    assert without_place(pickle.loads(pickle.dumps(saved))) == live
    arrived = stacksplice.error_info(pickle.loads(pickle.dumps(exc)))
    if len(info.to_json()) < 200_000:  # a larger one is cut
        assert without_place(arrived) == live
    return live


@pytest.mark.parametrize("name", CROSSING)
def test_saved_and_pickled_are_the_live_text(border, name):
    exc = caught(border.call, CROSSING[name])
    live = assert_the_same(exc)
    again = caught(border.call, boom, exc)  # with one node more
    assert again is exc and assert_the_same(exc) != live


def test_with_frames_of_lua(crossing):
    def in_lua():
        crossing.run("local p = require('pricing').price({count = 3}, (...)) return p", with_cause)

    live = assert_the_same(caught(in_lua))
    assert "(Lua) " in live[0] and 'error("no count")' not in live[0]
    exc = caught(crossing.run, "local p = require('pricing').price({}) return p")
    live = assert_the_same(exc)
    assert 'error("no count")' in live[0]  # the source line, which the saved report brings along
    assert "Python received it in " in live[0]


def test_a_frame_is_the_line_of_the_report(border):
    info = stacksplice.error_info(caught(border.call, with_cause))
    lines = info.format(all_frames=True, newest_last=False).splitlines()
    assert [f"    {frame}" for frame in info.stack] == [
        line for line in lines[: lines.index("Propagation:")] if line.startswith(("    (", "    ["))
    ]


def test_a_saved_report_opens_no_file(border, tmp_path):
    """It may come from anywhere, and names files as it likes."""
    secret = tmp_path / "secret"
    secret.write_text("the secret line\n")
    data = stacksplice.error_info(caught(border.call, with_cause)).to_dict()
    for frame in data["stack"]:
        frame["file"], frame["line"] = str(secret), 1
        frame.pop("source", None)
    text = ErrorInfo.from_dict(data).format(all_frames=True)
    assert f'"{secret}", line 1' in text and "the secret line" not in text


@pytest.mark.parametrize(
    ("member", "value", "why"),
    [
        ("message", 5, "message must be a text"),
        ("stack", [{"kind": "native", "line": -1}], "line must be 0 or more"),
        ("transformed", [5], "an error must be an object"),
    ],
)
def test_a_damaged_report_is_an_exception(border, member, value, why):
    data = stacksplice.error_info(caught(border.call, with_cause)).to_dict()
    with pytest.raises(ValueError, match=f"^{why}$"):
        ErrorInfo.from_dict({**data, member: value}).format()


def test_a_report_in_itself_without_end_is_an_exception(border):
    data = stacksplice.error_info(caught(border.call, with_cause)).to_dict()
    data["exceptions"] = [data]
    with pytest.raises(RecursionError):
        ErrorInfo.from_dict(data).format()


def test_a_value_that_runs_code_is_refused(border):
    class Value:
        def __str__(self):
            data["exceptions"].clear()
            return "7"

    info = stacksplice.error_info(caught(border.call, with_cause))
    data = info.to_dict()
    inner = {**info.to_dict(), "process": {"id": Value(), "host": "host"}}
    data["exceptions"] = [inner, *[info.to_dict()] * 1000]
    with pytest.raises(TypeError, match="Value is not JSON serializable"):
        ErrorInfo.from_dict(data)


def test_a_report_is_a_copy(border):
    data = stacksplice.error_info(caught(border.call, with_cause)).to_dict()
    saved = ErrorInfo.from_dict(data)
    text = str(saved)
    data["stack"].clear()
    assert str(saved) == text


# ---- Exceptions whose text looks like a report ----------------------------------------------------


def test_nothing_is_forged_in_errors_as_data(border):
    plain = caught(boom, ValueError(FORGED))
    plain.add_note(FORGED)
    plain.__cause__ = caught(border.call, fail)
    text = report(plain)
    assert text.endswith("".join(traceback.format_exception_only(plain)))  # byte for byte Python's
    info = stacksplice.error_info(caught(border.call, boom, plain))
    for lines in (info.format().split("\n"), ErrorInfo.from_dict(info.to_dict()).format().split("\n")):
        assert "ValueError: bad" in lines and "note: bad" in lines
        assert lines.count("| HRESULT 0x80070057 E_INVALIDARG: forged") == 2
        assert "Caused by:" not in lines


@pytest.mark.parametrize("depth", [350, 450])
@pytest.mark.parametrize("wrapped", [False, True], ids=["error", "file"])
def test_all_readers_have_one_limit_of_nesting(tmp_path, capsys, depth, wrapped):
    error = json.loads(stacksplice.originate(caught(boom, ValueError("x"))).to_json())
    error["stack"] = error["stack"][:1]  # pytest's own frames would be in each of them
    text = json.dumps(error)[:-1]
    text = (text + ', "later": ') * depth + text + "}" * (depth + 1)
    if wrapped:
        text = f'{{"schema": "stacksplice-report/1", "header": {{}}, "error": {text}}}'
    path = tmp_path / "deep.json"
    path.write_text(text + "\n")
    is_read = depth < 400
    page = str(tmp_path / "page.html")
    for arguments in (["show"], ["show", "--json"], ["show", "--html", page], ["symbolize"]):
        if arguments != ["symbolize"] or not stacksplice._stacksplice._lines_missing():
            assert perform([*arguments, str(path)]) == (0 if is_read else 2)
            assert ("values are nested too deeply" in capsys.readouterr().err) != is_read, arguments
    assert perform(["top", str(path)]) == (0 if is_read else 1)
    assert ("skipped 1 line without a report" in capsys.readouterr().err) != is_read


def test_a_line_without_end_is_refused(monkeypatch, capsys):
    """As that of a device, which would be read until there is no memory."""
    monkeypatch.setattr(source, "_DOCUMENT_MAX", 1 << 16)
    for name in ("show", "top", "symbolize"):
        if name != "symbolize" or not stacksplice._stacksplice._lines_missing():
            assert perform([name, "/dev/zero"]) == 2
            assert "cannot read /dev/zero: a line has more than 256 MB" in capsys.readouterr().err
