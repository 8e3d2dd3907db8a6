"""Exceptions that lie, fail or have no end, given to every entry point: an answer, or their own error."""

from __future__ import annotations

import pickle
import sys

import pytest
import stacksplice
from stacksplice import _stacksplice


class Text(str):
    """A str whose conversions fail."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __format__ = __hash__ = __eq__ = __str__


class Liar(Exception):
    __class__ = int  # type: ignore[assignment]


class Broken(BaseException):
    def __reduce__(self):
        raise RuntimeError("not to be pickled")

    def __str__(self):
        raise KeyboardInterrupt

    __repr__ = __str__


class Slots(Exception):
    __slots__ = ("code",)


class DictProperty(Exception):
    @property
    def __dict__(self):
        raise RuntimeError("no dict")


class Attributes(Exception):
    """Nothing can be asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}")

    def __setattr__(self, name, value):
        raise RuntimeError(f"no {name}")


class Odd(Exception):
    """What is asked of it is no answer."""

    hresult = property(lambda self: "no number")
    winerror = errno = 10**30
    __notes__ = 7


class NoText(Exception):
    def __str__(self):
        return 7


def cyclic():
    exc, other = ValueError("one"), KeyError("two")
    exc.__cause__, other.__context__ = other, exc
    return exc


def of_itself():
    exc = ValueError("mine")
    exc.__context__ = exc
    return exc


def nested():
    group = ValueError("innermost")
    for _ in range(1000):
        group = ExceptionGroup("group", [group])
    return group


def long_chain():
    exc = ValueError("first")
    for _ in range(5000):
        outer = ValueError("next")
        outer.__cause__, exc = exc, outer
    return exc


def traced():
    """A traceback that goes on with one of another exception, whose frames are live."""
    try:
        raise ValueError("other")
    except ValueError as other:
        entry = other.__traceback__
    kind = type(entry)
    for lasti, line in ((-1, -1), (10**6, 10**9), (0, 0)):
        entry = kind(entry, sys._getframe(), lasti, line)
    return ValueError("traced").with_traceback(entry)


def noted():
    exc = ValueError("noted")
    exc.__notes__ = [Text("x"), 7, None, "\udc80\0" * 1000]
    return exc


VALUES = {
    "a text that fails": lambda: ValueError(Text("x")),
    "no text": NoText,
    "a class that lies": Liar,
    "one that cannot be pickled": Broken,
    "slots": Slots,
    "a __dict__ of its own": DictProperty,
    "no attributes": Attributes,
    "odd attributes": Odd,
    "a message of 10 MB": lambda: ValueError("x" * 10_000_000),
    "a message of what is no text": lambda: ValueError("\ud800\0\x1b[31m\u202e\r\n" * 100),
    "causes in a circle": cyclic,
    "its own context": of_itself,
    "a group 1000 deep": nested,
    "5000 causes": long_chain,
    "an odd traceback": traced,
    "odd notes": noted,
    "many arguments": lambda: ValueError(*range(1000)),
    "a type with an odd name": type(
        "\n\x1b" * 50, (Exception,), {"__module__": 7, "__qualname__": "q" * 5000}
    ),
}


def raise_it(exc):
    raise exc


# What is done with EXC.
ENTRIES = {
    "originate": stacksplice.originate,
    "propagate": lambda exc: (stacksplice.originate(exc), stacksplice.propagate(exc)),
    "format": lambda exc: (stacksplice.originate(exc), stacksplice.format_exception(exc)),
    "str": lambda exc: str(stacksplice.originate(exc)),
    "json": lambda exc: stacksplice.originate(exc).to_json(),
    "dict": lambda exc: stacksplice.originate(exc).to_dict(),
    "fields": lambda exc: [
        getattr(info, name)
        for info in [stacksplice.originate(exc)]
        for name in dir(info)
        if not name.startswith("_")
    ],
    "hresult_of": _stacksplice.hresult_of,
    "error_info": stacksplice.error_info,
    "pickled report": lambda exc: pickle.loads(pickle.dumps(stacksplice.originate(exc))).message,
    "raise_error": lambda exc: stacksplice.raise_error(stacksplice.originate(exc).hresult),
    "border": None,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("value", VALUES)
def test_hostile_values(border, value, entry):
    exc = VALUES[value]()
    call = ENTRIES[entry] or (lambda exc: border.call(raise_it, exc))
    try:
        call(exc)
    except BaseException as raised:
        # The value itself, where it is raised; or what its own code raised.
        own = (RuntimeError, KeyboardInterrupt)
        assert raised is exc or isinstance(raised, own), repr(raised)
        assert raised is exc or type(exc) in (Broken, Attributes, DictProperty), repr(raised)
    stacksplice.winrt.RoClearError()
    # It still can be told of, and a plain error after it is what it always was.
    info = stacksplice.originate(ValueError("plain"))
    assert (info.type, info.message) == ("ValueError", "plain")
