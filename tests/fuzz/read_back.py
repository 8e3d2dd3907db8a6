"""The fuzz target in Python: reports that are read back from a pickled exception.

    read_back.py pickled [libFuzzer's options] [CORPUS...]

Runs it by atheris, which is libFuzzer for Python.  tests/fuzz/test_read_back.py replays its
corpus without it.
"""

from __future__ import annotations

import os
import re
import sys

from stacksplice._errors import remote

# What would drive a terminal, turn its text round, or end a line where the report does not.
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def check_text(text: str) -> None:
    found = HARMFUL.search(text)
    assert not found, f"{found[0]!a} at {found.start()}"


def pickled(data: bytes) -> None:
    """What an exception brought from elsewhere is a whole report, or nothing."""
    info = remote.read(data.decode("utf-8", "surrogateescape"))
    if info is None:
        return
    for newest_last in (False, True):
        check_text(info.format(newest_last=newest_last, all_frames=True))
    assert info.to_dict() and isinstance(info.hresult, int)
    assert [*info.stack] == [*info.stack] and [*info.propagation] == [*info.propagation]
    info.transformed, info.exceptions, info.notes, info.process


TARGETS = {"pickled": pickled}


def main() -> None:
    import atheris

    name = sys.argv.pop(1)
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
