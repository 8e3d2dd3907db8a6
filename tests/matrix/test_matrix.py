"""Every language as origin and as catcher, 1 to 5 borders, in every way that calls can run and be made.

All paths of Python, Lua, C and C++ without equal neighbours are run, up to 2 borders with every
kind of error and every way to hand an error on, beyond with these in turn; and those with a second
Lua state up to 3 borders.  Each error has to be what it was: the same object, value, HRESULT and
message; its stack and that of each node of its chain is compared with the log of calls, which the
languages themselves tell; and nothing is left, neither in the thread's slot nor in memory.

With the Lua of the build; with --other-luas the others, compiled here.
"""

import gc
import random
import sys
import weakref

import paths
import pytest
import steps
from native import HERE, extension

SHOWN = 5  # of the cases that fail, in full


class Matrix:
    """The module, and what it found wrong."""

    def __init__(self, module):
        self.module = module
        self.alive = []  # (case, weak reference to the exception that Python caught)
        module.open(steps.step, *((HERE / name).read_text() for name in ("steps.lua", "steps.tiny")))

    def run(self, case):
        """What is wrong with CASE."""
        m = steps.m = self.module
        steps.path, steps.modes, steps.styles, steps.kind = case
        try:
            facts = m.run(*case)
        except BaseException as exc:
            return [f"it came out: {exc!r}"]
        found = paths.wrong(case, facts, m.log(), m.borders(), m.traceback())
        caught = facts.pop("caught", None)
        if caught is not None:
            self.alive.append((case, weakref.ref(caught)))
        del caught, facts  # its traceback leads to this frame
        m.forget_python()
        return found

    def left(self):
        """What is still there of the cases so far, when Lua has collected its garbage."""
        if any("a" in modes for (_, modes, _, _), _ in self.alive):
            gc.collect()  # asyncio makes cycles
        self.module.forget()
        of_lua, of_tiny, of_cpp = self.module.forget()  # what finalizers let go is garbage only now
        left = [f"{case}: the exception is still alive" for case, alive in self.alive if alive()]
        self.alive.clear()
        if of_lua or of_tiny or of_cpp:
            left.append(f"{of_lua} values of Lua, {of_tiny} of tiny, {of_cpp} exceptions of C++ are alive")
        return left

    def run_all(self, cases):
        wrong = []
        count = 0
        for case in cases:
            count += 1
            found = self.run(case)
            if found:
                wrong.append("\n".join([f"{case}:", *found]))
        wrong += self.left()
        assert count
        text = "\n".join(wrong[:SHOWN])
        assert not wrong, f"{len(wrong)} of {count} cases on {sys.version.split()[0]}\n{text}"


@pytest.fixture(scope="module")
def matrix(request, build_matrix):
    module = extension.load_extension(build_matrix(request.param))
    gc.collect()
    gc.disable()  # what nobody holds goes at once
    yield Matrix(module)
    gc.enable()
    module.close()


@pytest.mark.parametrize("way", paths.WAYS)
@pytest.mark.parametrize("borders", range(1, 6))
def test_matrix(matrix, borders, way):
    matrix.run_all(paths.cases(borders, way))


@pytest.mark.parametrize("way", paths.WAYS)
@pytest.mark.parametrize("borders", range(1, 4))
def test_two_states_of_lua(matrix, borders, way):
    matrix.run_all(case for case in paths.cases(borders, way, "PLCXM") if "M" in case[0])


@pytest.mark.parametrize("way", paths.WAYS)
@pytest.mark.parametrize("borders", range(1, 6))
def test_tiny(matrix, borders, way):
    """As origin, border and catcher; over four and five borders as two and three of them."""
    least = max(1, borders - 2)
    matrix.run_all(case for case in paths.cases(borders, way, "PLCXT") if case[0].count("T") >= least)


def test_any_cases(matrix):
    """Long paths, where the modes and what is done with the error stand in any order."""
    chance = random.Random(7)
    matrix.run_all(paths.any_case(chance) for _ in range(3000))
