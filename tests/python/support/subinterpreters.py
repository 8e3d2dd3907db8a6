"""What children that run other interpreters begin with."""

INTERPRETERS = """
import os, pickle, sys
import stacksplice
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run(source):
    number = interpreters.create()
    interpreters.run_string(number, source)
    return number

def kinds(stack):
    return [frame.function for frame in stack if frame.kind == "script"]
"""

# Of either kind: with a lock of its own from 3.12 on, or under that of all.
CREATE = """
import sys, threading
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters

def create(isolated):
    if sys.version_info >= (3, 13):
        return interpreters.create("isolated" if isolated else "legacy")
    return interpreters.create(isolated=isolated)

def run(made, source):
    failed = interpreters.run_string(made, source)  # raises before 3.13
    assert failed is None, failed
"""
