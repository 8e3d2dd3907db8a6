"""What `import stacksplice` loads and makes, and what waits until somebody asks for it."""

import copy
import pickle
import sys

import pytest
import stacksplice
from building import PACKAGE, ran


def in_new_process(program: str) -> str:
    begin = f"import sys\nsys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    return ran(sys.executable, "-S", "-c", begin + program).stdout


def test_import_loads_what_every_program_needs():
    loaded = in_new_process(
        "import os  # as each start does\nbefore = {*sys.modules}\n"
        "import stacksplice\nprint(*sorted({*sys.modules} - before))"
    )
    needed = ["", "._errors", "._errors.frames", "._errors.groups", "._errors.info", "._stacksplice"]
    assert loaded.split() == ["__future__", "atexit", *(f"stacksplice{name}" for name in needed)]


def test_install_waits_with_what_only_a_report_needs():
    loaded = in_new_process(
        "import importlib.machinery, os, threading, types, warnings\nbefore = {*sys.modules}\n"
        "import stacksplice\nstacksplice.install()\nprint(*{*sys.modules} - before)"
    )
    others = {name for name in loaded.split() if not name.startswith("stacksplice")}
    assert others == {"__future__", "atexit"}


def test_install_imports_no_sdk():
    source = "import sys, stacksplice; stacksplice.install(); print(*sys.modules)"
    loaded = ran(sys.executable, "-c", source).stdout.split()
    assert "stacksplice" in loaded and not {"opentelemetry", "sentry_sdk"} & {*loaded}


EACH_NAME = """
import os, stacksplice
for name in sorted({*stacksplice._LATER, "winrt", *stacksplice.__all__}):
    child = os.fork()
    if not child:
        first = getattr(stacksplice, name)
        exec(f"from stacksplice import {name} as second")
        os._exit(not (first is second is vars(stacksplice)[name]))
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_each_name_is_there_when_it_is_asked_for():
    in_new_process(EACH_NAME)


def test_dir_and_star_have_all_names():
    found = in_new_process(
        "import stacksplice\nprint({*stacksplice.__all__} - {*dir(stacksplice)})\n"
        "from stacksplice import *\nprint({*stacksplice.__all__} - {*globals()})"
    )
    assert found == "set()\nset()\n"


def test_a_name_that_is_not_there_is_refused_as_by_any_module():
    assert not hasattr(stacksplice, "HResultKeyError")  # a builtin exception without a twin
    with pytest.raises(AttributeError, match="^module 'stacksplice' has no attribute 'hresult'$"):
        stacksplice.hresult
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'stacksplice'"):
        from stacksplice import nothing  # noqa: F401


TWINS = (
    "Memory NotImplemented Index Value EOF Overflow ZeroDivision Recursion ModuleNotFound Attribute Name OS "
    "Permission FileNotFound FileExists Timeout BlockingIO ChildProcess BrokenPipe ConnectionAborted "
    "ConnectionRefused ConnectionReset Interrupted IsADirectory NotADirectory ProcessLookup"
)


@pytest.mark.parametrize("name", [f"HResult{name}Error" for name in TWINS.split()])
def test_a_twin_is_one_class_under_its_name(name):
    kind = getattr(stacksplice, name)
    assert kind is getattr(stacksplice._stacksplice, name)
    assert kind.__mro__[:2] == (kind, stacksplice.HResultError)
    assert kind.__bases__[1].__name__ == name.removeprefix("HResult")
    error = kind(-2147024809, "gone")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind and other.hresult == -2147024809


def test_a_twin_that_an_error_made_first_is_the_one_of_that_name():
    found = in_new_process(
        "import pickle, stacksplice\n"
        "from stacksplice import winrt\n"
        "def caught(hr):\n"
        "    winrt.RoOriginateError(hr, 'gone')\n"
        "    try: stacksplice.raise_error(hr)\n"
        "    except Exception as error: return error\n"
        "for hr in (-2147024809, -2147024894, -2147024882):\n"
        "    kind = type(caught(hr))\n"
        "    print(kind.__name__, kind is getattr(stacksplice, kind.__name__),\n"
        "          type(pickle.loads(pickle.dumps(caught(hr)))) is kind)"
    )
    assert found.splitlines() == [
        "HResultValueError True True",
        "HResultFileNotFoundError True True",
        "HResultMemoryError True True",
    ]
