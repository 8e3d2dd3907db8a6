"""``python -m stacksplice dump --repeat``: a flame graph of what a process does."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from building import command, start
from stacksplice._tools.dump.flames import svg_of
from test_dump import PROGRAM

pytestmark = pytest.mark.any_python

SVG = "{http://www.w3.org/2000/svg}"
WORK = """
import threading
def odd():
    threading.Event().wait()
def even():
    sorted([1], key=lambda value: odd())
threading.Thread(target=even, daemon=True).start()
print(flush=True)
odd()
"""


def titles(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return [title.text or "" for title in root.iter(f"{SVG}title")]


@pytest.mark.skipif(not PROGRAM.exists(), reason="this machine's processes cannot be inspected")
def test_all_threads_of_a_process():
    with start("-c", WORK) as child:
        svg = command("dump", "--repeat", "0.3", str(child.pid)).stdout
    found = titles(svg)
    looks = int(re.search(r"seen (\d+) times", svg)[1])
    assert found[0] == f"all threads ({2 * looks} of {2 * looks}, 100.0%)"
    assert sum(title.startswith("odd:") for title in found) == 2
    assert sum(title.startswith("even:") for title in found) == 1
    assert not any("_PyEval" in title for title in found)
    done = command("dump", "--repeat", "1", str(child.pid), status=2)
    assert done.stdout == "" and "there is no process" in done.stderr


def script(function: str, language: str = "python") -> dict:
    return {"kind": "script", "language": language, "function": function, "file": "a.x", "line": 3}


def test_widths_and_names():
    native = {"kind": "native", "language": "native", "module": "/lib/liba.so", "module_offset": 31}
    gap = {"kind": "gap", "language": "native", "reason": "a<b & \x00"}
    glue = {"kind": "native", "language": "native", "function": "glue", "glue": True}
    threads = [
        {"thread_id": 1, "count": 3, "stack": [native, glue, script("f")]},
        {"thread_id": 1, "count": 1, "stack": [gap, script("g", "lua"), script("f")]},
    ]
    svg = svg_of(threads, "heading", False)
    assert titles(svg) == [
        "all threads (4 of 4, 100.0%)",
        "thread 1 (4 of 4, 100.0%)",
        "f:3 a.x (4 of 4, 100.0%)",
        "liba.so+0x1f /lib/liba.so (3 of 4, 75.0%)",
        "g:3 a.x (1 of 4, 25.0%)",
        "a<b & \ufffd (1 of 4, 25.0%)",
    ]
    assert [float(width) for width in re.findall(r'width="([\d.]+)" height="16"', svg)] == [
        1200,
        1200,
        1200,
        900,
        300,
        300,
    ]
    assert "glue" in svg_of(threads, "heading", True)


def test_a_stack_deeper_than_python_may_recurse():
    stack = [script(f"f{number}") for number in range(5000)]
    assert len(titles(svg_of([{"thread_id": 1, "count": 1, "stack": stack}], "heading", False))) == 5002


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "x", "1e9"])
def test_no_number_of_seconds(seconds):
    assert "invalid number of seconds value" in command("dump", "--repeat", seconds, "1", status=2).stderr
