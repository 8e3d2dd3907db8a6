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
