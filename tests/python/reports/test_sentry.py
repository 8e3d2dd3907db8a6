"""stacksplice.sentry with the real SDK and a transport that keeps the envelopes.

Each event is given to the part of Sentry that takes events in: its Relay refuses no part and drops none.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from typing import Any

import golden_reports
import pytest
import stacksplice
from building import built, ran
from raising import boom, caught, fail, with_cause
from stacksplice import ErrorInfo
from test_saved_reports import CROSSING

relay = pytest.importorskip("sentry_relay.processing", reason="sentry-relay is not installed")
sentry_sdk = pytest.importorskip("sentry_sdk", reason="sentry_sdk is not installed")

from stacksplice.sentry import StackspliceIntegration, event  # noqa: E402

pytestmark = pytest.mark.any_python

OURS = {"exception", "fingerprint", "debug_meta", "platform", "level", "event_id"}


def taken_in(told: dict[str, Any]) -> dict[str, Any]:
    return relay.StoreNormalizer(project_id=1).normalize_event(told)


def refused(meta: Any, path: str = "") -> Iterator[str]:
    """What Relay says of the parts of an event that are against its rules, or too long."""
    for name, inner in (meta or {}).items():
        if name:
            yield from refused(inner, f"{path}.{name}")
        elif inner.get("err") or inner.get("rem"):
            yield f"{path}: {inner}"


def is_empty(value: Any) -> bool:
    return value in (None, [], {}) or isinstance(value, dict) and all(map(is_empty, value.values()))


def dropped(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Parts of OURS that are not in THEIRS.  Relay leaves out what is empty."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name not in theirs and not is_empty(value):
                yield f"{path}.{name}"
            elif name in theirs:
                yield from dropped(value, theirs[name], f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (value, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from dropped(value, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


def assert_is_taken_in(told: dict[str, Any]) -> None:
    result = taken_in(told)
    assert list(refused(result.get("_meta"))) == []
    told = {name: value for name, value in told.items() if name in OURS}
    assert list(dropped(told, result)) == []


@pytest.fixture
def sent():
    """Captures an exception, and gives the event as it would have left this process."""
    events: list[dict[str, Any]] = []

    class Kept(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            events.append(json.loads(envelope.get_event() and envelope.items[0].payload.get_bytes()))

    def send(exc, **options):
        options = {"integrations": [StackspliceIntegration()], "default_integrations": False, **options}
        client = sentry_sdk.Client("http://key@localhost/1", transport=Kept, **options)
        with sentry_sdk.isolation_scope() as scope:
            scope.set_client(client)
            sentry_sdk.capture_exception(exc)
        assert_is_taken_in(events[-1])
        return events[-1]

    return send


def frames_of(value) -> list[dict[str, Any]]:
    return value["stacktrace"]["frames"]


def name_of(frame) -> str:
    """Native frames of a stripped interpreter have none."""
    return frame.get("function", "")


def shown(value) -> list[tuple[str, str]]:
    """Of the frames that are the program's."""
    return [(f["platform"], name_of(f).rpartition(".")[2]) for f in frames_of(value) if f.get("in_app")]


def test_frames_of_all_languages_in_true_order(sent, price):
    (value,) = sent(caught(price, fail))["exception"]["values"]
    names = [(f["platform"], name_of(f).rpartition(".")[2]) for f in frames_of(value)]
    scripts = [name for name in names if name[0] in ("lua", "python")]
    assert ("lua", "price") in scripts and scripts.index(("lua", "price")) < len(scripts) - 1
    assert [name for name in names if name[0] == "native"]
    lua = next(f for f in frames_of(value) if name_of(f) == "price")
    assert lua["filename"].endswith("pricing.lua") and lua["context_line"] and lua["in_app"]


def test_native_frames_can_be_symbolized_elsewhere(sent, border):
    event = sent(caught(border.call, fail))
    (value,) = event["exception"]["values"]
    native = [f for f in frames_of(value) if f["platform"] == "native" and "border" in f["package"]]
    assert native and value["stacktrace"]["instruction_addr_adjustment"] == "all"
    frame = stacksplice.error_info(caught(border.call, fail)).stack
    ids = {f.build_id for f in frame if f.module and "border" in f.module}
    images = [image for image in event["debug_meta"]["images"] if image["code_id"] in ids]
    assert [image["code_file"] for image in images] == [native[0]["package"]]


def test_what_the_sdk_knows_besides_stays(sent, border):
    def local():
        secret_number = 41
        fail(f"x{secret_number}")

    exc = caught(border.call, local)
    exc.add_note("a note")
    (value,) = sent(exc)["exception"]["values"]
    frame = next(f for f in frames_of(value) if name_of(f).endswith("local"))
    assert frame["vars"]["secret_number"] == "41"
    assert frame["pre_context"] and 'fail(f"x{secret_number}")' in frame["context_line"]
    assert (value["type"], value["value"]) == ("ValueError", "x41\na note")
    assert value["mechanism"]["handled"] is True and value["mechanism"]["data"]["hresult"] == "0x80070057"
    plain = sent(exc, include_local_variables=False, include_source_context=False)
    for frame in frames_of(plain["exception"]["values"][-1]):
        assert "vars" not in frame and "context_line" not in frame


def event_of_rules(sent, tmp_path, monkeypatch, name, **options):
    """The value for an error of the function NAME in a file of Lua, which lupa runs, and that of the SDK."""
    lua54 = pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    text = "\n".join(
        ["-- rules", "function text()", "  local order = {}", "  return order.total.amount", "end"]
        + ["function fields()", "  error({code = 7, message = 'no stock'})", "end"]
    )
    (tmp_path / "rules.lua").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    stacksplice.install()
    try:
        lua = lua54.LuaRuntime()
        lua.execute(text, name="@rules.lua")

        def quote():
            currency = "EUR"
            return lua.globals()[name](currency)

        exc = caught(quote)
        (ours,) = sent(exc, **options)["exception"]["values"]
        (theirs,) = sent(exc, **options, integrations=[])["exception"]["values"]
    finally:
        stacksplice.uninstall()
    return ours, theirs


@pytest.mark.parametrize("name", ["text", "fields"])
def test_an_error_of_lua_is_the_exception_that_it_was(sent, tmp_path, monkeypatch, name):
    ours, theirs = event_of_rules(sent, tmp_path, monkeypatch, name)
    assert (ours["type"], ours["module"]) == (theirs["type"], theirs["module"]) == ("LuaError", "lupa.lua54")
    assert ours["mechanism"]["handled"] is True and ours["mechanism"]["type"] == "generic"
    title = {"text": "rules.lua:4: attempt to index", "fields": '{code = 7, message = "no stock"}'}
    assert ours["value"].startswith(title[name])
    python, lua = (next(f for f in frames_of(ours) if name_of(f).endswith(n)) for n in ("quote", name))
    assert python["vars"]["currency"] == "'EUR'" and python["filename"] == "test_sentry.py"
    assert len(python["pre_context"]) == len(python["post_context"]) == 5
    assert (lua["platform"], lua["module"], lua["in_app"]) == ("lua", "lua", True)
    assert lua["abs_path"] == str(tmp_path / "rules.lua") and lua["pre_context"] and lua["post_context"]
    assert lua["context_line"].startswith("  ")
    assert not any(f["in_app"] for f in frames_of(ours) if str(f.get("filename")).endswith(".pyx"))


def test_what_the_sdk_says_of_a_program_decides(sent, tmp_path, monkeypatch):
    ours, _ = event_of_rules(sent, tmp_path, monkeypatch, "text", in_app_exclude=["lua"])
    assert [f["in_app"] for f in frames_of(ours) if f["platform"] == "lua"] == [False]


def test_frames_that_only_we_have_are_as_complete(sent, price):
    """Those that called the catcher, which no traceback has, and those of C."""
    frames = frames_of(sent(caught(price, fail))["exception"]["values"][0])
    outside = [f for f in frames if f["platform"] == "python" and f.get("module") == "_pytest.python"]
    assert outside and all(f["pre_context"] and f["filename"] == "_pytest/python.py" for f in outside)
    lua = next(f for f in frames if name_of(f) == "price")
    assert lua["pre_context"] and lua["post_context"] and lua["module"] == "lua"
    assert {f["module"] for f in frames if f["platform"] == "native" and "package" in f} >= {"libc.so.6"}


def test_causes_that_were_too_many_for_us_are_those_of_the_sdk(sent, border):
    def chain():
        for number in range(80):
            exc = RuntimeError(str(number))
            exc.__cause__ = None if not number else last  # noqa: F821
            last = exc
        raise last

    exc = caught(border.call, chain)
    ours, theirs = (sent(exc, **more)["exception"]["values"] for more in ({}, {"integrations": []}))
    assert [value["value"] for value in ours] == [value["value"] for value in theirs] and len(ours) == 80
    mechanisms = [value["mechanism"] for value in ours[::-1]]
    assert [mechanism["exception_id"] for mechanism in mechanisms] == list(range(80))
    assert [mechanism["parent_id"] for mechanism in mechanisms[1:]] == list(range(79))
    assert {mechanism["source"] for mechanism in mechanisms[1:]} == {"__cause__"}


def test_causes_and_groups_by_their_ids(sent, border):
    member = caught(border.call, with_cause)

    def group():
        try:
            raise OSError(2, "handled")
        except OSError:
            raise ExceptionGroup("all", [member, TypeError("never raised")])

    event = sent(caught(border.call, group))
    values = event["exception"]["values"][::-1]
    told = [(v["type"], v["mechanism"].get("parent_id"), v["mechanism"].get("source")) for v in values]
    assert told[0] == ("ExceptionGroup", None, None) and values[0]["mechanism"]["is_exception_group"]
    assert set(told[1:4]) == {
        ("FileNotFoundError", 0, "__context__"),
        ("ValueError", 0, "exceptions[0]"),
        ("TypeError", 0, "exceptions[1]"),
    }
    second = [v["type"] for v in values].index("ValueError")
    assert told[4:] == [("KeyError", second, "__cause__")]


def test_a_member_stays_one_where_the_context_was_taken_away_later(sent, border):
    def group():
        try:
            fail()
        except ValueError as member:
            raise ExceptionGroup("all", [TypeError("never raised"), member])

    def without_a_context():
        try:
            border.call(group)  # whose error has the member as its context
        except ExceptionGroup as exc:
            raise exc from None

    exc = caught(without_a_context)
    for more in ({"integrations": []}, {}):
        values = sent(exc, **more)["exception"]["values"][::-1]
        told = {(v["type"], v["mechanism"].get("parent_id"), v["mechanism"].get("source")) for v in values}
        assert told == {
            ("ExceptionGroup", None, None),
            ("TypeError", 0, "exceptions[0]"),
            ("ValueError", 0, "exceptions[1]"),
        }


def test_no_member_is_there_twice_where_the_sdk_has_no_members(sent, border):
    def inner():
        try:
            border.call(fail)
        except ValueError as member:
            raise ExceptionGroup("inner", [member, TypeError("never raised")])

    def outer():
        try:
            inner()
        except ExceptionGroup as member:  # which is the context of the next one, too
            raise ExceptionGroup("outer", [member])

    def handling():  # the SDK follows groups only where the error itself is one
        try:
            outer()
        except ExceptionGroup:
            raise RuntimeError("while handling")

    values = sent(caught(handling))["exception"]["values"]
    types = ["ExceptionGroup", "ExceptionGroup", "RuntimeError", "TypeError", "ValueError"]
    assert sorted(value["type"] for value in values) == types


def test_the_fingerprint_is_that_of_the_error_unless_the_program_has_one(sent, border):
    exc = caught(border.call, fail)
    assert sent(exc)["fingerprint"] == [stacksplice.error_info(exc).fingerprint]

    def own(event, hint):
        return {**event, "fingerprint": ["mine"]}

    assert sent(exc, before_send=own)["fingerprint"] == ["mine"]


def test_a_stack_that_was_cut_replaces_no_frames(sent, border):
    def deep(calls):
        if calls:
            deep(calls - 1)
        else:
            border.call(fail)

    before = stacksplice.set_max_frames(4)
    try:
        exc = caught(deep, 9)
    finally:
        stacksplice.set_max_frames(before)
    (value,) = sent(exc)["exception"]["values"]
    assert [name_of(f) for f in frames_of(value)].count("deep") == 10
    assert value["mechanism"]["data"]["hresult"] == "0x80070057"


def test_an_error_behind_one_that_crossed_nothing(sent, border):
    exc = RuntimeError("outside")
    exc.__cause__ = caught(border.call, fail, "inside")
    outside, inside = sent(caught(boom, exc))["exception"]["values"][::-1]
    assert [name_of(f) for f in frames_of(outside)][-1] == "boom"
    assert inside["value"] == "inside" and inside["mechanism"]["data"]["hresult"] == "0x80070057"
    assert "native" in {f["platform"] for f in frames_of(inside)}


def test_other_events_stay_as_they_are(sent, border):
    exc = caught(fail)
    ours = sent(exc)
    (theirs,) = sent(exc, integrations=[])["exception"]["values"]
    assert ours["exception"]["values"] == [theirs] and "debug_meta" not in ours and "fingerprint" not in ours
    crossed = sent(caught(border.call, fail), integrations=[])
    assert "debug_meta" not in crossed  # a client without the integration


def test_uncaught_errors(child):
    done = child(
        """
import json, border, sentry_sdk, stacksplice
from stacksplice.sentry import StackspliceIntegration
class Print(sentry_sdk.transport.Transport):
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        print([(v["mechanism"]["handled"], v["mechanism"]["type"], len({f["platform"] for f in
            v["stacktrace"]["frames"]}) > 1) for v in event["exception"]["values"]])
sentry_sdk.init("http://key@localhost/1", transport=Print, integrations=[StackspliceIntegration()])
stacksplice.install()
def fails(): raise ValueError("uncaught")
border.call(fails)
""",
        status=1,
    )
    assert done.stdout == "[(False, 'excepthook', True)]\n"


# ---- Saved ---------------------------------------------------------------------------------------


def without_the_moment(told):
    """An event without what each event has of its own, and what a report does not keep."""
    assert told.pop("event_id") and told.pop("timestamp")
    for image in told["debug_meta"]["images"]:
        image.pop("image_size", None)
    return told


@pytest.mark.parametrize("name", CROSSING)
def test_it_is_the_event_of_the_live_error(border, name):
    info = stacksplice.error_info(caught(border.call, CROSSING[name]))
    live = without_the_moment(event(info))
    for saved in (ErrorInfo.from_json(info.to_json()), pickle.loads(pickle.dumps(info))):
        assert_is_taken_in(event(saved))
        assert without_the_moment(event(saved)) == live


def test_a_report_of_version_1(border):
    from test_schema import SAVED

    told = event(ErrorInfo.from_json(SAVED.read_text(encoding="utf-8")))
    assert_is_taken_in(told)
    types = [value["type"] for value in told["exception"]["values"]]
    assert types == ["KeyError", "TypeError", "ExceptionGroup"]


def test_the_least_that_a_report_can_be():
    told = event(ErrorInfo.from_json('{"hresult_signed": -1, "message": "", "stack": [], "propagation": []}'))
    assert_is_taken_in(told)
    (value,) = told["exception"]["values"]
    assert value["type"] == "0xffffffff" and "fingerprint" not in told and "stacktrace" not in value


def test_the_sdk_sends_it(border):
    kept = []

    class Kept(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            kept.append(json.loads(envelope.get_event() and envelope.items[0].payload.get_bytes()))

    info = ErrorInfo.from_json(stacksplice.error_info(caught(border.call, with_cause)).to_json())
    client = sentry_sdk.Client("http://key@localhost/1", transport=Kept, default_integrations=False)
    with sentry_sdk.isolation_scope() as scope:
        scope.set_client(client)
        sentry_sdk.capture_event({**event(info), "timestamp": 1_700_000_000, "release": "1.0"})
    (arrived,) = kept
    assert_is_taken_in(arrived)
    assert arrived["release"] == "1.0" and arrived["fingerprint"] == [info.fingerprint]
    assert "native" in {frame["platform"] for frame in frames_of(arrived["exception"]["values"][-1])}


def test_an_error_of_another_process_has_both_stacks(sent, border):  # noqa: F811
    exc = pickle.loads(pickle.dumps(caught(border.call, fail)))

    def received():
        raise exc

    (value,) = sent(caught(received))["exception"]["values"]
    names = [name_of(frame).rpartition(".")[2] for frame in frames_of(value)]
    (seam,) = [at for at, name in enumerate(names) if name.startswith("[async: error came from process ")]
    assert "received" in names[:seam] and "fail" in names[seam:]
    assert value["value"] == "x" and value["mechanism"]["data"]["hresult"] == "0x80070057"
    behind = RuntimeError("outside")
    behind.__cause__ = exc
    inside = sent(caught(boom, behind))["exception"]["values"][0]
    assert "fail" in [name_of(frame).rpartition(".")[2] for frame in frames_of(inside)]


# ---- Processes that crashed ------------------------------------------------------------------------


def crashed(tmp_path, *how):
    ran(built("tests/core/fault_program"), *how, status=None, STACKSPLICE_REPORT_DIR=tmp_path)
    (file,) = tmp_path.iterdir()
    return file


def without_identity(told):
    told.pop("event_id")
    return told


@pytest.mark.parametrize("how", [("segv",), ("threads", "case"), ("error",)], ids=str)
def test_the_file_of_a_crash(tmp_path, how):
    file = crashed(tmp_path, *how)
    saved = json.loads(file.read_text(encoding="utf-8"))
    info = ErrorInfo.from_json(file.read_bytes())
    told = event(info)
    assert_is_taken_in(told)
    assert list(dropped({"threads": told["threads"]}, taken_in(told))) == []
    assert told["level"] == "fatal" and told["timestamp"] == saved["header"]["time"]
    value, *others = told["exception"]["values"][::-1]
    assert value["type"] == "SIGSEGV" and value["mechanism"]["type"] == "signalhandler"
    assert value["mechanism"]["handled"] is False
    assert value["mechanism"]["meta"]["signal"]["number"] == 11
    assert value["stacktrace"]["instruction_addr_adjustment"] == "all_but_first"
    first, *threads = told["threads"]["values"]
    assert first == {"id": saved["header"]["thread_id"], "crashed": True, "current": True}
    assert [(t["id"], t["name"]) for t in threads] == [(t["thread_id"], t["name"]) for t in saved["threads"]]
    assert [len(frames_of(t)) for t in threads if "stacktrace" in t] == [
        len(t["stack"]) for t in saved["threads"] if t["answered"]
    ]
    images = {image["image_addr"]: image for image in told["debug_meta"]["images"]}
    used = {frame["image_addr"] for frame in frames_of(value) if "image_addr" in frame}
    assert used and used <= set(images) and all(image["image_size"] > 0 for image in images.values())
    current = saved["current_error"]
    assert [other["mechanism"]["source"] for other in others][:1] == (["current_error"] if current else [])
    # The same from a program in C, where no SDK fills in what nobody knows.
    done = ran(built("tests/core/crash_event_program"), file)
    again = without_identity(event(ErrorInfo.from_json(info.to_json())))
    assert [again.pop(name) for name in ("release", "environment", "dist")] == ["unknown"] * 3
    assert without_identity(json.loads(done.stdout)) == again


@pytest.mark.parametrize("has_host", [True, False])
def test_the_file_of_a_crash_elsewhere(tmp_path, monkeypatch, has_host):
    """An event is about the program that crashed: nothing is of the one that sends it."""
    saved = json.loads(crashed(tmp_path, "segv").read_text(encoding="utf-8"))
    assert saved["header"]["host"] == os.uname().nodename
    saved["header"].update(host="there", arch="sparc", platform_release="1.2", process="/opt/game/bin/game")
    if not has_host:
        for name in ("host", "arch", "platform", "platform_release", "process"):
            del saved["header"][name]
    events = []

    class Kept(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            events.append(json.loads(envelope.get_event() and envelope.items[0].payload.get_bytes()))

    client = sentry_sdk.Client("http://key@localhost/1", transport=Kept, release="of the sender")
    with sentry_sdk.isolation_scope() as scope:
        scope.set_client(client)
        told = event(ErrorInfo.from_dict(saved))
        sentry_sdk.capture_event(told)
        sentry_sdk.capture_event({**told, "release": "game 1"})
        sentry_sdk.capture_message("of the sender")
    there, released, here = events
    assert_is_taken_in(there)
    known = ("there", "sparc", "game") if has_host else ("unknown",) * 3
    contexts = there["contexts"]
    assert (there["server_name"], contexts["device"]["arch"], contexts["runtime"]["name"]) == known
    assert "modules" not in there and "sys.argv" not in (there.get("extra") or {})
    assert [there[name] for name in ("release", "environment", "dist")] == ["unknown"] * 3
    assert released["release"] == "game 1"
    assert ["server_name", known[0]] in taken_in(there)["tags"]
    assert contexts["process"].get("executable") == ("/opt/game/bin/game" if has_host else None)
    assert here["modules"] and here["extra"]["sys.argv"] and here["release"] == "of the sender"


def test_files_of_other_ends(tmp_path):
    ran(built("tests/core/crash_program"), "full", status=None, STACKSPLICE_REPORT_DIR=tmp_path)
    (file,) = tmp_path.iterdir()
    told = event(ErrorInfo.from_json(file.read_text(encoding="utf-8")))
    assert_is_taken_in(told)
    assert told["level"] == "fatal" and told["exception"]["values"][-1]["mechanism"]["type"] == "generic"


# ---- Relay ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden_reports.EXTREMES)
def test_events_of_saved_reports(name):
    assert_is_taken_in(event(ErrorInfo.from_dict(golden_reports.of(name))))


def test_relay_refuses_what_is_wrong():
    told = event(ErrorInfo.from_dict(golden_reports.of("chain")))
    frame = told["exception"]["values"][0]["stacktrace"]["frames"][0]
    frame.update(in_app=5, instruction_addr="none", lineno="none")
    assert len(list(refused(taken_in(told)["_meta"]))) == 3
