"""Whatever error is reported in brief, the report says what the long one says, to all who read either."""

from __future__ import annotations

import pytest
import stacksplice

pytest.importorskip("greenlet", reason="greenlet is not installed")
pytest.importorskip("lupa", reason="lupa is not installed")

from brief_reports import assert_agree  # noqa: E402
from stacksplice._errors.remote import stacks_in  # noqa: E402
from test_never_poorer import MANY, installed, with_random_errors  # noqa: E402

__all__ = ["installed"]  # a fixture


@MANY
def test_brief_and_long_agree(count):
    seen = []

    def check(exc, names, chosen):
        info = stacksplice.error_info(exc)
        if info is None:
            return
        # A stack that has what its exception passed later grows no further when it is read again.
        lengths = [[len(holder["stack"]) for holder in stacks_in(info.to_dict())] for _ in range(2)]
        assert lengths[0] == lengths[1], names
        seen.append(names)
        assert_agree(info)

    with_random_errors(count, check)
    assert seen  # the others crossed nothing
