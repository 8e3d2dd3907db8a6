"""Random plans of calls through lupa: __traceback__, the report and the program's log have the same frames.

A plan is a way inward.  Each of its steps is a Lua function, which calls Python again, or a thread or a
greenlet, in which Python goes on.  At its end Python raises.
"""

from __future__ import annotations

import importlib
import threading

import hypothesis
import hypothesis.strategies as st
import pytest
import stacksplice

pytest.importorskip("lupa", reason="lupa is not installed")
greenlet = pytest.importorskip("greenlet")

# What a step's Lua functions are, outermost first, with the line at which each is left.
SOURCE = """
function plain()
  go_on()
end
function wrap()
  local inner = coroutine.wrap(function()
    go_on()
  end)
  inner()
end
function resume()
  local inner = coroutine.create(function()
    coroutine.yield()
    go_on()
  end)
  coroutine.resume(inner)
  local done, e = coroutine.resume(inner) if not done then error(e, 0) end
end
function protected()
  local done, e = pcall(go_on) if not done then error(e, 0) end
end
function nested()
  local outer = coroutine.wrap(function()
    local inner = coroutine.wrap(function()
      go_on()
    end)
    inner()
  end)
  outer()
end
"""
STEPS = {
    "plain": [("plain", 3)],
    "wrap": [("wrap", 9), ("function <plan:6>", 7)],
    "resume": [("resume", 17), ("function <plan:12>", 14)],
    "protected": [("protected", 20)],
    "nested": [("nested", 29), ("function <plan:23>", 27), ("function <plan:24>", 25)],
}
ELSEWHERE = ("thread", "greenlet")


def lua_modules() -> list[str]:
    found = []
    for name in ("lua53", "lua54", "lua55"):
        try:
            importlib.import_module(f"lupa.{name}")
        except ImportError:
            continue
        found.append(name)
    return found


class Program:
    """Runs a plan, and logs what it does: the names and lines, outermost first."""

    def __init__(self, module, plan: list[tuple[str, int]]) -> None:
        self.module = module
        self.plan = plan[::-1]
        self.log: list[tuple[str, int]] = []
        self.runtimes = self.make_runtimes()

    def make_runtimes(self):
        runtimes = [self.module.LuaRuntime(), self.module.LuaRuntime()]
        for runtime in runtimes:
            runtime.execute(SOURCE, name="@plan")
            runtime.globals().go_on = self.go_on
        return runtimes

    def go_on(self) -> None:
        if not self.plan:
            self.log.append(("go_on", 0))
            raise ValueError("the end of the plan")
        step, runtime = self.plan.pop()
        self.log.append(("go_on", 0))
        if step in STEPS:
            self.log += STEPS[step]
            self.runtimes[runtime].globals()[step]()
        elif step == "thread":
            self.in_a_thread()
        else:
            self.in_a_greenlet()

    def in_a_greenlet(self) -> None:
        self.log.append(("in_a_greenlet", 0))
        greenlet.greenlet(self.go_on).switch()

    def in_a_thread(self) -> None:
        """With runtimes that no other thread is using."""
        self.log.append(("in_a_thread", 0))
        former, self.runtimes = self.runtimes, self.make_runtimes()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self.go_on()
            except ValueError as exc:
                errors.append(exc)

        self.log.append(("work", 0))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.runtimes = former
        raise errors.pop()


def place(file: str, name: str, line: int) -> tuple[str, int] | None:
    if file in ("plan", "<plan>"):
        return (name, line)
    return (name.rpartition(".")[2], 0) if file == __file__ else None


def in_traceback(exc: BaseException) -> list[tuple[str, int]]:
    found, entry = [], exc.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        found.append(place(code.co_filename, code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return [one for one in found if one is not None]


def in_report(exc: BaseException) -> list[tuple[str, int]]:
    frames = [f for f in reversed(stacksplice.error_info(exc).stack) if f.kind == "script"]
    return [p for p in (place(f.file, f.function, f.line) for f in frames) if p is not None]


def run(module, plan: list[tuple[str, int]]) -> tuple[BaseException, list[tuple[str, int]]]:
    program = Program(module, plan)
    try:
        program.go_on()
    except ValueError as exc:
        return exc, program.log
    raise AssertionError("nothing was raised")


@pytest.fixture(scope="module", autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


step = st.tuples(st.sampled_from([*STEPS, *ELSEWHERE]), st.integers(0, 1))


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(name=st.sampled_from(lua_modules()), plan=st.lists(step, min_size=1, max_size=6))
def test_traceback_report_and_log_agree(name: str, plan: list[tuple[str, int]]) -> None:
    exc, log = run(importlib.import_module(f"lupa.{name}"), plan)
    assert in_traceback(exc)[1:] == log, plan
    if any(step in STEPS for step, _ in plan):
        assert in_report(exc)[-len(log) :] == log, plan
