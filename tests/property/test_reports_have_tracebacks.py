"""Whatever way an exception went, its report has each line of Python's own traceback, in order; so has a
capture where it is raised."""

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


def check(leaf, chosen):
    names = [way.__name__ for way in (leaf, *chosen)]
    faults = []
    exc = ways.caught(ways.program(ways.wrong_at(leaf, faults), chosen))
    assert not faults, f"{' < '.join(names)}: {faults}"
    lost = ways.missing(exc)
    assert not lost, f"{' < '.join(names)}: {lost}\n{''.join(stacksplice.format_exception(exc))}"


@given(leaf=st.sampled_from(ways.LEAVES), chosen=st.lists(st.sampled_from(ways.WAYS), max_size=6))
@settings(settings.get_profile("ways"))
def test_nothing_of_a_traceback_is_lost(leaf, chosen):
    check(leaf, chosen)


@pytest.mark.parametrize("inner", ways.WAYS, ids=lambda way: way.__name__)
def test_every_way_inside_and_outside_of_lua(inner):
    """Chance may leave a pair out: here each is the first that the exception meets, and meets Lua first."""
    through_lua = ways.by_lua("plain")
    for leaf in ways.LEAVES:
        check(leaf, [through_lua, inner])
        check(leaf, [through_lua, inner, through_lua])
        check(leaf, [through_lua, ways.called, inner, ways.returned, ways.called])
        check(leaf, [inner, through_lua, inner])
