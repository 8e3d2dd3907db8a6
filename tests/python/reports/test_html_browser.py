"""Pages of errors in a real browser: keys, folding, both themes, narrow screens, paper, large reports."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import browsing
import golden_reports
import pytest
from building import ROOT
from html_pages import crash_file, error, frame, hostile, process_of_many, saved
from stacksplice import ErrorInfo
from stacksplice.__main__ import main

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("pygments", reason="pygments is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

pytestmark = [
    pytest.mark.any_python,
    pytest.mark.skipif(
        not browsing.BROWSER or not browsing.DRIVER,
        reason="no browser to look at pages with: install chromium and chromium-driver",
    ),
]
PICTURE, PICTURE_OF_TOP = ROOT / "docs/pictures/page.png", ROOT / "docs/pictures/top.png"
FOCUSED = "return document.activeElement.querySelector('.function')?.textContent"
OPEN = "return document.querySelectorAll('.stack details[open]').length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing.browser_in(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(autouse=True)
def quiet(browser):
    """No page says anything in the console, be it an error of ours or a refusal by its policy."""
    yield
    assert browser.messages() == []


def page(data, **options) -> str:
    return ErrorInfo.from_dict(data).to_html(**options)


@pytest.mark.long
@pytest.mark.parametrize("name", golden_reports.EXTREMES)
def test_extremes(browser, name):
    browser.show(page(golden_reports.of(name)), 400, "dark")
    browser.press("e")
    assert browser.unnamed() == [] and browser.pale() == []
    assert browser.run("return document.querySelector('h1').textContent.trim()")
    assert browser.run("return document.documentElement.scrollWidth") == 400


def test_the_picture_is_beside_its_list(browser):
    """Each step is drawn at the height of its line."""
    browser.show(page(saved()))
    middles = """const middle = (element) => { const box = element.getBoundingClientRect();
      return Math.round((box.top + box.bottom) / 2); };
    const way = document.querySelector(".way");
    return [".step circle", "li"].map((each) => Array.from(way.querySelectorAll(each), middle))"""
    circles, lines = browser.run(middles)
    assert len(circles) >= 4 and all(abs(a - b) <= 1 for a, b in zip(circles, lines, strict=True))


def test_keys_move_from_frame_to_frame(browser):
    stack = [frame(0), frame(1), frame(2, glue=True), frame(3)]
    browser.show(page(error(stack)))
    seen = []
    for key in "jnjkpp":
        browser.press(key)
        seen.append(browser.run(FOCUSED))
    assert seen == ["f3", "f1", "f0", "f1", "f3", "f3"]  # f2 is folded, and there is none before f3
    browser.press("ej")
    assert browser.run(FOCUSED) == "f2"


def test_keys_and_buttons_fold(browser):
    browser.show(page(error([frame(0, glue=True), frame(1), frame(2, glue=True)])))
    assert browser.run(OPEN) == 0
    for key, count in (("e", 2), ("c", 0)):
        browser.press(key)
        assert browser.run(OPEN) == count
    for answer, count in (("yes", 2), ("no", 0)):
        browser.run(f"document.querySelector('[data-open={answer}]').click()")
        assert browser.run(OPEN) == count
    browser.run("document.querySelector('.stack summary').click()")
    assert browser.run(OPEN) == 1


def test_paper_has_members_but_no_glue(browser):
    members = [error([frame(number)]) for number in range(5)]
    browser.show(page(error([frame(0, glue=True)], exceptions=members)))
    folded = """return [".member[open]", ".glue[open]"].map(
      (each) => document.querySelectorAll(each).length)"""
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(folded) == [5, 0]
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(folded) == [0, 0]
    assert browser.pdf().startswith("JVBERi")  # %PDF in base64


@pytest.mark.long
@pytest.mark.parametrize(
    "data",
    [
        error([frame(number) for number in range(10_000)]),
        error([frame(number % 2) for number in range(10_000)]),
        error([frame(0)], exceptions=[error([frame(number)] * 12) for number in range(500)]),
    ],
    ids=["stack", "recursion", "group"],
)
def test_of_a_large_report_little_is_laid_out(browser, data):
    browser.show(page(data))
    shown = "return Array.from(document.querySelectorAll('.frame')).filter((f) => f.checkVisibility()).length"
    assert 0 < browser.run(shown) <= 200
    inside = """return Array.from(document.querySelectorAll('.source'))
      .filter((s) => s.checkVisibility({contentVisibilityAuto: true})).length"""
    assert 0 < browser.run(inside) <= 60


def test_a_notebook_shows_it_in_a_frame(browser):
    browser.show("<!DOCTYPE html><title>x</title>" + ErrorInfo.from_dict(hostile())._repr_html_())
    with browser.inside("iframe"):
        assert browser.run("return document.querySelectorAll('.frame').length") > 0
        assert browser.run("return getComputedStyle(document.querySelector('.tools')).display") == "flex"


def test_light_and_dark_by_hand(browser):
    background = "return getComputedStyle(document.body).backgroundColor"
    for theme in ("light", "dark"):
        browser.show(page(saved()), theme=theme)
        seen = [browser.run(background)]
        for _ in range(2):
            browser.run("document.querySelector('[data-dark]').click()")
            seen.append(browser.run(background))
        assert seen[0] == seen[2] != seen[1] and browser.pale() == []


def test_the_text_is_copied(browser):
    info = ErrorInfo.from_dict(error([frame(0), frame(1)], notes=["a note"]))
    browser.show(info.to_html())
    browser.run("document.querySelector('[data-copy]').focus()")
    browser.press(" ")
    assert browser.run("return document.querySelector('[data-copy]').textContent") == "copied"
    assert browser.run("return getSelection().toString()").strip() == info.format().strip()


def test_lines_around_stand_in_place_of_the_line(browser, tmp_path):
    file = tmp_path / "a.py"
    file.write_text("def f():\n    a = 1\n    return g(a)\n")
    at = {"file": str(file), "line": 3, "source": "return g(a)", "source_column": 5}
    browser.show(page(error([frame(0, **at), frame(1, **at)])))
    shown = """return Array.from(document.querySelectorAll(".frame"), (one) =>
      Array.from(one.querySelectorAll(".source")).filter((each) => each.checkVisibility()).length)"""
    assert browser.run(shown) == [1, 1]
    lines = "return Array.from(document.querySelectorAll('.around[open] .source'), (one) => one.innerText)"
    (text,) = browser.run(lines)
    assert text.split("\n")[:3] == ["1def f():", "2    a = 1", "3    return g(a)"]


# ---- Threads ---------------------------------------------------------------------------------------


@pytest.fixture
def threads(tmp_path):
    """The page of a crash, or of a process that has many threads."""

    def make(kind: str) -> str:
        from stacksplice._tools.html.command import write_process

        out = tmp_path / "threads.html"
        if kind == "process":
            document = process_of_many(100)
            document["threads"][1]["error"] = saved()
            assert write_process(document, "process 7", False, str(out)) == 0
        else:
            file = tmp_path / "crash.json"
            file.write_text(json.dumps(crash_file()))
            assert main(["show", "--html", str(out), str(file)]) == 0
        return out.read_text(encoding="utf-8")

    return make


def test_keys_pass_over_folded_threads(browser, threads):
    browser.show(threads("process"))
    browser.press("jj")
    assert browser.run(FOCUSED) == "f0"
    browser.run("document.querySelectorAll('.member')[1].open = true")
    browser.press("j")
    assert browser.run(FOCUSED) == "f2"


# ---- Groups of many --------------------------------------------------------------------------------


@pytest.fixture
def top(tmp_path):
    """The page that the command makes of those reports."""

    def make(reports, *options):
        file, out = tmp_path / "<b onclick=alert(1)>.jsonl", tmp_path / "top.html"
        file.write_text("".join(json.dumps(report) + "\n" for report in reports))
        assert main(["top", "--html", str(out), *options, str(file)]) == 0
        return out.read_text(encoding="utf-8")

    return make


def groups() -> list[dict]:
    """A frequent group, one whose report is damaged, and one that tries to be markup."""
    damaged = error([{"kind": 7}], fingerprint="1" * 32)
    return [saved()] * 3 + [{**hostile(), "fingerprint": "2" * 32}, damaged]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 400])
@pytest.mark.parametrize("kind", ["error", "crash", "process", "groups"])
def test_everyone_can_read_it(browser, threads, top, kind, theme, width):
    pages = {"error": lambda: page(saved(), all_frames=True), "groups": lambda: top(groups())}
    browser.show(pages.get(kind, lambda: threads(kind))(), width, theme)
    browser.press("j" if kind == "process" else "e")
    if kind in ("crash", "process"):
        browser.run("document.querySelectorAll('.member')[1].open = true")
    assert browser.unnamed() == [] and browser.pale() == []
    assert browser.run("return document.documentElement.scrollWidth") == width
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(246, 247, 249)") == (theme == "light")
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_a_group_leads_to_its_example(browser, top):
    browser.show(top(groups()))
    counts = "return Array.from(document.querySelectorAll('td:first-child'), (cell) => cell.textContent)"
    assert browser.run(counts) == ["3", "1", "1"]
    assert browser.run("return document.querySelectorAll('td a').length") == 2  # the damaged one has none
    browser.run("document.querySelector('td a').click()")
    assert browser.run("return document.querySelector(':target h2').textContent").strip().startswith("Exc")
    browser.press("j")
    assert browser.run("return document.activeElement.closest(':target') !== null")
    assert browser.run(FOCUSED)


# ---- The pictures in the docs ----------------------------------------------------------------------


def picture(browser, html: str, file: Path, tmp_path: Path, height: int) -> None:
    """Take FILE of the docs: STACKSPLICE_WRITE_EXPECTED=1 makes it anew."""
    made = file if os.environ.get("STACKSPLICE_WRITE_EXPECTED") == "1" else tmp_path / file.name
    browser.show(html, 760)
    browser.picture(made, 760, height)
    sizes = [struct.unpack(">II", Path(each).read_bytes()[16:24]) for each in (made, file)]
    assert sizes == [(760, height)] * 2


def test_the_picture_of_a_page(browser, tmp_path):
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    import readers_shop

    picture(browser, readers_shop.page(tmp_path), PICTURE, tmp_path, 900)
    assert browser.run("return document.querySelector('h1').textContent").split() == ["KeyError:", "'XXX'"]


def test_the_picture_of_groups(browser, tmp_path):
    pytest.importorskip("lupa.lua54", reason="lupa is not installed")
    import readers_many

    picture(browser, readers_many.page(tmp_path), PICTURE_OF_TOP, tmp_path, 420)
    assert browser.run("return document.querySelector('h1').textContent") == "4 reports in 2 groups, 1 file"
