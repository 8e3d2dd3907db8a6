"""Loggers of others: with us each says at least what it says alone, and by the manual's lines the report."""

from __future__ import annotations

import json
import re

import pytest
from building import ROOT

PAGE = (ROOT / "docs" / "how-to" / "logs-and-opentelemetry.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.partition("## Other loggers")[2], re.M | re.S)
LOGGERS = {
    "structlog": (
        "structlog",
        """
structlog.configure([structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])
log = structlog.get_logger().exception
""",
    ),
    "structlog, frames as data": (
        "structlog",
        """
structlog.configure([structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()])
log = structlog.get_logger().exception
""",
    ),
    "python-json-logger": (
        "pythonjsonlogger.json",
        "handler.setFormatter(pythonjsonlogger.json.JsonFormatter())",
    ),
    "ecs-logging": ("ecs_logging", "handler.setFormatter(ecs_logging.StdlibFormatter())"),
    "loguru": (
        "loguru",
        """
loguru.logger.remove()
loguru.logger.add(sys.stdout, serialize=True)
log = loguru.logger.exception
""",
    ),
}
BEGIN = """
import logging, sys
import lupa.lua54
handler = logging.StreamHandler(sys.stdout)
logging.getLogger().addHandler(handler)
log = logging.exception
"""
ATTACH = """
import stacksplice
stacksplice.install()
"""
FILTER = """
import stacksplice.logging
handler.addFilter(stacksplice.logging.Filter())
"""
ERRORS = """
lua = lupa.lua54.LuaRuntime()
lua.globals().rate = lambda currency: {"EUR": 1}[currency]
lua.execute('''
function fields() error({code = 7, message = "no stock"}) end
function price() local found = rate("USD") return found end
function text() error("no price") end
''', name="@rules.lua")
for name in ("fields", "price", "text"):
    try:
        lua.globals()[name]()
    except Exception:
        log(name)
"""


def logged(child, source):
    return [json.loads(line) for line in child(source).stdout.splitlines() if line.startswith("{")]


def texts_of(value, path=()):
    """Each text of a record and where it stands; frames, of which there may be more, by their last."""
    if isinstance(value, dict):
        return {at: text for key, each in value.items() for at, text in texts_of(each, (*path, key)).items()}
    if isinstance(value, list):
        return {(*path, len): str(value)}
    return {path: value if isinstance(value, str) else ""}  # a number need only be there


# Addresses, times, processes; and the entries of lupa's own functions, which we take out of tracebacks.
BRIDGE = r""" *File "[^"]*\.pyx", line \d+, in \S+\n?|\{'filename': '[^']*\.pyx'[^{}]*\{\}\}(, )?"""
OF_THE_RUN = re.compile(rf"{BRIDGE}|0x[0-9a-f]+|\d+")


@pytest.mark.parametrize("name", LOGGERS)
@pytest.mark.parametrize("how", ["install", "filter"])
def test_no_logger_says_less_with_us(child, name, how):
    pytest.importorskip("lupa.lua54")
    module, lines = LOGGERS[name]
    pytest.importorskip(module, reason=f"{module} is not installed")
    if how == "filter" and "handler" not in lines:
        pytest.skip("it is no handler of logging")
    begin = f"{BEGIN}import {module}\n{lines}\n"
    alone = logged(child, begin + ERRORS)
    with_us = logged(child, begin + ATTACH + (FILTER if how == "filter" else "") + ERRORS)
    assert len(alone) == len(with_us) == 3
    for without, record in zip(alone, with_us, strict=True):
        known = texts_of(record)
        for path, text in texts_of(without).items():
            assert len(OF_THE_RUN.sub("", known[path])) >= len(OF_THE_RUN.sub("", text)), path
        assert "rules.lua" in json.dumps(record)
    assert name == "ecs-logging" or "no stock" in json.dumps(with_us[0])


@pytest.mark.parametrize("module", ["structlog", "pythonjsonlogger", "loguru"])
def test_the_lines_of_the_manual(child, module):
    pytest.importorskip("lupa.lua54")
    pytest.importorskip(module, reason=f"{module} is not installed")
    (block,) = [each for each in BLOCKS if f"import {module}" in each]
    log = {"structlog": "structlog.get_logger()", "pythonjsonlogger": "logging", "loguru": "loguru.logger"}
    source = ATTACH + "import lupa.lua54\n" + block + f"\nlog = {log[module]}.exception\n" + ERRORS
    done = child(source)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
    records = [json.loads(line) for line in lines]
    assert len(records) == 3
    for record, words in zip(records, ("no stock", "'USD'", "no price"), strict=True):
        members = {"structlog": "exception", "pythonjsonlogger": "exc_info"}
        text = record[members[module]] if module in members else record["record"]["extra"]["report"]
        assert '(Lua) File "rules.lua"' in text and ".pyx" not in text
        assert re.sub(r"(?m)^    .*", "", text).count(words) == 1  # beside the line of source
