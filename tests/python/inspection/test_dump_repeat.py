"""``stacksplice dump --repeat``: what a process does over some time, in each form and in a real browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time

import browsing
import pytest
from building import MODULE, command, environment, start
from stacksplice._tools.dump.profiles import FORMS, Profile

pytestmark = pytest.mark.any_python

WORK = """
import threading
def odd():
    threading.Event().wait()
def even():
    sorted([1], key=lambda value: odd())
threading.Thread(target=even, name="even", daemon=True).start()
print(flush=True)
odd()
"""


def script(function: str, language: str = "python") -> dict:
    return {"kind": "script", "language": language, "function": function, "file": "/srv/a.x", "line": 3}


def native(**members) -> dict:
    return {"kind": "native", "language": "native", "module": "/lib/liba.so", "module_offset": 31, **members}


def profile(samples: list[tuple[float, int]], *stacks: list[dict], all_frames: bool = False) -> Profile:
    threads = [{"thread_id": 7, "name": "main", "stack": stack} for stack in stacks]
    return Profile("two <ways>", 7, 100.0, 2.0, threads, samples, all_frames)


GAP = {"kind": "gap", "language": "native", "reason": "a</script> & \x00"}
FRAMES = (
    [native(), native(function="glue", glue=True), script("f;")],
    [GAP, script("g", "lua"), script("f;")],
)
TWO = profile([(0.0, 0), (0.5, 0), (1.0, 1), (1.5, 0)], *FRAMES)


def tree(page: str) -> list[str]:
    """The nodes of a page, each below what called it."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    lines, depths = [], [-1]
    for above, frame, count in data["nodes"]:
        depths.append(depths[above + 1] + 1)
        lines.append(f"{' ' * depths[-1]}{count} {data['frames'][frame][1]}")
    return lines


def test_flame():
    page = FORMS["flame"](TWO)
    assert tree(page) == [
        "4 all threads",
        " 4 thread 7 main",
        "  4 f; (/srv/a.x:3)",
        "   3 liba.so+0x1f (/lib/liba.so)",
        "   1 g (/srv/a.x:3)",
        "    1 ... a</script> & \\u0000",
    ]
    assert page.count("</script>") == 2 and "two &lt;ways&gt;" in page and "http:" not in page
    assert "   3 glue (/lib/liba.so)" in tree(FORMS["flame"](TWO._replace(all_frames=True)))
    deep = [script(f"f{number}") for number in range(5000)]
    assert len(tree(FORMS["flame"](profile([(0.0, 0)], deep)))) == 5002


def test_threads_have_the_names_that_dump_shows():
    """Python's, from its first sample on, though it was not known at that."""
    named = {"thread_id": 8, "name": "python", "python": [{"interpreter": 0, "name": "rules;"}], "stack": []}
    early, plain = {**named, "python": [{"interpreter": 0}]}, {"thread_id": 9, "name": "pool", "stack": []}
    threads = [early, named, plain, {"thread_id": 10, "stack": []}]
    seen = TWO._replace(threads=threads, samples=[(float(number), number) for number in range(4)])
    names = ["thread 8 rules;", "thread 9 pool", "thread 10"]
    assert tree(FORMS["flame"](seen))[1:] == [f" {count} {name}" for count, name in zip((2, 1, 1), names)]
    assert FORMS["collapsed"](seen) == "thread 10 1\nthread 8 rules, 2\nthread 9 pool 1\n"
    assert [each["name"] for each in json.loads(FORMS["speedscope"](seen))["profiles"]] == names
    threads = json.loads(FORMS["firefox"](seen))["threads"]
    assert [each["name"] for each in threads] == ["rules;", "pool", "thread"]


def test_collapsed():
    assert FORMS["collapsed"](TWO) == (
        "thread 7 main;f, (a.x:3);g (a.x:3);... a</script> & \\u0000 1\n"
        "thread 7 main;f, (a.x:3);liba.so+0x1f (liba.so) 3\n"
    )


def check_speedscope(document: dict) -> list[list[str]]:
    """What the types of speedscope's file-format-spec.ts ask for; the names of each sample."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str) and isinstance(frame.get("file", ""), str)
        assert isinstance(frame.get("line", 0), int)
    stacks = []
    for each in document["profiles"]:
        assert each["type"] == "sampled" and isinstance(each["name"], str) and each["unit"] == "seconds"
        assert len(each["samples"]) == len(each["weights"]) and each["startValue"] <= each["endValue"]
        assert sum(each["weights"]) == pytest.approx(each["endValue"] - each["startValue"])
        assert all(weight >= 0 for weight in each["weights"])
        stacks += [[frames[number]["name"] for number in sample] for sample in each["samples"]]
    return stacks


def test_speedscope():
    document = json.loads(FORMS["speedscope"](TWO))
    one, other = ["f;", "liba.so+0x1f"], ["f;", "g", "... a</script> & \\u0000"]
    assert check_speedscope(document) == [one, one, other, one]
    assert document["profiles"][0]["weights"] == [0.5] * 4


def rows(table: dict) -> list[dict]:
    names = sorted(table["schema"], key=table["schema"].get)
    assert list(table["schema"].values()) == list(range(len(names)))
    assert all(len(row) == len(names) for row in table["data"])
    return [dict(zip(names, row)) for row in table["data"]]


def check_firefox(document: dict) -> list[list[str]]:
    """What Gecko's profile format, version 24, asks for; the locations of each sample."""
    meta, stacks = document["meta"], []
    needed = ("interval", "startTime", "shutdownTime", "processType", "stackwalk", "product", "markerSchema")
    assert meta["version"] == 24 and meta["presymbolicated"] and not {*needed} - meta.keys()
    assert [document[name] for name in ("libs", "processes", "pausedRanges")] == [[]] * 3
    for category in meta["categories"]:
        assert category.keys() == {"name", "color", "subcategories"} and category["subcategories"] == [
            "Other"
        ]
    for thread in document["threads"]:
        assert isinstance(thread["tid"], int) and isinstance(thread["pid"], int) and thread["name"]
        assert thread["processType"] == "default" and thread["unregisterTime"] is None
        assert rows(thread["markers"]) == [] and isinstance(thread["registerTime"], float)
        strings, frames, ways = thread["stringTable"], rows(thread["frameTable"]), rows(thread["stackTable"])
        assert all(each["category"] < len(meta["categories"]) and not each["subcategory"] for each in frames)
        times = [sample["time"] for sample in rows(thread["samples"])]
        assert times == sorted(times)
        for sample in rows(thread["samples"]):
            found, at = [], sample["stack"]
            while at is not None:
                assert ways[at]["prefix"] is None or ways[at]["prefix"] < at
                found.insert(0, strings[frames[ways[at]["frame"]]["location"]])
                at = ways[at]["prefix"]
            stacks.append(found)
    return stacks


def test_firefox():
    document = json.loads(FORMS["firefox"](TWO))
    one = ["f; (/srv/a.x:3)", "liba.so+0x1f (in /lib/liba.so)"]
    other = ["f; (/srv/a.x:3)", "g (/srv/a.x:3)", "... a</script> & \\u0000"]
    assert check_firefox(document) == [one, one, other, one]
    assert document["threads"][0]["name"] == "GeckoMain" and document["meta"]["interval"] == 500


# ---- The command ---------------------------------------------------------------------------------


def test_all_threads_of_a_process(tmp_path):
    names = ["odd.html", "odd.txt", "odd.speedscope.json", "odd.json"]
    texts = []
    with start("-c", WORK) as child:
        for name in names:
            assert command("dump", "--repeat", "0.3", "-o", tmp_path / name, child.pid).stdout == ""
            texts.append((tmp_path / name).read_text(encoding="utf-8"))
        line = command("dump", "--repeat", "0.1", "--format", "collapsed", child.pid).stdout
        done = command("dump", "--repeat", "1", "-o", tmp_path / "x.svg", child.pid, status=2)
        assert "name a --format, or a file that ends with " in done.stderr
        none = tmp_path / "none" / "x.html"
        assert "cannot write" in command("dump", "--repeat", "9", "-o", none, child.pid, status=2).stderr
        assert "for --repeat" in command("dump", "-o", "x.html", child.pid, status=2).stderr
    flame = tree(texts[0])
    looks = int(re.search(r"<h1>process \d+: (\d+) samples, paused", texts[0])[1])
    assert flame[0] == f"{2 * looks} all threads"
    assert any(re.fullmatch(r" \d+ thread \d+ even", each) for each in flame)
    assert sum(" odd (" in each for each in flame) == 2 and sum(" even (" in each for each in flame) == 1
    assert not any("_PyEval" in each for each in flame)
    for text in (texts[1], line):
        assert {";odd (<string>:4)" in each for each in text.splitlines()} == {True}
    assert all("odd" in stack for stack in check_speedscope(json.loads(texts[2])))
    assert all("odd (<string>:4)" in stack for stack in check_firefox(json.loads(texts[3])))
    done = command("dump", "--repeat", "1", child.pid, status=2)
    assert done.stdout == "" and "there is no process" in done.stderr


@pytest.mark.parametrize(
    "form, status", [(["{}", "--repeat"], 0), (["--repeat", "{}"], 0), (["--repeat", "60", "{}"], 130)]
)
def test_ctrl_c_ends_the_looks_and_keeps_them(form, status):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    with start("-c", WORK) as child:
        arguments = [each.format(child.pid) for each in form]
        with subprocess.Popen([*MODULE, "dump", *arguments, "--format=collapsed"], **pipes) as dump:
            time.sleep(2)
            dump.send_signal(signal.SIGINT)
            text, told = dump.communicate(timeout=60)
    assert dump.returncode == status and ";odd (<string>:4)" in text
    assert re.fullmatch(r"stacksplice: ended by Ctrl-C after \d+\.\d s: \d+ samples are written\n", told)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "x", "2e9"])
def test_no_number_of_seconds(seconds):
    assert "is not a number of seconds" in command("dump", f"--repeat={seconds}", "1", status=2).stderr
    assert "no process was named" in command("dump", "--repeat", "1.5", status=2).stderr


# ---- The page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="selenium is not installed")
    if not browsing.BROWSER or not browsing.DRIVER:
        pytest.skip("no browser to look at pages with: install chromium and chromium-driver")
    with browsing.browser_in(tmp_path_factory.mktemp("browser")) as one:
        yield one


BOXES = """return Array.from(document.querySelectorAll("#graph button"),
  (box) => [box.textContent, Math.round(100 * box.offsetWidth / box.parentElement.offsetWidth)])"""
FOCUSED = "return document.activeElement.textContent"
TOLD = "return document.getElementById('told').textContent"


def test_the_page_zooms_searches_and_needs_no_mouse(browser):
    browser.show(FORMS["flame"](TWO))
    whole = {"all threads": 100, "thread 7 main": 100, "f; (a.x:3)": 100, "liba.so+0x1f (liba.so)": 75}
    whole |= {"g (a.x:3)": 25, "... a</script> & \\u0000": 25}
    assert dict(browser.run(BOXES)) == whole
    browser.press("\ue004" * 3)  # Tab: past the search and the button to the graph
    assert browser.run(FOCUSED) == "all threads"
    browser.press("\ue015" * 3)  # arrow down
    assert browser.run(FOCUSED) == "liba.so+0x1f (liba.so)"
    assert browser.run(TOLD) == (
        "liba.so+0x1f (/lib/liba.so): 3 of 4 samples, 75.0 %; itself 3 of 4 samples, 75.0 %"
    )
    browser.press("\ue012\ue007")  # arrow left, Enter
    zoomed = {**whole, "g (a.x:3)": 100, "... a</script> & \\u0000": 100}
    del zoomed["liba.so+0x1f (liba.so)"]
    assert dict(browser.run(BOXES)) == zoomed and browser.run(FOCUSED) == "g (a.x:3)"
    browser.press("\ue00c")  # Escape
    assert dict(browser.run(BOXES)) == whole and browser.run(FOCUSED) == "all threads"
    browser.press("/LIBA")
    assert browser.run("return document.getElementById('share').textContent") == "in 75.0 % of the samples"
    assert browser.run("return document.querySelector('.found').textContent") == "liba.so+0x1f (liba.so)"
    browser.run("document.querySelectorAll('#graph .lua')[0].click()")
    assert dict(browser.run(BOXES)) == zoomed
    assert browser.messages() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 400])
def test_everyone_can_read_it(browser, theme, width):
    browser.show(FORMS["flame"](TWO), width, theme)
    browser.press("/g")
    assert browser.unnamed() == [] and browser.pale() == [] and browser.messages() == []
    assert browser.run("return document.documentElement.scrollWidth") == width
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
