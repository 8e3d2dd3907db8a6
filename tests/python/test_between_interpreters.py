"""Errors that move between interpreters of one process: by value, never the object."""

from __future__ import annotations

import sys

import pytest
from subinterpreters import INTERPRETERS


@pytest.fixture
def child(child):
    return child.behind(INTERPRETERS)


def test_an_error_in_the_slot_arrives_by_value(child):
    done = child("""
run('''
import stacksplice
def inside():
    raise KeyError("of the other one")
try:
    inside()
except KeyError as exc:
    exc.__stacksplice_test__ = 1
    stacksplice.originate(exc)
''')
info = stacksplice.peek_error()
try:
    stacksplice._stacksplice.raise_error(info.hresult)
except LookupError as exc:
    assert isinstance(exc, stacksplice.HResultError), type(exc)
    assert not hasattr(exc, "__stacksplice_test__")
    found = stacksplice.error_info(exc)
    assert found == info and found.language_exception is None
    print(found.type, found.message, kinds(found.stack)[0], found.stack[0].interpreter)
assert stacksplice.peek_error() is None
""")
    assert done.stdout.startswith("KeyError 'of the other one' inside interpreter "), done.stdout


def test_a_pickled_one_says_where_it_was(child):
    done = child("""
reading, writing = os.pipe()
number = run(f'''
import os, pickle, stacksplice
def inside():
    raise KeyError("of the other one")
try:
    inside()
except KeyError as exc:
    stacksplice.originate(exc)
    stacksplice.winrt.RoClearError()
    os.write({writing}, pickle.dumps(exc))
''')
exc = pickle.loads(os.read(reading, 1_000_000))
info = stacksplice.error_info(exc)
assert type(exc) is KeyError and kinds(info.stack)[0] == "inside"
assert info.process["id"] == os.getpid() and info.process["interpreter"] == int(number)
assert f" in interpreter {int(number)} of process {os.getpid()} " in info.format()
print("good")
""")
    assert done.stdout == "good\n"


def test_an_exception_of_here_stays_itself_while_another_interpreter_runs(child):
    done = child("""
exc = ValueError("mine")
info = stacksplice.originate(exc)
run("import stacksplice; assert stacksplice.peek_error().language_exception is None")
try:
    stacksplice._stacksplice.raise_error(info.hresult)
except ValueError as found:
    print(found is exc)
""")
    assert done.stdout == "True\n"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor is new in 3.14")
def test_interpreter_pool_executor(child):
    done = child("""
import concurrent.futures, os, process_jobs, stacksplice
with concurrent.futures.InterpreterPoolExecutor(1) as pool:
    exc = pool.submit(process_jobs.originates, "x").exception()
info = stacksplice.error_info(exc)
print(type(exc).__name__, info.message, info.stack[0].function, info.process["id"] == os.getpid())
assert info.process["interpreter"] > 0 and info.language_exception is None
""")
    assert done.stdout == "ValueError x plain True\n"
