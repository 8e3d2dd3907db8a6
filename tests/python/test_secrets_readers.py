"""Secrets in errors, and each program and command that reads them: none shows one."""

from __future__ import annotations

import json
import xml.etree.ElementTree

import pytest
import stacksplice
from building import command
from html_pages import error, frame
from stacksplice import ErrorInfo
from test_pytest_plugin import run, sections  # noqa: F401
from test_secrets import SECRET, TOKEN, crossed, failing

pytestmark = pytest.mark.any_python


def assert_clean(text: str, what: object = None) -> None:
    assert SECRET not in text, (what, text)
    assert TOKEN not in text, (what, text)
    assert "[redacted: " in text, (what, text)


@pytest.fixture(autouse=True)
def usual_rules():
    stacksplice.redaction()
    yield
    stacksplice.redaction()


# ---- Programs of others --------------------------------------------------------------------------


SUITE = """
import border

def connect(password):
    raise ValueError(f"cannot open postgres://bob:{password}@db/x, token={password}")

def test_it():
    border.call(lambda: connect(password="hunter2"))
"""


def test_pytest(run, tmp_path):  # noqa: F811
    output = run(SUITE, "--junitxml=junit.xml", GITHUB_ACTIONS="true")
    (section,) = sections(output)
    assert_clean(section)
    (annotation,) = [line for line in output.splitlines() if line.startswith("::error ")]
    assert_clean(annotation)
    file = tmp_path / "junit.xml"
    (failure,) = xml.etree.ElementTree.parse(file).iter("failure")
    assert_clean(sections(failure.text + "\n---")[0])


# ---- Live errors ---------------------------------------------------------------------------------


def test_pages_of_live_errors():
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("pygments", reason="pygments is not installed")
    info = stacksplice.error_info(crossed())
    assert_clean(info.to_html())
    assert_clean(info._repr_html_())


def test_an_uncaught_error_of_run(tmp_path, border_path):
    (tmp_path / "program.py").write_text(SUITE + "\ntest_it()\n")
    paths = [str(border_path.parent), str(stacksplice.__path__[0]).rpartition("/")[0]]
    done = command("run", "program.py", status=1, cwd=tmp_path, PYTHONPATH=":".join(paths))
    assert_clean(done.stderr)


# ---- Saved reports -------------------------------------------------------------------------------


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


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_commands(saved, form):
    if "--html" in form:
        pytest.importorskip("jinja2", reason="jinja2 is not installed")
        pytest.importorskip("pygments", reason="pygments is not installed")
    if form[0] == "symbolize" and stacksplice._stacksplice._lines_missing():
        pytest.skip("this process has no libdw")
    assert_clean(command(*form, saved).stdout)


def test_a_title_that_is_cut_keeps_no_part_of_a_secret(tmp_path):
    file = tmp_path / "reports.jsonl"
    for before in range(70, 120, 3):
        report = error([frame(0)], message="x" * before + f" {TOKEN}")
        file.write_text(json.dumps(report) + "\n")
        assert TOKEN[:12] not in command("top", str(file)).stdout


def test_groups_of_groups_stay_whole():
    """What is removed from a saved report is no matter of its depth."""
    inner = error([frame(0)], message="the innermost")
    for _ in range(32):
        inner = error([frame(0)], exceptions=[inner])
    assert ErrorInfo.from_dict(inner).to_dict() == inner
