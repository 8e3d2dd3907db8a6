"""What the programs of these tests look at."""

import stacksplice

GAP_RETURNED = "[frames here had already returned]"


def fail():
    raise ValueError("born in Python")


def caught(function, *arguments):
    try:
        function(*arguments)
    except Exception as exc:
        return exc
    raise AssertionError("no error")


def scripts(stack):
    """Language and function of the script frames, the gap's reasons, and native names; innermost first."""
    told = []
    for frame in stack:
        if frame.kind == "gap":
            told.append(f"[{frame.reason}]")
        elif frame.kind == "script" and frame.file != "[C]":
            told.append(f"{frame.language} {frame.function}")
        elif is_sorting(frame) and told[-1:] != ["native qsort"]:
            told.append("native qsort")
    return told


def is_sorting(frame):
    """Whether it is qsort of the C library, or a function of its own that qsort calls."""
    return "sort" in (frame.function or "") and "libc.so" in (frame.module or "")


def story(exc):
    """The stack that EXC gets at a border here."""
    return scripts(stacksplice.originate(exc).stack)


def in_order(told, *wanted):
    """Whether WANTED are in TOLD in this order and no gap beside them; else a failure that shows both."""
    at = 0
    for word in wanted:
        while at < len(told) and told[at] != word:
            assert not told[at].startswith("["), f"{told[at]} before {word!r} (in this order) in {told}"
            at += 1
        assert at < len(told), f"no {word!r} (in this order) in {told}"
        at += 1
    assert not [word for word in told[at:] if word.startswith("[")], f"gaps behind {wanted} in {told}"
    return True
