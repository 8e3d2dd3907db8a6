"""Code that is made anew each time, in the memory of code that was freed.

Every frame has the file, the function and the line that run, in whatever way the function was called, and
also when the stack is read after the code is gone.
"""

from __future__ import annotations

import threading

import pytest
import stacksplice
from churning import Churn


@pytest.fixture(autouse=True)
def installed():
    stacksplice.install()
    yield
    stacksplice.uninstall()


@pytest.mark.parametrize("rounds", [400, pytest.param(60_000, marks=pytest.mark.long)])
def test_frames_are_those_of_the_code_that_runs(rounds):
    churns = [Churn(seed) for seed in range(3)]

    def go(churn):
        for _ in range(rounds // len(churns)):
            churn.run()
            if len(churn.wrong) > 3:
                break
        churn.compare_kept()

    threads = [threading.Thread(target=go, args=[churn]) for churn in churns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [text for churn in churns for text in churn.wrong]
    compared = sum(churn.compared for churn in churns)
    assert not wrong, f"{len(wrong)} of {compared}, first:\n{wrong[0]}"
    assert compared == len(churns) * (rounds // len(churns))
    assert sum(churn.used_again for churn in churns) > rounds // 4  # else nothing was tried
