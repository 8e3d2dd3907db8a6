"""The functions with names of the ``traceback`` module take what that module's functions take."""

from __future__ import annotations

import inspect
import io
import sys
import traceback

import pytest
import stacksplice
from raising import caught

NAMES = sorted(name for name in stacksplice.__all__ if name in traceback.__all__)


def fail(depth):
    if depth == 0:
        raise ValueError("deep")
    fail(depth - 1)


def one():
    two()


def two():
    try:
        three()
    except KeyError as exc:
        raise ValueError("effect") from exc


def three():
    return {}["cause"]


def files(text):
    return [line for line in text.splitlines() if line.startswith("  File ")]


def of_python(text):
    return [line for line in files(text) if '.py"' in line]


def printed(function, *arguments, **options):
    """What FUNCTION writes to stderr."""
    kept, sys.stderr = sys.stderr, io.StringIO()
    try:
        function(*arguments, **options)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = kept


def both(name, *arguments, **options):
    """What ours and theirs return or print."""
    for module in (stacksplice, traceback):
        function = getattr(module, name)
        if name.startswith("print"):
            yield printed(function, *arguments, **options)
        else:
            yield "".join(function(*arguments, **options))


def test_each_function_has_the_parameters_of_its_namesake():
    assert NAMES == ["format_exc", "format_exception", "print_exc", "print_exception"]
    for name in NAMES:
        ours = [*inspect.signature(getattr(stacksplice, name)).parameters.values()]
        theirs = [*inspect.signature(getattr(traceback, name)).parameters.values()]
        named = [each for each in theirs if each.kind is not inspect.Parameter.VAR_KEYWORD]
        for mine, other in zip(ours, named, strict=False):
            assert (mine.name, mine.kind, repr(mine.default)) == (other.name, other.kind, repr(other.default))
        assert len(ours) >= len(named)
        assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in ours[len(named) :])


LIMITS = [None, 0, 1, 2, 3, 99, -1, -2, -99]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", ["format_exception", "print_exception"])
def test_what_crossed_nothing_is_as_there(name, limit):
    for exc in (caught(one), caught(fail, 9), ValueError("never raised")):
        ways = [
            ((exc,), {"limit": limit}),
            ((exc,), {"limit": limit, "chain": False}),
            ((type(exc), exc, exc.__traceback__), {"limit": limit}),
            ((type(exc), exc, exc.__traceback__, limit), {}),
            ((None, exc, exc.__traceback__ and exc.__traceback__.tb_next, limit), {}),
            ((type(exc), exc, None, limit), {}),
        ]
        for arguments, options in ways:
            ours, theirs = both(name, *arguments, **options)
            assert ours == theirs
    ours, theirs = both(name, None, None, None)
    assert ours == theirs == "NoneType: None\n"


@pytest.mark.parametrize("limit", LIMITS)
def test_the_exception_being_handled(limit):
    assert stacksplice.format_exc(limit) == traceback.format_exc(limit) == "NoneType: None\n"
    try:
        one()
    except ValueError:
        for chain in (True, False):
            assert stacksplice.format_exc(limit, chain) == traceback.format_exc(limit, chain)
            mine, other = io.StringIO(), io.StringIO()
            stacksplice.print_exc(limit, mine, chain)
            traceback.print_exc(limit, other, chain)
            assert mine.getvalue() == other.getvalue()


@pytest.mark.parametrize("name", ["format_exception", "print_exception"])
def test_what_is_wrong_is_wrong_there_too(name):
    exc = caught(one)
    for arguments in [(exc, exc), (1,), ("ValueError",), (ValueError, 1, None)]:
        for module in (stacksplice, traceback):
            with pytest.raises((TypeError, ValueError, AttributeError)):
                getattr(module, name)(*arguments)
    with pytest.raises(TypeError):
        getattr(stacksplice, name)(exc, limit="2")
    with pytest.raises(TypeError):
        getattr(stacksplice, name)(exc, exc, "no traceback")
    with pytest.raises(ValueError, match="^Both or neither of value and tb must be given$"):
        getattr(stacksplice, name)(exc, tb=None)


def test_a_file_may_stand_behind_the_exception():
    """Where ``traceback`` has the value, of which there is none without a traceback."""
    exc = caught(one)
    for arguments, options in [((), {}), ((None,), {}), ((), {"file": None})]:
        assert printed(stacksplice.print_exception, exc, *arguments, **options) == report(exc)
    written = io.StringIO()
    stacksplice.print_exception(exc, written, chain=False)
    assert written.getvalue() == report(exc, chain=False)
    written = io.StringIO()
    stacksplice.print_exc(written)
    assert written.getvalue() == "NoneType: None\n"


def report(exc, **options):
    return "".join(stacksplice.format_exception(exc, **options))


def test_another_traceback_is_shown_and_not_kept(border):
    exc = caught(border.call, one)
    whole, part = exc.__traceback__, exc.__traceback__
    while part.tb_frame.f_code.co_name != "one":
        part = part.tb_next
    text = report(type(exc), value=exc, tb=part, chain=False)
    assert exc.__traceback__ is whole
    assert [line.rpartition(" in ")[2] for line in of_python(text)] == ["one", "two"] and "(C)" not in text
    everything = report(type(exc), value=exc, tb=whole, chain=False)
    assert everything == report(exc, chain=False) and "(C)" in everything


# ---- Combined stacks -------------------------------------------------------------------------------


def of_python_in_theirs(exc, limit):
    """As many of the entries of Python as LIMIT says."""
    found = of_python("".join(traceback.format_exception(exc, chain=False)))
    return found[:limit] if limit >= 0 else found[limit:]


@pytest.fixture
def crossed(border):
    def called():
        border.call(two)

    return caught(border.call, called)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, -1, -2, -3])
def test_a_limit_counts_pythons_frames(crossed, limit):
    text = report(crossed, limit=limit, chain=False)
    assert of_python(text) == of_python_in_theirs(crossed, limit)
    assert text.endswith("ValueError: effect\n") or "\nValueError: effect\n" in text
    if abs(limit) > 2:
        assert "(C)" in text
    everything = report(crossed, chain=False)
    for most in (len(of_python(everything)), 99, -99):
        assert report(crossed, limit=most, chain=False) == everything


@pytest.mark.parametrize("limit", [1, 2, 5, -1, -3, -5])
def test_a_limit_in_a_recursion(border, limit):
    """The combined stack folds it; so does the traceback module, behind the limit."""
    exc = caught(border.call, lambda: fail(50))
    theirs = [each.name for each in traceback.extract_tb(exc.__traceback__) if each.filename.endswith(".py")]
    theirs = theirs[:limit] if limit >= 0 else theirs[limit:]
    ours = [line.rpartition(" in ")[2] for line in of_python(report(exc, limit=limit))]
    repeated = 0
    if "[Previous line repeated" in report(exc, limit=limit):
        repeated = int(report(exc, limit=limit).partition("line repeated ")[2].split()[0])
    assert ours + ours[-1:] * repeated == theirs


def test_the_innermost_frame_of_python_is_shown_with_what_is_inside(crossing):
    def calls(depth):
        if depth:
            return calls(depth - 1)
        return crossing.run("local t = nil\nreturn t.x", None)

    exc = caught(calls, 3)
    text = report(exc, limit=-1)
    assert "(Lua)" in text and len(of_python(text)) == 1 and " in calls\n" in text
    assert "(Lua)" not in report(exc, limit=1) and "(Lua)" in report(exc, limit=99)
