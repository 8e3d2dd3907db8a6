"""Threads that get in each other's way."""

from __future__ import annotations

import sys
import threading


def race(function, arguments) -> None:
    """Call FUNCTION with each of ARGUMENTS in a thread of its own; they take turns very often."""
    threads = [threading.Thread(target=function, args=each) for each in arguments]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
