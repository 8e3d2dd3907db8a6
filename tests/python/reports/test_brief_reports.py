"""A brief report is a line for a log that many errors fill: it is short, and says what the long one says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import stacksplice
from brief_reports import assert_agree, script_frames
from building import built, lua_with_stacksplice, ran
from raising import caught, fail, with_cause
from stacksplice import ErrorInfo
from test_saved_reports import CROSSING

pytestmark = pytest.mark.any_python

SCRIPT = """
function convert(rate, currency) local factor = rate(currency) return factor end
function price(rate, currency) local total = convert(rate, currency) return total end
"""


@pytest.fixture
def lua():
    runtime = pytest.importorskip("lupa.lua54").LuaRuntime()
    stacksplice.attach(runtime)
    runtime.execute(SCRIPT, name="@pricing.lua")
    return runtime.globals()


def rate(currency):
    return {}[currency]


def deeper(calls, function, *arguments):
    return deeper(calls - 1, function, *arguments) if calls else function(*arguments)


def quoted(lua, deep=0):
    """An error of five frames of scripts and DEEP more."""
    return stacksplice.error_info(caught(lambda: lua.price(lambda name: deeper(deep, rate, name), "XXX")))


# ---- What it takes and what it has ---------------------------------------------------------------


PROGRAM = f"""
import lupa.lua54, stacksplice
runtime = lupa.lua54.LuaRuntime()
stacksplice.attach(runtime)
runtime.execute({SCRIPT!r}, name="@pricing.lua")

def rate(currency, depth=0):
    return rate(currency, depth - 1) if depth else {{}}[currency]

def quote(depth):
    try:
        runtime.globals().price(lambda currency: rate(currency, depth), "XXX")
    except KeyError as exc:
        return stacksplice.error_info(exc)

for depth in (0, 1, 21):
    print(quote(depth).to_json(), quote(depth).to_json(brief=True), sep="", end="")
"""


def test_it_is_short(tmp_path):
    pytest.importorskip("lupa.lua54")
    file = tmp_path / "shop.py"
    file.write_text(PROGRAM, encoding="utf-8")
    long, brief, _, less, _, more = ran(sys.executable, file).stdout.splitlines()
    assert len(script_frames(json.loads(brief))) == 6  # with <module> and the lambda
    assert len(brief) <= 2048 and len(brief) < len(long) / 5
    # {"language":"python","function":"rate","file":"...","line":10},
    assert len(more) - len(less) == 20 * (59 + len(str(file)))


@pytest.mark.parametrize("name", CROSSING)
def test_it_says_what_the_long_one_says(border, name):
    assert_agree(stacksplice.error_info(caught(border.call, CROSSING[name])))


def test_it_is_of_the_schema(lua, border):
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    import validating

    for info in (
        quoted(lua),
        *[stacksplice.error_info(caught(border.call, raises)) for raises in CROSSING.values()],
    ):
        validating.validate(info.to_json(brief=True), is_brief=True)
        long = json.loads(info.to_json())
        del long["stack"][0]["address"]
        with pytest.raises(__import__("jsonschema").ValidationError):
            validating.validate(json.dumps(long))  # which must have all


def test_frames_of_interpreters_are_counted(lua):
    info = quoted(lua)
    long, brief = info.to_dict(), assert_agree(info)
    assert [frame["language"] for frame in brief["stack"]][:5] == [*["python"] * 3, "lua", "lua"]
    assert brief["hidden_left_out"] >= sum(frame.get("glue", False) for frame in long["stack"]) > 5
    assert {name for frame in brief["stack"] for name in frame} <= {
        "language",
        "function",
        "file",
        "line",
        "interpreter",
    }
    assert all(len(node["stack"]) == 1 for node in brief["propagation"])
    text = ErrorInfo.from_dict(brief).format(all_frames=True)
    assert f"... {brief['hidden_left_out']} more frames, which a brief report only counts" in text


def test_what_symbols_can_be_found_by_stays(border):
    brief = stacksplice.error_info(caught(border.call, fail)).to_dict(brief=True)
    native = [frame for frame in brief["stack"] if frame.get("kind") == "native"]
    assert native
    for frame in native:
        is_known = "function" in frame and "line" in frame
        assert frame["module"] and is_known != ("address" in frame)
        assert is_known or {"module_offset", "build_id"} <= frame.keys()


def test_errors_of_one_report_are_told_apart(border):
    one = stacksplice.error_info(caught(border.call, fail)).to_dict(brief=True)
    two = stacksplice.error_info(caught(border.call, with_cause)).to_dict(brief=True)
    assert "reference" not in one and "transformed" not in one
    assert two["reference"] != two["transformed"][0]["reference"]


# ---- Who reads it --------------------------------------------------------------------------------


def stacksplice_(*arguments, file):
    done = subprocess.run(
        [sys.executable, "-m", "stacksplice", *arguments, file], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.fixture
def both(lua, border, tmp_path):
    """A file of long reports and one of the same errors in brief."""
    infos = [quoted(lua), quoted(lua, 12), stacksplice.error_info(caught(border.call, CROSSING["group"]))]
    files = [tmp_path / "long.jsonl", tmp_path / "brief.jsonl"]
    for file, is_brief in zip(files, (False, True)):
        file.write_text("".join([info.to_json(brief=is_brief) for info in infos]), encoding="utf-8")
    return files


def test_the_commands_read_it(both):
    groups = [json.loads(line) for line in stacksplice_("top", "--json", file=both[0]).splitlines()]
    found = [json.loads(line) for line in stacksplice_("top", "--json", file=both[1]).splitlines()]
    assert [(one["group"], one["count"]) for one in found] == [(one["group"], one["count"]) for one in groups]
    titles = [stacksplice_("top", file=file).replace(str(file), "FILE") for file in both]
    assert titles[0] == titles[1]
    for order in ("--oldest-first", "--newest-first"):
        text = stacksplice_("show", order, file=both[1])
        assert (
            text.count("KeyError: 'XXX'") == 2 and text.count("[Previous line repeated 10 more times]") == 1
        )
    lines = stacksplice_("show", "--json", file=both[1]).splitlines()
    assert [json.loads(line) for line in lines] == [
        json.loads(line) for line in both[1].open(encoding="utf-8")
    ]


def test_symbolize_reads_it(both):
    done = subprocess.run(
        [sys.executable, "-m", "stacksplice", "symbolize", both[1]],
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot look up symbols" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in both[1].open(encoding="utf-8")]
    for report, line in zip(saved, done.stdout.splitlines(), strict=True):
        assert script_frames(json.loads(line)) == script_frames(report)


def test_a_line_that_was_cut_off_is_no_report(both, tmp_path):
    line = both[1].read_bytes().splitlines()[0]
    for end in (len(line) - 1, line.rindex(b"}", 0, -1) + 1):
        file = tmp_path / "cut.jsonl"
        file.write_bytes(line[:end] + b"\n")
        done = subprocess.run(
            [sys.executable, "-m", "stacksplice", "top", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and "skipped 1 line without a report" in done.stderr


def test_a_page_has_it(both):
    pytest.importorskip("jinja2")
    pytest.importorskip("pygments")
    for line in both[1].open(encoding="utf-8"):
        info = ErrorInfo.from_json(line)
        page = info.to_html()
        assert info.fingerprint in page and "convert" in page or info.exceptions


def test_sentry_and_opentelemetry_take_it(lua, border):
    sentry, otel = (pytest.importorskip(f"stacksplice.{name}") for name in ("sentry", "opentelemetry"))
    for live in (quoted(lua), stacksplice.error_info(caught(border.call, with_cause))):
        brief = ErrorInfo.from_json(live.to_json(brief=True))
        long = ErrorInfo.from_json(live.to_json())
        ours, theirs = sentry.event(brief), sentry.event(long)
        assert ours["fingerprint"] == theirs["fingerprint"]
        for one, other in zip(ours["exception"]["values"], theirs["exception"]["values"], strict=True):
            places = [
                [
                    (frame["function"], frame["lineno"])
                    for frame in value["stacktrace"]["frames"]
                    if "lineno" in frame
                ]
                for value in (one, other)
            ]
            assert places[0] and set(places[0]) <= set(places[1])
            images = {image["image_addr"] for image in ours["debug_meta"]["images"]}
            assert {frame.get("image_addr") for frame in one["stacktrace"]["frames"]} - {None} <= images
        told = otel.exception_attributes(brief)
        assert told["stacksplice.fingerprint"] == live.fingerprint
        assert told["exception.type"] == otel.exception_attributes(long)["exception.type"]


# ---- Other ways to it ----------------------------------------------------------------------------


def test_lua_writes_it(tmp_path):
    lua, variables = lua_with_stacksplice()
    script = tmp_path / "x.lua"
    script.write_text("""
        local stacksplice = require "stacksplice"
        local _, _, err = stacksplice.pcall(error, {code = 5})
        io.write(err:json(), err:json{}, err:json{brief = true})
        print(pcall(err.json, err, 1))
    """)
    long, same, brief, refused = ran(lua, script, **variables).stdout.splitlines()
    assert long == same and len(brief) < len(long)
    assert json.loads(brief)["fingerprint"] == json.loads(long)["fingerprint"]
    assert "table expected, got number" in refused


def test_of_the_file_of_a_crash_it_is_the_error(tmp_path):
    ran(built("tests/core/fault_program"), "segv", status=None, STACKSPLICE_REPORT_DIR=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = ErrorInfo.from_json(file.read_bytes())
    brief = whole.to_dict(brief=True)
    assert brief["schema"] == "stacksplice-error/1" and brief["type"] == "SIGSEGV"
    assert brief["fingerprint"] == whole.fingerprint and "threads" not in brief


def test_what_only_python_knows_stays(border):
    report = stacksplice.error_info(caught(border.call, fail)).to_dict()
    report["process"] = {"id": 5, "host": "h"}
    report["raised_as"] = {"type": "T", "message": "password=hunter2"}
    brief = ErrorInfo.from_dict(report).to_dict(brief=True)
    assert brief["process"] == {"id": 5, "host": "h"} and brief["raised_as"]["type"] == "T"
    assert "hunter2" not in json.dumps(brief)
