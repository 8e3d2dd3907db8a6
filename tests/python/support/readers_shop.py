"""The views in docs/how-to of one error, that of examples/python, as each reader gets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import stacksplice
from building import PACKAGE, ROOT
from golden_steady import INSTEAD, lines_of, steady

FINGERPRINT = str(INSTEAD["fingerprint"])
EXAMPLE = ROOT / "examples" / "python"
TEST = """
import shop

def test_quote():
    shop.quote("XXX")
"""
# Prints the error as data.
PROGRAM = """
import json, logging, sys
import sentry_sdk, shop, stacksplice
from stacksplice.logging import JsonFormatter
from stacksplice.opentelemetry import exception_attributes
from stacksplice.sentry import StackspliceIntegration

class Kept(sentry_sdk.transport.Transport):
    def capture_envelope(self, envelope):
        views["sentry"] = json.loads(envelope.items[0].payload.get_bytes())

views = {}
options = {"transport": Kept, "default_integrations": False, "include_local_variables": False}
sentry_sdk.init("http://key@localhost/1", integrations=[StackspliceIntegration()], **options)
try:
    shop.quote("XXX")
except KeyError as exc:
    sentry_sdk.capture_exception(exc)
    views["json"] = stacksplice.error_info(exc).to_dict()
    views["opentelemetry"] = exception_attributes(exc)
    record = logging.makeLogRecord({"name": "shop", "levelno": 40, "levelname": "ERROR", "created": 1.7e9,
        "msg": "no price", "filename": "shop.py", "lineno": 20, "exc_info": (KeyError, exc, None)})
    views["logs"] = json.loads(JsonFormatter().format(record))
print(json.dumps(views))
"""
# Prints the same as a saved file has it.
REPORT = """
import shop, stacksplice

try:
    shop.quote("XXX")
except KeyError as exc:
    print(stacksplice.error_info(exc).to_json())
"""


def write_example(folder: Path) -> None:
    """The example as a module, with a test of it."""
    (folder / "pricing.lua").write_bytes((EXAMPLE / "pricing.lua").read_bytes())
    source = (EXAMPLE / "shop.py").read_text(encoding="utf-8")
    (folder / "shop.py").write_text(source.partition("print(")[0], encoding="utf-8")
    (folder / "main.py").write_text('import shop\n\nprint(shop.quote("XXX"))\n')
    (folder / "test_shop.py").write_text(TEST.lstrip())


def run(folder: Path, *arguments: str, **environment: str) -> str:
    """What Python prints, with those arguments."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**known, "PYTHONPATH": paths, "NO_COLOR": "1", "GITHUB_ACTIONS": "false", **environment},
        timeout=120,
    )
    return _steady_text(done.stdout, folder)


def _steady_text(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "/srv/shop")
    text = re.sub(r"\d+( (?:glue )?frames? (?:of [\w ]+ )?hidden)", r"some\1", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", FINGERPRINT, text)
    return re.sub(r'(lua54\.pyx", line) \d+', r"\1 1", text)


# ---- Parts of data --------------------------------------------------------------------------------


def _cut(value: Any) -> Any:
    """Long texts up to their first characters."""
    if isinstance(value, str) and len(value) > 72:
        return value[:60] + "..."
    return {name: _cut(each) for name, each in value.items()} if isinstance(value, dict) else value


def _only(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: _cut(data[name]) for name in names if name in data}


def _is_shown(file: str) -> bool:
    return not file.endswith(".pyx")  # whose lines change from one lupa to the next


def _json(data: dict[str, Any]) -> str:
    shown = _only(data, "schema", "hresult", "symbol", "message", "type", "language", "fingerprint")
    frames = [frame for frame in data["stack"] if frame["kind"] == "script" and _is_shown(frame["file"])]
    shown["stack"] = [_only(f, "language", "function", "file", "line", "source") for f in frames]
    shown["propagation"] = [_only(node, "language", "thread_id") for node in data["propagation"]]
    return lines_of(shown)


def _sentry(event: dict[str, Any]) -> str:
    (value,) = event["exception"]["values"]
    scripts = [frame for frame in value["stacktrace"]["frames"] if frame["platform"] in ("python", "lua")]
    names = ("platform", "function", "filename", "lineno", "context_line")
    frames = [_only(frame, *names) for frame in scripts if _is_shown(frame["filename"])]
    value = {**_only(value, "type", "value", "mechanism"), "stacktrace": {"frames": frames}}
    return lines_of({**_only(event, "level", "fingerprint"), "exception": {"values": [value]}})


def _logs(fields: dict[str, Any]) -> str:
    names = [name for name in fields if not name.startswith("process.")]
    return lines_of({**_only(fields, *names), "stacksplice": {"schema": "stacksplice-error/1"}})


# ---- Texts ----------------------------------------------------------------------------------------


def _combined(output: str) -> str:
    found = re.search(r"^-+ combined stack -+\n(.*?)^=+ short test summary", output, re.M | re.S)
    assert found, output
    return "---- combined stack ----\n" + found[1].rstrip("\n")


def _junit(file: Path, folder: Path) -> str:
    case = xml.etree.ElementTree.parse(file).find(".//testcase")
    assert case is not None
    case.attrib.pop("time")
    failure = case.find("failure")
    assert failure is not None and failure.text is not None and "(Lua) File" in failure.text
    failure.text = "..."
    xml.etree.ElementTree.indent(case)
    return _steady_text(xml.etree.ElementTree.tostring(case, encoding="unicode"), folder).strip()


def views(folder: Path) -> dict[str, str]:
    """Each view by the name that it has in docs/how-to."""
    write_example(folder)
    # By its name, as the package may be that of a build, which is not installed.
    test = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "stacksplice.pytest_plugin", "test_shop.py"]
    output = run(folder, *test, "--junitxml=report.xml")
    on_github = run(folder, *test, GITHUB_ACTIONS="true")
    data = steady(json.loads(run(folder, "-c", PROGRAM).splitlines()[-1]))
    return {
        "terminal": run(folder, "-m", "stacksplice", "run", "main.py").rstrip("\n"),
        "pytest": _combined(output),
        "junit": _junit(folder / "report.xml", folder),
        "github": "\n".join(line for line in on_github.splitlines() if line.startswith("::error")),
        "json": _json(data["json"]),
        "sentry": _sentry(data["sentry"]),
        "opentelemetry": lines_of(_cut(data["opentelemetry"])),
        "logs": _logs(data["logs"]),
    }


def page(folder: Path) -> str:
    """The error as an HTML page."""
    write_example(folder)
    return stacksplice.ErrorInfo.from_json(run(folder, "-c", REPORT)).to_html()
