"""For pytest: the combined stack of a failing test, below its traceback.

Once stacksplice is installed pytest loads it by itself; elsewhere ``-p stacksplice.pytest_plugin``
does, and ``-p no:stacksplice.pytest_plugin`` leaves it out.  Tests, fixtures and modules that fail
with an exception which crossed a border have a section "combined stack" in the report, and so in
JUnit files and those of pytest-xdist's workers; --tb=no and --tb=line show none.  The frames by which
pytest came to the test are left out, as it does itself.

JUnit files also have the property "stacksplice.fingerprint", by which failures of one kind can be
counted.  In a workflow of GitHub such a test is annotated at the line that raised, in any language.

The runtimes of lupa are attached while pytest runs, so that tests need no install() for this.

PYTEST_DONT_REWRITE: pytest need not read asserts in what was imported before it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any

import _pytest
import pluggy
import pytest

from . import _stacksplice
from ._base.redaction import text_of
from ._errors import github
from ._errors.live import log_text
from ._hooks import lupa

_TITLE = "combined stack"
_FINGERPRINT, _PLACE = "stacksplice.fingerprint", "stacksplice.place"
_FOLDERS = (*_pytest.__path__, *pluggy.__path__, os.path.join(os.path.dirname(os.__file__), "unittest"))
_RUNNER = tuple([os.path.join(folder, "") for folder in _FOLDERS])  # whose code runs a test
# In a configuration: it attached the runtimes, which were not attached before.
_ATTACHED = pytest.StashKey[bool]()


def _from_test_on(outermost: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that a report of an error without a border shows: none of pytest's frames."""
    found = outermost
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_RUNNER):
        found = found.tb_next
    return found or outermost


def _text_of(exc: BaseException) -> str | None:
    if isinstance(exc, pytest.Collector.CollectError) and exc.__cause__ is not None:
        exc = exc.__cause__  # the import's exception; pytest wraps it in the other one
    whole = exc.__traceback__
    try:
        return log_text(exc.with_traceback(_from_test_on(whole)))
    except Exception as failure:
        return f"no combined report: {type(failure).__name__}: {failure}"
    finally:
        exc.__traceback__ = whole


def _add_section(
    config: pytest.Config, report: Any, excinfo: pytest.ExceptionInfo[BaseException] | None
) -> None:
    if excinfo is None or not report.failed or config.getoption("tbstyle") == "line":
        return
    text = _text_of(excinfo.value)
    if text is None:
        return
    add_section = getattr(report.longrepr, "addsection", None)
    if add_section is not None:
        # Inside the object that represents the failure: JUnit files keep that.
        add_section(_TITLE, text)
    else:
        report.sections.append((_TITLE, text))


def _say_what_others_said(report: pytest.TestReport, exc: BaseException | None) -> None:
    """Give the title of REPORT the error's own message, where another language's exception has no text or
    more than that: pytest's summary, JUnit files and annotations have the title."""
    info = _stacksplice._own_info(exc) if exc is not None else None
    crash = getattr(report.longrepr, "reprcrash", None)
    if info is None or crash is None or info.language in ("python", "native"):
        return
    name = f"{type(exc).__module__}.{type(exc).__qualname__}"
    if crash.message.startswith(name):
        crash.message = f"{name}: {text_of(info.message)}"


def _add_properties(item: pytest.Item, report: pytest.TestReport, exc: BaseException | None) -> None:
    """Properties travel with reports, out of the workers of pytest-xdist too, and into JUnit files."""
    info = _stacksplice.error_info(exc) if exc is not None and report.failed else None
    if info is None:
        return
    found = [(_FINGERPRINT, info.fingerprint)]
    place = github.place_of(info, item.config.rootpath) if github.is_host() else None
    if place is not None:
        found.append((_PLACE, place))
    item.user_properties += found  # for the report that follows
    report.user_properties += found


def pytest_configure(config: pytest.Config) -> None:
    # Not twice: tests of plugins run one pytest inside of another.
    if not lupa.is_begun:
        lupa.begin()
        config.stash[_ATTACHED] = True


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_ATTACHED, False):
        lupa.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    report = (yield).get_result()
    exc = call.excinfo.value if call.excinfo is not None else None
    _add_section(item.config, report, call.excinfo)
    _say_what_others_said(report, exc)
    _add_properties(item, report, exc)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, None]:
    report = (yield).get_result()
    # pytest itself takes it from there next.
    call = getattr(report, "call", None)
    _add_section(collector.config, report, call.excinfo if call is not None else None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not github.is_host():
        return
    lines: dict[str, None] = {}  # each once, in their order
    for report in [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]:
        place = dict(getattr(report, "user_properties", ())).get(_PLACE)
        if place is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash is not None else "failed"
            lines[github.command(place, report.nodeid, message)] = None
    for line in lines:
        terminalreporter.ensure_newline()
        terminalreporter.write_line(line)
