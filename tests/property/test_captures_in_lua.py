"""Calls of Python and Lua at random, in two runtimes of each Lua: every capture has the frames that the
program logs, in order, and nothing between them is unknown."""

from __future__ import annotations

import random

import pytest
import stacksplice

pytest.importorskip("greenlet")
pytest.importorskip("lupa")

import ways  # noqa: E402

WAYS = [*ways.OF_LUA, ways.called, ways.in_a_generator, ways.in_a_callback]


@pytest.fixture(scope="module", autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


@pytest.mark.parametrize("least", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("version", ways.VERSIONS)
def test_captures_have_what_the_program_logs(version, least):
    ways.use(version)
    chance = random.Random(least)
    faults, logs = [], []
    capture = ways.wrong_at(str, faults, logs)

    def some_calls(depth):
        def call():
            if depth == 0 or chance.random() < 0.3:
                capture()
            if depth:
                chance.choice(WAYS)(some_calls(depth - 1))()

        return call

    while len(logs) < least:
        some_calls(chance.randrange(7))()
    assert not faults, f"{len(faults)} of {len(logs)}, first {faults[0]}"
