"""Fuzz targets in Python: reports that are read back, from a file or from a pickled exception.

    read_back.py saved|pickled [libFuzzer's options] [CORPUS...]

Runs a target by atheris, which is libFuzzer for Python.  tests/fuzz/test_read_back.py replays the
corpora without it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys

from stacksplice import __main__ as command_line
from stacksplice._errors import remote

# What would drive a terminal, turn its text round, or end a line where the report does not.
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def check_text(text: str) -> None:
    found = HARMFUL.search(text)
    assert not found, f"{found[0]!a} at {found.start()}"


def saved(data: bytes) -> None:
    """`stacksplice show` prints it, or says in one line why it cannot."""
    out, complaint = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
            status = command_line.main(["show", "-"])
    finally:
        sys.stdin = stdin
    assert status in (0, 2)
    assert bool(complaint.getvalue()) == (status == 2)
    check_text(out.getvalue())


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


TARGETS = {"saved": saved, "pickled": pickled}


def main() -> None:
    import atheris

    name = sys.argv.pop(1)
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
