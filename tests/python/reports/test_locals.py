"""install(locals=True): local variables in every form of report, without running any code of the program."""

from __future__ import annotations

import gc
import html
import json
import os
import pickle
import re
import shutil
import sys
import traceback

import pytest
import stacksplice
import versions
from building import command
from raising import caught, error_of, frames_of, text_of_value

CALLS: list[str] = []
# docs/how-to/local-variables.md
MORE, OUTWARD = {"...": "<more are not shown>"}, {"...": "<not shown from here outward>"}
CHARACTERS, ITEMS, DEPTH, BYTES, VARIABLES, FRAMES = 200, 10, 3, 500, 20, 32


@pytest.fixture(autouse=True)
def shown():
    stacksplice.install(locals=True)
    CALLS.clear()
    yield
    stacksplice.uninstall()
    assert CALLS == []


def _call(name: str):
    def method(*_: object, **__: object):
        CALLS.append(name)
        raise RuntimeError(name)

    return method


_METHODS = "repr str len iter getitem bool hash eq lt getattribute format int index float next contains"
HOSTILE = {f"__{name}__": _call(name) for name in _METHODS.split()}


def hostile(base: type) -> object:
    """An object of a class derived from BASE whose methods must not run."""

    class Meta(type(base)):
        __repr__ = __str__ = __getattribute__ = __len__ = __iter__ = _call("meta")

    made = type.__call__(Meta, "Hostile", (base,), {**HOSTILE, "__class__": property(_call("class"))})
    return base.__new__(made)


# ---- Values ---------------------------------------------------------------------------------------


def itself(container):
    """A container that contains itself."""
    container.append(container) if isinstance(container, list) else container.update(self=container)
    return container


def nested(levels: int) -> object:
    return [nested(levels - 1)] if levels else 1


class Key:
    def __hash__(self):
        return 1

    __repr__ = _call("repr")


LONG = ["x" * 150] * 9
VALUES: list[tuple[object, str]] = [
    *((value, repr(value)) for value in (None, True, False, 0, -5, 2**200, 1.5, float("inf"), -0.0)),
    *((value, repr(value)) for value in ("", "a'b\n\x1b\u00e9", "\ud800", b"", b"\x00a'")),
    *((value, repr(value)) for value in ([], [1, "a"], (), (1,), (1, 2), {}, {"a": 1, 2: None})),
    *((value, repr(value)) for value in (set(), {1}, frozenset(), frozenset({"a"}), [[1], (2,), {3: {4}}])),
    (int, "<type>"),
    (len, "<builtin_function_or_method>"),
    (sys, "<module>"),
    (type("C" * 1000, (), {})(), f"<{'C' * 100}>"),
    ({Key(): 1}, "{<Key>: 1}"),
    ({Key()}, "{<Key>}"),
    ("x" * CHARACTERS, repr("x" * CHARACTERS)),
    ("x" * (CHARACTERS + 1), repr("x" * CHARACTERS) + "..."),
    (b"x" * 10**6, repr(b"x" * CHARACTERS) + "..."),
    ([*range(ITEMS)], str([*range(ITEMS)])),
    ([*range(10**6)], str([*range(ITEMS)])[:-1] + ", ...]"),
    (dict.fromkeys(range(99)), str(dict.fromkeys(range(ITEMS)))[:-1] + ", ...}"),
    (set(range(99)), str(set(range(ITEMS)))[:-1] + ", ...}"),
    (10**1000, "<int, very large>"),
    (-(10**1000), "<int, very large>"),
    (nested(500), "[" * DEPTH + "[...]" + "]" * DEPTH),
    (LONG, str(LONG[:3])[:-1] + ", ...]"),  # cut between items
    (itself([1]), "[1, [1, [1, [...]]]]"),
    (itself({}), "{'self': {'self': {'self': {...}}}}"),
]
BASES = object, int, str, bytes, float, list, tuple, dict, set, frozenset, Exception


def test_values():
    for value, text in VALUES:
        assert text_of_value(value) == text
    for made in ([LONG] * 9, {"a": LONG, "b": LONG}, [("x" * 190,)] * 9, ["\0" * 190] * 9):
        assert len(text_of_value(made)) <= BYTES


@pytest.mark.parametrize("base", BASES)
def test_other_values_are_their_type(base):
    value = hostile(base)
    assert text_of_value(value) == "<Hostile>"
    assert text_of_value([value]) == "[<Hostile>]"
    assert text_of_value({1: (value,)}) == "{1: (<Hostile>,)}"


def test_a_finalizer_that_changes_the_container():
    class Clearing:
        def __init__(self, made):
            self.made, self.cycle = made, self

        def __del__(self):
            self.made.clear()

    for made in (list(range(9)), dict.fromkeys(range(9)), set(range(9))):
        Clearing(made)
        gc.set_threshold(1)
        try:
            text_of_value(made)
        finally:
            gc.set_threshold(700, 10, 10)


# ---- Frames ---------------------------------------------------------------------------------------


def test_variables_of_a_function():
    def raiser(first, /, *rest, last=2, **more):
        made = 3
        deleted = 4
        del deleted
        if not made:
            never = 5
            del never
        for made in range(2):
            pass
        raise ValueError

    found = frames_of(caught(lambda: raiser(1, "r", x=1)))["raiser"]
    assert found == {"first": "1", "rest": "('r',)", "last": "2", "more": "{'x': 1}", "made": "1"}
    assert list(found) == sorted(found)


def test_cells_and_free_variables():
    outer_value = "free"

    def raiser(argument):
        inner_value = 2

        def inner():
            return argument, inner_value

        if inner() and outer_value:
            raise ValueError
        return unbound

    if CALLS:
        unbound = 0
    assert frames_of(caught(raiser, 1))["raiser"] == {
        "argument": "1",
        "inner": "<function>",
        "inner_value": "2",
        "outer_value": "'free'",
    }


def test_comprehensions_and_generators():
    def listing(rows):
        return [1 // row for row in rows]

    def generating(rows):
        yield from (1 // row for row in rows)

    found = frames_of(caught(listing, [1, 0]))
    assert found["listing"]["rows"] == "[1, 0]"
    if sys.version_info < (3, 12):
        assert found["<listcomp>"] == {"row": "0"}
    else:  # it has no frame of its own, and its variables end with it
        assert found["listing"] == {"rows": "[1, 0]"}
    found = frames_of(caught(list, generating([1, 0])))
    assert found["<genexpr>"] == {"row": "0"} and found["generating"] == {"rows": "[1, 0]"}


def test_a_class_and_a_module():
    space: dict[str, object] = {"stacksplice": stacksplice, "given": 1, "__secret__": 2}
    code = "import os\ndef function(): pass\nclass C:\n  inside = given + 1\n  raise ValueError\n"

    found = frames_of(caught(exec, code, space))
    assert found["C"] == {"inside": "2"}
    assert found["<module>"] == {"given": "1"}


def test_a_class_whose_names_are_in_a_mapping_of_the_program():
    class Names(dict):
        __iter__ = keys = items = _call("names")

    class Meta(type):
        @classmethod
        def __prepare__(cls, *_):
            return Names()

    def raiser():
        class C(metaclass=Meta):
            inside = 1
            raise ValueError

    assert frames_of(caught(raiser))["C"] == {}


def test_limits_of_variables_and_frames():
    names = [f"v{number:03}" for number in range(100)]
    space: dict[str, object] = {}
    exec(f"def many({', '.join(names)}):\n  raise ValueError", space)
    found = frames_of(caught(space["many"], *range(100)))["many"]
    assert found == {**{name: str(number) for number, name in enumerate(names[:VARIABLES])}, **MORE}
    exec(f"def few({', '.join(names[:VARIABLES])}):\n  raise ValueError", space)
    assert [*frames_of(caught(space["few"], *range(VARIABLES)))["few"]] == names[:VARIABLES]

    def recursive(depth):
        if not depth:
            raise ValueError
        recursive(depth - 1)

    error = error_of(caught(recursive, 99))
    frames = [frame for frame in error.to_dict()["stack"] if "recursive" in frame.get("function", "")]
    shown = [*({"depth": str(number)} for number in range(FRAMES)), OUTWARD]
    assert [{**frame.get("locals", {}), "recursive": 0} for frame in frames] == [
        {**one, "recursive": 0} for one in [*shown, *[{}] * (100 - len(shown))]
    ]
    for number in range(50):
        called = f"f{number - 1}()" if number else "raise ValueError"
        exec(f"def f{number}(a={number}):\n  {called}", space)
    text = str(error_of(caught(space["f49"])))
    assert text.count("\n    a = ") == FRAMES
    assert re.search(r", in f32\n    \.\.\. = <not shown from here outward>\n.*, in f31\n    a = 31\n", text)
    assert text.count("<not shown") == 1


def test_frames_that_still_run():
    def raiser(argument):
        before = 1
        try:
            raise ValueError
        except ValueError as exc:
            found = frames_of(exc)["raiser"]
            before = 2
            return found, before

    found, before = raiser("a")
    assert found["argument"] == "'a'" and found["before"] == "1" and before == 2


def test_no_variable_lives_longer():
    class Watched:
        alive = 0

        def __init__(self):
            Watched.alive += 1

        def __del__(self):
            Watched.alive -= 1

    def raiser(watched):
        raise ValueError

    exc = caught(raiser, Watched())
    frames_of(exc)
    assert Watched.alive == 1
    del exc
    gc.collect()
    assert Watched.alive == 0


# ---- Forms ----------------------------------------------------------------------------------------


def shop(password, amount):  # as an argument of others, the password has no name
    url = "http://bob:hunter2@shop/?token=hunter2"
    settings = {"api_key": "hunter2", "retries": 3}
    return amount / (0 * len(url) * len(settings))


SHOWN = {
    "amount": "25",
    "password": "[redacted: password]",
    "settings": "{'api_key': '[redacted: key]', 'retries': 3}",
    "url": "'http://[redacted: credentials]@shop/?token=[redacted: token]'",
}


def test_every_form_has_them_without_secrets(valid_reports):
    exc = caught(lambda: shop("hunter" + str(2), 25))
    info = error_of(exc)
    lines = "".join(f"    {name} = {value}\n" for name, value in SHOWN.items())
    saved = stacksplice.ErrorInfo.from_json(info.to_json())

    assert frames_of(exc)["shop"] == SHOWN
    assert json.loads(saved.to_json()) == info.to_dict()
    for text in (
        "".join(stacksplice.format_exception(exc)),
        info.format(),
        saved.format(),
        saved.format(newest_last=False).replace("        ", "    "),
    ):
        assert lines in text
        assert "hunter2" not in text
    event = json.loads(info._handle.format(4, 0, False, False))
    frame = event["exception"]["values"][0]["stacktrace"]["frames"][-1]
    assert frame["vars"] == SHOWN and "hunter2" not in str(event)


def test_text_has_them_as_tracebacks_do():
    def raiser(number):
        raise ValueError(number)

    exc = caught(raiser, 7)
    error_of(exc)
    ours = "".join(stacksplice.format_exception(exc)).split("\n")
    told = traceback.TracebackException.from_exception(exc, capture_locals=True)
    theirs = "".join(told.format()).split("\n")
    assert ours[-4:-2] == theirs[-4:-2] == ["    raise ValueError(number)", "    number = 7"]


def test_causes_and_members_have_them():
    def raiser(number):
        raise ValueError

    def group():
        cause = caught(raiser, 1)
        raise ExceptionGroup("g", [caught(raiser, 2), caught(raiser, 3)]) from cause

    exc = caught(group)
    report = error_of(exc).to_dict()
    members = [member["stack"][0]["locals"] for member in report["exceptions"]]
    assert members == [{"number": "2"}, {"number": "3"}]
    assert report["transformed"][0]["stack"][0]["locals"] == {"number": "1"}
    text = "".join(stacksplice.format_exception(exc))
    assert [text.count(f" number = {number}\n") for number in (1, 2, 3)] == [1, 1, 1]


def test_pickled_errors_and_pages_have_them():
    exc = caught(shop, "x", 25)
    info = error_of(exc)
    came = pickle.loads(pickle.dumps(info))
    assert came.to_dict()["stack"][0]["locals"] == SHOWN
    assert "    amount = 25\n" in came.format()
    pytest.importorskip("jinja2", reason="pages need Jinja2")
    pytest.importorskip("pygments", reason="pages need Pygments")
    page = info.to_html()
    for name, value in SHOWN.items():
        assert (
            html.escape(value) in page.replace("&#34;", "&quot;").replace("&#39;", "&#x27;") and name in page
        )


def test_sentry_has_them_from_us_where_its_sdk_has_none():
    sentry_sdk = pytest.importorskip("sentry_sdk", reason="sentry_sdk is not installed")
    from stacksplice.sentry import StackspliceIntegration

    sent: list[dict] = []
    client = sentry_sdk.Client(
        dsn="https://key@localhost/1",
        integrations=[StackspliceIntegration()],
        include_local_variables=False,
        before_send=lambda event, _: sent.append(event),
    )
    exc = caught(shop, "x", 25)
    error_of(exc)
    with sentry_sdk.new_scope() as scope:
        scope.set_client(client)
        sentry_sdk.capture_exception(exc)
    shown = sent[0]["exception"]["values"][-1]["stacktrace"]["frames"][-1]["vars"]
    assert shown == {**SHOWN, "password": "[Filtered]"}  # by the SDK


def test_the_hook_gets_them():
    seen: list[tuple[str, str]] = []

    def hook(text, kind):
        seen.append((text, kind))
        return text.replace("25", "many") if kind == "local" else text

    stacksplice.redaction(hook=hook)
    try:
        assert frames_of(caught(shop, "hunter2", 25))["shop"]["amount"] == "many"
        assert ("25", "local") in seen
        seen.clear()
        text = "".join(stacksplice.format_exception(caught(shop, "hunter2", 25)))
        assert "amount = many" in text and ("25", "local") in seen
    finally:
        stacksplice.redaction()


def test_secrets_are_found_before_a_text_is_cut():
    for value in ("x" * 170 + " password=" + "hunter2" * 9, b"x" * 170 + b" password=" + b"hunter2" * 9):
        text = text_of_value(value)
        assert "hunter2" not in text and "redacted" in text
    for length in range(150, 200):  # the mark is cut, too
        assert "hunter" not in text_of_value("x" * length + " password=hunter2hunter2" + "x" * 40)
    assert "hunter2" not in text_of_value("password=" + "hunter2" * 10**4)


# ---- Off ------------------------------------------------------------------------------------------


def test_off_by_default():
    stacksplice.uninstall()
    stacksplice.install()
    exc = caught(shop, "x", 1)
    assert all("locals" not in frame for frame in error_of(exc).to_dict()["stack"])
    assert "amount = " not in "".join(stacksplice.format_exception(exc))
    stacksplice.install(locals=True)
    assert "amount = 1" in "".join(stacksplice.format_exception(exc))
    stacksplice.install()
    assert "amount = 1" in "".join(stacksplice.format_exception(exc))
    stacksplice.uninstall()
    assert "amount = " not in "".join(stacksplice.format_exception(exc))


def test_run_with_locals():
    program = "import stacksplice\ndef f(n):\n  raise ValueError\ntry:\n  f(5)\nexcept ValueError as exc:\n"
    program += "  stacksplice.originate(exc)\n  raise\n"
    for options, expected in (["--locals"], True), ([], False):
        done = command("run", *options, "-c", program, status=1)
        assert ("    n = 5\n" in done.stderr) == expected


# ---- Lua ------------------------------------------------------------------------------------------


def test_run_a_script_of_lua_with_locals(tmp_path):
    if not os.environ.get("LUA_CPATH") or not shutil.which("lua5.4"):
        pytest.skip("no Lua finds the module")
    script = tmp_path / "script.lua"
    script.write_text("local function f(n) error {n} end\nlocal function g() f(5) return 1 end g()\n")
    assert "    n = 5\n" in command("run", "--locals", script, status=1).stderr


@pytest.mark.parametrize("name", versions.LUPAS)
def test_errors_of_lupa_have_those_of_lua(name):
    lupa = pytest.importorskip(f"lupa.{name}", reason=f"lupa has no {name}")
    run = lupa.LuaRuntime().eval("function(currency) local held = {1}; error('no ' .. currency) end")

    def outer(amount):
        return run("XXX")

    exc = caught(outer, 25)
    frames = stacksplice.error_info(exc).to_dict()["stack"]
    found = [frame["locals"] for frame in frames if frame["language"] == "lua" and "locals" in frame]
    assert found == [{"currency": '"XXX"', "held": "{1}"}]
    found = [frame["locals"] for frame in frames if frame.get("function", "").endswith("outer")]
    assert found[0]["amount"] == "25" and list(found[0]) == ["amount", "run"]
    text = "".join(stacksplice.format_exception(exc))
    assert '    currency = "XXX"\n    held = {1}\n' in text and "    amount = 25\n" in text
    del exc
    gc.collect()
    stacksplice.uninstall()
    stacksplice.install()
    exc = caught(outer, 25)
    assert all("locals" not in frame for frame in stacksplice.error_info(exc).to_dict()["stack"])
