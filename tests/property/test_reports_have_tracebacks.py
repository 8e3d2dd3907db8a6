"""Whatever way an exception went, its report has each line of Python's own traceback, in order; so has a
capture where it is raised.  Each line of Lua on the way is in that traceback."""

from __future__ import annotations

import pytest
import stacksplice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("greenlet")
pytest.importorskip("lupa")

import ways  # noqa: E402

settings.register_profile(
    "ways", deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture(scope="module", autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


def check(leaf, chosen):
    names = [way.__name__ for way in (leaf, *chosen)]
    faults, logs = [], []
    exc = ways.caught(ways.program(ways.wrong_at(leaf, faults, logs), chosen))
    assert logs and not faults, f"{' < '.join(names)}: {faults}"
    if leaf is ways.of_python and set(chosen) <= {*ways.CALLS, *ways.GREENLETS}:
        assert ways.lua_lines(exc)[: len(logs[-1])] == logs[-1], names
    lost = ways.missing(exc)
    assert not lost, f"{' < '.join(names)}: {lost}\n{''.join(stacksplice.format_exception(exc))}"


def some(of, least=0):
    return st.lists(st.sampled_from(of), min_size=least, max_size=6)


@given(version=st.sampled_from(ways.VERSIONS), leaf=st.sampled_from(ways.LEAVES), chosen=some(ways.WAYS))
@settings(settings.get_profile("ways"))
def test_nothing_of_a_traceback_is_lost(version, leaf, chosen):
    ways.use(version)
    check(leaf, chosen)


@given(version=st.sampled_from(ways.VERSIONS), chosen=some([*ways.CALLS, *ways.GREENLETS], 1))
@settings(settings.get_profile("ways"))
def test_lines_of_lua_are_in_the_traceback(version, chosen):
    ways.use(version)
    check(ways.of_python, chosen)


@pytest.mark.parametrize("inner", ways.WAYS, ids=lambda way: way.__name__)
def test_every_way_inside_and_outside_of_lua(inner):
    """Chance may leave a pair out: here each is the first that the exception meets, and meets Lua first."""
    through_lua = ways.by_lua("plain")
    for leaf in ways.LEAVES:
        check(leaf, [through_lua, inner])
        check(leaf, [through_lua, inner, through_lua])
        check(leaf, [through_lua, ways.called, inner, ways.returned, ways.called])
        check(leaf, [inner, through_lua, inner])
