"""``stacksplice top``: groups of many saved reports."""

from __future__ import annotations

import json
import logging
import os
import pty
import threading

import pytest
import stacksplice
import stacksplice.logging
from building import HERE, command
from html_pages import Page
from raising import boom, caught, with_cause
from stacksplice import ErrorInfo
from stacksplice._tools.top.command import Groups, quick_report_in, quick_reports_of, reports_of

pytestmark = pytest.mark.any_python


@pytest.fixture(scope="module")
def lines(border) -> list[str]:
    """A report of each of three kinds, as the core writes them."""

    def other():
        raise KeyError('a "quoted" \\ key')

    def group():
        raise ExceptionGroup("several", [caught(boom, ValueError("a")), caught(other)])

    calls = [(boom, ValueError("bad amount")), (other,), (group,)]
    made = [stacksplice.error_info(caught(border.call, *call)) for call in calls]
    made.append(stacksplice.error_info(caught(border.call, with_cause)))
    return [info.to_json() for info in made]


def fingerprint(line: str) -> str:
    return json.loads(line)["fingerprint"]


def groups_of(*arguments: str, **options) -> list[dict]:
    return [json.loads(line) for line in command("top", "--json", *arguments, **options).stdout.splitlines()]


CHANGES = [
    lambda report: report,
    lambda report: {**report, "message": '"fingerprint":"' + "0" * 32 + '"', "notes": ["],", '"']},
    lambda report: {**report, "type": "\\"},
    lambda report: {name: report[name] for name in sorted(report)},
    lambda report: {"exceptions": report.get("exceptions"), **report},
    lambda report: {"process": {"id": 1, "host": "x"}, **report},
    lambda report: {**report, "remote": report},
]


def test_no_text_and_no_order_of_members_misleads(lines, tmp_path):
    """Lines as they are written are read in a short way."""
    path = tmp_path / "reports.jsonl"
    reports = [json.loads(line) for line in lines]
    changed = [json.dumps(change(report)) + "\n" for report in reports for change in CHANGES]
    path.write_text("".join([*lines, *changed]))
    for option, name in (("", "fingerprint"), ("--loose", "loose_fingerprint")):
        found = {group["group"]: group["count"] for group in groups_of(*filter(None, [option]), str(path))}
        assert found == {report[name]: len(CHANGES) + 1 for report in reports}


PLAIN = {"order": "O-25150", "text": 'a "quoted" \\ {text}', "n": -1.5e-7, "yes": True, "none": None}
AROUND = [
    ({}, {}),
    (PLAIN, {}),
    ({"@timestamp": "2026-01-02T03:04:05Z", "host": {"name": "m1", "cores": 2}}, {"release": "1.5"}),
    ({"schema": "stacksplice-report/1", "header": {"time": "2026-01-02T03:04:05Z"}}, {}),
    ({}, {"time": "2026-01-02", "text": '"transformed_left_out": 0, "transformed_above": null}', **PLAIN}),
    ({"ecs.version": "8.11.0", "error": {"type": "x"}}, {}),
]
LONGER = [{"list": [1]}, {"map": {"map": {}}}, {"ecs.version": "8.11.0"}]  # these are read as a whole


@pytest.mark.parametrize("is_loose", [False, True])
def test_a_report_in_an_object_is_read_as_quickly_as_one_alone(lines, is_loose):
    """Of what is around it, all is read; of the report, its fingerprint."""
    for line in lines:
        for before, after in AROUND:
            name = "stacksplice" if "ecs.version" in before else "error"
            text = json.dumps({**before, name: json.loads(line), **after}).encode()
            for each in (text, text.replace(b'": ', b'":').replace(b", ", b",")):
                if each == text or json.loads(each) == json.loads(text):
                    (found,), (truth,) = quick_report_in(each, is_loose), reports_of(each, is_loose)
                    assert {**found.around, name: 0} == {**truth.around, name: 0}
                    assert found[:3] == truth[:3]
            assert quick_reports_of(text, is_loose) == []
            ends = [*range(0, len(text), 97), *range(len(text) - 200, len(text))]
            assert not any(quick_report_in(text[:end], is_loose) for end in ends)
        for before in LONGER:
            assert quick_report_in(json.dumps({**before, "error": json.loads(line)}).encode(), is_loose) == []
        assert quick_report_in(line.encode(), is_loose) == []


def test_groups_by_members_of_reports(lines):
    nested = "".join([json.dumps({"error": json.loads(line)}) + "\n" for line in lines[:2]])
    by = [group["by"]["error.type"] for group in groups_of("--by", "error.type", "-", input=nested)]
    assert by == [json.loads(line)["type"] for line in lines[:2]]


@pytest.mark.parametrize("columns", [80, 40, 12])
@pytest.mark.parametrize("term, told", [("xterm", b" lines"), ("dumb", b"")])
def test_a_terminal_is_told_how_much_was_read(lines, tmp_path, term, told, columns):
    path = tmp_path / "reports.jsonl"
    path.write_text(lines[0] * ((4 << 20) // len(lines[0])))
    master, terminal = pty.openpty()
    with open(master, "rb", buffering=0) as reader:
        shown = command("top", str(path), stderr=terminal, TERM=term, COLUMNS=columns).stdout
        os.close(terminal)
        text = reader.read(4096) if told else b""
    *rows, last = text.split(b"\x1b[K")
    assert told in text and (not told or last == b"\r")
    assert all(row[0] == b"\r"[0] and len(row) <= columns for row in rows)
    quiet = command("top", str(path))
    assert quiet.stdout == shown and not quiet.stderr


@pytest.mark.parametrize("step", [199, pytest.param(61, marks=pytest.mark.long)])
def test_a_line_that_was_cut_off_is_not_counted(lines, tmp_path, step):
    path = tmp_path / "reports.jsonl"
    cut = [line[:end] for line in lines for end in range(1, len(line) - 1, step)]
    path.write_text("\n".join(cut) + "\n")
    done = command("top", str(path), status=1)
    assert done.stdout.startswith("no report in 1 file\n")
    assert f"skipped {len(cut):,} lines without a report" in done.stderr


def test_a_frequent_group_is_found_among_many_others():
    """Of more groups than are counted, the counts are exact until there are too many."""
    groups, often = Groups(most=10), 0
    for number in range(20_000):
        often += number % 5 == 0
        groups.add("often" if number % 5 == 0 else str(number), (0, number, 0, 0))
        assert len(groups.kept) <= 20 and (groups.missing == 0 or number > 10)
    (key, group), *_ = groups.most_frequent()
    assert key == "often" and group.count <= often <= group.count + groups.missing


# ---- The command ---------------------------------------------------------------------------------


def test_groups_are_counted_with_first_and_last_place(lines, tmp_path):
    one, two, *_ = lines
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text(two + one + one + "\n")
    second.write_text(one + two + one)
    found = groups_of(str(first), str(second))
    assert [(group["group"], group["count"]) for group in found] == [
        (fingerprint(one), 4),
        (fingerprint(two), 2),
    ]
    assert (found[0]["first"], found[0]["last"]) == (f"{first}:2", f"{second}:3")
    assert (found[1]["first"], found[1]["last"]) == (f"{first}:1", f"{second}:2")
    assert [group["error"] for group in found] == [json.loads(one), json.loads(two)]
    assert "first_time" not in found[0]  # reports alone do not say when they were made

    text = command("top", str(first), str(second)).stdout
    assert text.startswith(
        "6 reports in 2 groups, 2 files\n\n 4  66.7%  ValueError: bad amount, at boom (raising.py:"
    )
    assert f"first {first}:2\n" in text and f"last  {second}:3\n" in text and fingerprint(two) in text
    text = command("top", "--limit", "1", str(first), str(second)).stdout
    assert fingerprint(two) not in text and text.endswith("\n... 1 more group; --limit shows more\n")


def test_show_reads_the_examples(lines, tmp_path):
    path = tmp_path / "reports.jsonl"
    path.write_text("".join(lines))
    found = command("top", "--json", str(path)).stdout
    shown = command("show", "-", input=found).stdout
    assert shown.count("==== count: 1, group: ") == len(lines)
    assert ErrorInfo.from_json(lines[0]).format() in shown


def test_pipes_and_documents_of_standard_input_keep_them_too(lines, tmp_path):
    one, two, *_ = map(json.loads, lines)
    document = json.dumps([one, two, one], indent=1)
    for text in (lines[0] + lines[1] + lines[0], document):
        assert [group["error"] for group in groups_of("-", input=text)] == [one, two]
        pipe = tmp_path / "pipe"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        assert [(group["count"], group["error"]) for group in groups_of(str(pipe))] == [(2, one), (1, two)]
        writer.join()


def test_show_says_that_an_example_is_missing(lines):
    null = json.dumps({"count": 2, "group": fingerprint(lines[0]), "error": None})
    for form in ([], ["--json"]):
        done = command("show", *form, "-", input=f"{null}\n{null}\n", status=2)
        assert done.stdout == "" and done.stderr == (
            'stacksplice: cannot show standard input: "error" is null: the file changed while top read it; '
            "run top again\n"
        )


def test_documents_and_lists_are_read_too(lines, tmp_path):
    one, two, *_ = map(json.loads, lines)
    (tmp_path / "list.json").write_text(json.dumps([{"order": 1, "error": one}, two, two], indent=1))
    (tmp_path / "errors.json").write_text(json.dumps([one]))
    (tmp_path / "failed.json").write_text(
        json.dumps(
            {"schema": "stacksplice-report/1", "header": {"time": "2026-01-02T03:04:05Z"}, "error": one}
        )
    )
    paths = [str(tmp_path / name) for name in ("list.json", "errors.json", "failed.json")]
    first, second = groups_of(*paths, str(HERE / "saved" / "error-1.json"), "--limit", "2")
    assert (first["count"], first["error"], first["first"]) == (3, one, f"{paths[0]}, report 1")
    assert first["first_time"] == first["last_time"] == "2026-01-02T03:04:05.000Z"
    assert (second["count"], second["error"], second["first"]) == (2, two, f"{paths[0]}, report 2")


def test_logs_say_when(border, tmp_path):
    handler = logging.FileHandler(tmp_path / "log.jsonl")
    handler.setFormatter(stacksplice.logging.JsonFormatter())
    exc = caught(border.call, boom, ValueError("x"))
    for seconds in (50, 10, 30):
        record = logging.makeLogRecord({"msg": "x", "exc_info": (type(exc), exc, None), "created": seconds})
        handler.emit(record)
    handler.emit(logging.makeLogRecord({"msg": "no error"}))
    handler.close()
    (group,) = groups_of(str(tmp_path / "log.jsonl"))
    assert group["count"] == 3 and group["group"] == stacksplice.error_info(exc).fingerprint
    assert group["first_time"] == "1970-01-01T00:00:10.000Z"
    assert group["last_time"] == "1970-01-01T00:00:50.000Z"


def test_loose_groups_and_reports_without_one(lines, tmp_path):
    one = json.loads(lines[0])
    rebuilt = {**one, "fingerprint": "1" * 32}
    old = {name: value for name, value in one.items() if name != "loose_fingerprint"}
    path = tmp_path / "reports.jsonl"
    path.write_text("".join(json.dumps(report) + "\n" for report in (one, rebuilt, old)))
    assert [group["count"] for group in groups_of(str(path))] == [2, 1]
    first, second = groups_of("--loose", str(path))
    assert (first["group"], first["count"]) == (one["loose_fingerprint"], 2)
    assert (second["group"], second["count"]) == (one["fingerprint"], 1)
    text = command("top", "--loose", str(path)).stdout
    assert "1 has no loose fingerprint and is grouped by the strict one\n" in text


def test_broken_lines_are_counted_and_named(lines, tmp_path):
    path = tmp_path / "reports.jsonl"
    broken = [lines[0][: len(lines[0]) // 2], "[" * 100_000, '{"schema": "x"}', "\ufffd\x00", "3"]
    path.write_text(lines[0] + "\n".join(broken) + "\n" + lines[0])
    done = command("top", str(path), status=1)
    assert done.stdout.startswith("2 reports in 1 group, 1 file\n")
    assert done.stderr == f"stacksplice: skipped 5 lines without a report (first: {path}:2)\n"
    path.write_text("hello\nworld\n")
    done = command("top", str(path), status=1)
    assert done.stdout == "no report in 1 file\n" and f"(first: {path}:1)\n" in done.stderr


def test_a_file_that_cannot_be_read_hides_no_other(lines, tmp_path):
    path = tmp_path / "reports.jsonl"
    path.write_text(lines[0])
    done = command("top", str(tmp_path / "none"), str(path), status=2)
    assert done.stdout.startswith("1 report in 1 group, 1 file\n")
    assert done.stderr == f"stacksplice: cannot read {tmp_path / 'none'}: No such file or directory\n"
    page = tmp_path / "page.html"
    done = command("top", "--html", str(page), str(tmp_path / "none"), status=2)
    assert not page.exists() and done.stderr.count("\n") == 1
    assert "'0' is not a number from 1 up" in command("top", "--limit", "0", str(path), status=2).stderr


def test_no_text_of_an_error_breaks_its_line(lines, tmp_path):
    report = {**json.loads(lines[0]), "message": "\x1b[31mred\u202e\nsecond"}
    path = tmp_path / "reports.jsonl"
    path.write_text(json.dumps(report) + "\n")
    text = command("top", str(path)).stdout
    assert "\\u001b[31mred\\u202e, at" in text and "second" not in text


@pytest.mark.parametrize("columns", [80, 33, 10])
def test_a_terminal_gets_lines_that_end_between_words(lines, tmp_path, columns):
    """What goes elsewhere has a line for each thing that is said."""
    message = "attempt to perform arithmetic on a nil value in the fields of a long-running order " * 2
    path = tmp_path / ("a-long-name" * 5)
    path.write_text(json.dumps({**json.loads(lines[0]), "message": message}) + "\n" + lines[1])
    master, terminal = pty.openpty()
    with open(master, "rb", buffering=0) as reader:
        command("top", str(path), stdout=terminal, COLUMNS=columns)
        os.close(terminal)
        text = reader.read(1 << 16).decode().replace("\r\n", "\n")
    whole = command("top", str(path)).stdout
    assert text.split() == whole.split() and text != whole  # no word was cut
    room = max(columns, 10 + 1 + 20)
    for line in text.splitlines():
        assert len(line) <= room or len(line.split()) == 1
    assert max(len(line) for line in whole.splitlines()) > 120


@pytest.mark.parametrize(
    "message, shown",
    [
        ("word " * 40, "ValueError: " + "word " * 20 + "word..."),  # the 120th character is its third
        ("word " * 20 + "long " * 40, "ValueError: " + "word " * 20 + "long..."),
        ("w" * 100 + " word" * 10, f"ValueError: {'w' * 100} word..."),
        ("words, " * 40, "ValueError: " + "words, " * 14 + "words,..."),
        ("w" * 200, f"ValueError: {'w' * 108}..."),  # the word is the whole message
        ("w" * 108, f"ValueError: {'w' * 108}"),
    ],
)
def test_a_long_message_is_cut_between_words(lines, tmp_path, message, shown):
    path = tmp_path / "reports.jsonl"
    path.write_text(json.dumps({**json.loads(lines[0]), "message": message}) + "\n")
    assert f"  {shown}, at " in command("top", str(path)).stdout


# ---- What tells groups apart -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def same_place(child, tmp_path_factory) -> str:
    """Reports of one function of Python that two of Lua call, of a text and of a table of Lua, on hosts."""
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    path = tmp_path_factory.mktemp("same") / "errors.jsonl"
    child(
        f"""
import json, lupa.lua54, stacksplice
stacksplice.install()
lua = lupa.lua54.LuaRuntime()
lua.globals().rate = lambda currency: {{"EUR": 1}}[currency]
lua.execute('''
function convert(c) local found = rate(c) return found end
function price(c) local found = convert(c) return found end
function quote(c) local found = convert(c) return found end
function fields(c) error({{code = 7, message = "no stock"}}) end
function text(c) error("no price") end
''', name="@rules.lua")
with open({str(path)!r}, "w") as file:
    for number, name in enumerate(["price", "quote", "price", "convert", "fields", "text"]):
        try:
            lua.globals()[name]("USD")
        except Exception as exc:
            error = stacksplice.error_info(exc).to_dict()
            beside = {{"host": {{"name": f"m{{number // 2}}"}}, "release": 1.5}}
            file.write(json.dumps({{**beside, "error": error}}) + "\\n")
"""
    )
    return str(path)


def titles_of(text: str) -> list[str]:
    return [row.split("%  ")[1].split("\n")[0] for row in text.split("\n\n")[1:]]


def test_rows_that_look_equal_show_the_frame_in_which_they_differ(same_place):
    titles = titles_of(command("top", same_place).stdout)
    assert len({title.split(", via ")[0] for title in titles[:3]}) == 1
    assert [title.partition(", via ")[2].split(" (")[0] for title in titles[:3]] == [
        "price",
        "quote",
        "<module>",
    ]
    assert "via price (rules.lua:3)" in titles[0]


def test_a_value_of_lua_has_no_type_of_an_exception(same_place):
    """Where the text report has none, top and the pages have none."""
    titles = titles_of(command("top", same_place).stdout)
    assert titles[3] == '{code = 7, message = "no stock"}, at fields (rules.lua:5)'
    assert titles[4] == "rules.lua:6: no price, at text (rules.lua:6)"
    with open(same_place) as file:
        report = [json.loads(line)["error"] for line in file][-1]
    kinds = "nil boolean number string table function userdata thread".split()
    for kind in [*kinds, "light userdata", "LuaError"]:
        report["type"] = kind
        shown = ErrorInfo.from_dict(report).format()
        assert (f"{kind}: rules.lua:6: no price" in shown) == (kind == "LuaError")
        (title,) = titles_of(command("top", "-", input=json.dumps(report) + "\n").stdout)
        assert title.startswith(f"{kind}: rules.lua") == (kind == "LuaError")
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("pygments", reason="pygments is not installed")
    assert ErrorInfo.from_dict({**report, "type": "string"}).to_html().count(">string<") == 0


def test_groups_by_fields_beside_the_error(same_place, lines, tmp_path):
    by = ("--by", "host.name", "--by", "release")
    found = groups_of(*by, same_place)
    hosts = [(group["count"], group["by"]["host.name"], group["by"]["release"]) for group in found]
    assert hosts == [(1, host, "1.5") for host in ("m0", "m0", "m1", "m1", "m2", "m2")]
    assert groups_of("--by", "release", same_place)[0]["count"] == 2
    assert "host.name: m0, release: 1.5\n" in command("top", *by, same_place).stdout
    crash = {"schema": "stacksplice-report/1", "header": {"host": "m9"}, "error": json.loads(lines[0])}
    path = tmp_path / "mixed.jsonl"
    path.write_text(json.dumps(crash) + "\n" + lines[0])
    assert [group["by"]["host"] for group in groups_of("--by", "host", str(path))] == ["m9", "(none)"]


# ---- The page ------------------------------------------------------------------------------------


def test_the_page_has_the_groups_and_an_example_of_each(lines, tmp_path):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("pygments", reason="pygments is not installed")
    one, two, *_ = lines
    hostile = {**json.loads(two), "message": "<script>alert(1)</script>", "fingerprint": "2" * 32}
    damaged = {**json.loads(two), "stack": [{"kind": 7}], "fingerprint": "3" * 32}
    path, out = tmp_path / "reports.jsonl", tmp_path / "top.html"
    path.write_text(one + one + json.dumps(hostile) + "\n" + json.dumps(damaged) + "\n")
    assert command("top", "--html", str(out), str(path)).stdout == ""
    shown = Page(out.read_text())
    assert shown.texts("h1") == ["4 reports in 3 groups, 1 file"]
    assert shown.texts("td", "number") == ["2", "50.0%", "1", "25.0%", "1", "25.0%"]
    assert shown.texts("td", "path")[:2] == [f"{path}:1", f"{path}:2"]
    assert len(shown.texts("article", "report")) == 2  # the damaged one has no example
    assert any("<script>alert(1)</script>" in text for text in shown.texts("a"))
    assert len([name for name, _, _ in shown.elements if name == "script"]) == 1
    assert command("top", "--html", "-", str(path)).stdout.rstrip() == out.read_text().rstrip()
    gone = str(tmp_path / "none" / "x.html")
    assert "cannot write" in command("top", "--html", gone, str(path), status=2).stderr
