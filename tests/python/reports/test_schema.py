"""Reports of every language are of the published schema, and are read back with all that they hold."""

from __future__ import annotations

import json
import logging
import pickle
import re

import pytest
import stacksplice
import stacksplice.logging
from building import HERE, PACKAGE, ROOT, built, lua_with_stacksplice, ran
from raising import caught, with_cause
from stacksplice import ErrorInfo

pytestmark = pytest.mark.any_python

SAVED = HERE / "saved" / "error-1.json"


@pytest.fixture
def validating():
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    import validating

    return validating


def lines_of(text: str) -> list[str]:
    *lines, last = text.split("\n")  # and at nothing else, such as U+2028
    assert last == ""
    return [line + "\n" for line in lines]


# ---- What writes reports -------------------------------------------------------------------------


def test_the_schemas_are_valid_and_say_their_version(validating):
    for name in ("error-1", "report-1", "dump-1"):
        schema = validating.schema(name)
        validating.validator(name).check_schema(schema)
        assert validating.name_of({"schema": schema["title"]}) == name
        assert schema["properties"]["schema"]["const"] == schema["title"]
        assert (ROOT / "core" / "schema" / f"{name}.schema.json").read_bytes() == (
            PACKAGE / f"{name}.schema.json"
        ).read_bytes()


def test_errors_of_lua(validating, tmp_path):
    lua, variables = lua_with_stacksplice()
    script = tmp_path / "x.lua"
    script.write_text("""
        local stacksplice = require "stacksplice"
        local function put(...)
            io.write((select(3, stacksplice.pcall(error, ...)):json()))
        end
        put("text\\0\\xff")
        put({code = 5})
        put(nil)
        put(stacksplice.error_info(select(2, pcall(error, "plain"))) or 1)
        local _, _, first = stacksplice.pcall(error, "first")
        local ok, _, second = stacksplice.pcall(function() stacksplice.error("second", first) end)
        io.write(second:json())
        io.write((select(3, stacksplice.pcall(coroutine.wrap(function() error("inside") end)))):json())
    """)
    done = ran(lua, script, **variables)
    reports = [validating.validate(line) for line in lines_of(done.stdout)]
    assert len(reports) == 6
    assert [cause["message"] for cause in reports[4]["transformed"]] == ["first"]


@pytest.mark.parametrize("name", ["report_test", "report_saved_test", "report_small_stack_test"])
def test_errors_of_c(validating, tmp_path, name):
    file = tmp_path / "reports.ndjson"
    ran(built(f"tests/core/{name}"), STACKSPLICE_TEST_JSON=file)
    assert [validating.validate(line) for line in lines_of(file.read_text(encoding="utf-8"))]


FAILED = ["crash full", "crash none", "crash unhandled", "crash context"]
CRASHED = ["fault segv", "fault overflow thread", "fault error", "fault threads case"]


@pytest.mark.parametrize("how", [*FAILED, *CRASHED])
def test_files_of_processes_that_failed(validating, tmp_path, how):
    program, *arguments = how.split()
    ran(built(f"tests/core/{program}_program"), *arguments, status=None, STACKSPLICE_REPORT_DIR=tmp_path)
    (file,) = tmp_path.iterdir()
    report = validating.validate(file.read_text(encoding="utf-8"))
    assert report["modules"] and (how in FAILED or report["error"]["type"] == "SIGSEGV")


def test_errors_of_the_example_host(validating, tmp_path):
    file = tmp_path / "reports.json"
    ran(built("bin/stacksplice-host"), "--json", file, status=None)
    records = json.loads(file.read_text(encoding="utf-8"))
    assert records
    for record in records:
        validating.validate(json.dumps(record["error"]))


def test_what_the_filter_adds_for_logs(validating):
    lupa = pytest.importorskip("lupa.lua54")
    runtime = lupa.LuaRuntime()
    stacksplice.attach(runtime)
    exc = caught(lambda: runtime.execute("error({code = 7})"))
    record = logging.makeLogRecord({"exc_info": (type(exc), exc, exc.__traceback__)})
    stacksplice.logging.Filter().filter(record)
    assert validating.validate(json.dumps(record.stacksplice))["raised_as"]["type"] == "lupa.lua54.LuaError"
    record.stacksplice["raised_as"]["later"] = 1
    with pytest.raises(__import__("jsonschema").ValidationError):
        validating.validate(json.dumps(record.stacksplice))


# ---- The page ------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
PARTS = {
    "An error": ("error-1", ["error", "causes", "cause", "reception", "process"], ["schema"]),
    "A frame": ("error-1", ["frame"], []),
    "Files of failed processes": ("report-1", [None, "header", "thread", "module"], []),
}


def members_of(part):
    """The names of PART of a schema and of the objects that stand in it."""
    names = set(part.get("properties", ()))
    for inner in part.get("properties", {}).values():
        names |= members_of(inner)
    return names


@pytest.mark.parametrize("heading", PARTS)
def test_the_page_names_what_the_schema_names(validating, heading):
    section = re.split(r"^## ", PAGE.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    name, parts, more = PARTS[heading]
    document = validating.schema(name)
    names = set(more).union(*(members_of(document["$defs"][part] if part else document) for part in parts))
    told = {word for each in re.findall(r"`([a-z_ ]+)`", section) for word in each.split()}
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", section, flags=re.MULTILINE)
    in_rows = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}
    assert in_rows and names <= told, names - told
    assert in_rows <= names, in_rows - names


# ---- What the schema refuses ---------------------------------------------------------------------


def changed(report, *path, to):
    *folders, last = path
    for name in folders:
        report = report[name]
    report[last] = to


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("hresult",), -1),
        (("language",), None),
        (("stack", 0, "kind"), "other"),
        (("stack", 0, "line"), 0),
        (("stack", 0, "address"), 16),
        (("propagation", 0, "stack"), None),
        (("exceptions", 0, "fingerprint"), "x"),
        (("exceptions",), [{}]),
        (("transformed_above",), "later"),
        (("transformed",), [{}]),
        (("schema",), "stacksplice-error/0"),
    ],
)
def test_what_is_of_another_form_is_refused(validating, path, value):
    import jsonschema

    report = json.loads(SAVED.read_text(encoding="utf-8"))
    lenient = validating.validator("error-1", False)
    lenient.validate(report)
    changed(report, *path, to=value)
    with pytest.raises(jsonschema.ValidationError):
        lenient.validate(report)


def test_a_member_without_a_place_in_it_is_found_by_the_tests_and_allowed_to_readers(validating):
    import jsonschema

    for path in (("later",), ("stack", 0, "later"), ("exceptions", 0, "later"), ("propagation", 0, "later")):
        report = json.loads(SAVED.read_text(encoding="utf-8"))
        changed(report, *path, to=1)
        validating.validator("error-1", False).validate(report)
        with pytest.raises(jsonschema.ValidationError):
            validating.validate(json.dumps(report))


# ---- Reading back --------------------------------------------------------------------------------


def test_a_report_of_version_1_is_read_back():
    text = SAVED.read_text(encoding="utf-8")
    info = ErrorInfo.from_json(text)
    assert (info.type, info.message, info.notes) == (
        "ExceptionGroup",
        "orders (2 sub-exceptions)",
        ["order A-1"],
    )
    first, second = info.exceptions
    assert [frame.language for frame in first.stack if frame.kind == "script"] == [
        "lua", "lua", "python", "python", "python"
    ]  # fmt: skip
    assert [node.language for node in first.propagation] == ["lua", "python"]
    assert (second.type, second.message) == ("KeyError", "'EUR'")
    golden = (HERE / "saved" / "error-1.txt").read_text(encoding="utf-8")
    assert info.format(newest_last=False) == golden
    assert json.loads(info.to_json()) == json.loads(text)
    assert ErrorInfo.from_json(text.encode()) == info == ErrorInfo.from_dict(json.loads(text))


def test_the_least_that_a_report_can_be():
    info = ErrorInfo.from_json('{"hresult_signed": -1, "message": "m", "stack": [], "propagation": []}')
    assert (info.hresult, info.message, len(info.stack)) == (-1, "m", 0)


def test_unknown_members_survive():
    report = json.loads(SAVED.read_text(encoding="utf-8"))
    places = [report, report["stack"][0], report["propagation"][0], report["exceptions"][0]]
    cause = {"relation": "cause", **report["exceptions"][1], "transformed": [], "later": 5}
    report["transformed"] = [cause]
    for number, place in enumerate(places):
        place["later"] = {"number": number, "list": [None, 1.5, "\ud800"]}
    info = ErrorInfo.from_json(json.dumps(report))
    assert info.to_dict() == report and ErrorInfo.from_json(info.to_json()).to_dict() == report
    arrived = pickle.loads(pickle.dumps(info)).to_dict()
    assert arrived.pop("process") and arrived == report
    assert info.cause.to_dict()["later"] == 5
    assert info.exceptions[0].to_dict()["later"]["number"] == 3


def test_parts_of_a_saved_report_are_reports(validating, border):
    live = stacksplice.error_info(caught(border.call, with_cause))
    saved = ErrorInfo.from_json(live.to_json())
    assert validating.validate(saved.cause.to_json()) == live.cause.to_dict()
    group = ErrorInfo.from_json(SAVED.read_text(encoding="utf-8"))
    for member in group.exceptions:
        validating.validate(member.to_json())


def test_a_later_version_is_refused_by_name():
    report = {**json.loads(SAVED.read_text(encoding="utf-8")), "schema": "stacksplice-error/2"}
    with pytest.raises(
        ValueError, match="schema is 'stacksplice-error/2'; this version reads stacksplice-er"
    ):
        ErrorInfo.from_json(json.dumps(report))
