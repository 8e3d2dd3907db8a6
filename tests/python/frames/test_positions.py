"""What bindings/shared knows of this Python: places in source, against code.co_positions(), and offsets."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
import sysconfig
import types
from pathlib import Path

import pytest
import stacksplice
from building import EXTENSION_INCLUDES, HERE, SHARED, compile_c


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    output = tmp_path_factory.mktemp("shared") / f"shared{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [HERE / "shared_module.c", *sorted(SHARED.glob("python*.c"))]
    compile_c(output, sources, *EXTENSION_INCLUDES, "-shared", "-fPIC")
    spec = importlib.util.spec_from_file_location("shared", output)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def position(shared):
    return shared.position


def test_offsets_are_those_of_the_headers(shared):
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    assert shared.differences(runtime) == []


def truths(code):
    """What each code unit of CODE has, in our terms: 0 is unknown, columns count from 1."""
    for line, end_line, column, end_column in code.co_positions():
        no_column = column is None or end_column is None
        yield line or 0, end_line or 0, 0 if no_column else column + 1, 0 if no_column else end_column + 1


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def assert_equal(position, code):
    count = 0
    for unit, truth in enumerate(truths(code)):
        assert position(code, 2 * unit) == truth, (code, unit)
        count += 1
    assert count == len(code.co_code) // 2
    return count


def test_every_place_of_the_standard_library(position):
    folder = Path(sysconfig.get_path("stdlib"))
    names = ["argparse", "ast", "contextlib", "dataclasses", "decimal", "difflib", "enum", "inspect"]
    count = 0
    for name in [*names, "typing", "asyncio/tasks", "email/message", "json/decoder", "unittest/mock"]:
        source = (folder / f"{name}.py").read_bytes()
        for code in codes_in(compile(source, name, "exec")):
            count += assert_equal(position, code)
    assert count > 50_000


def test_long_lines_and_far_lines(position):
    source = "x = [" + ", ".join(f"f({n})" for n in range(300)) + "]\n" + "\n" * 5000 + "y = (\n\n\n1 +\nz)\n"
    assert_equal(position, compile(source, "far", "exec"))
    assert position(compile(source, "far", "exec"), -1) == (1, 0, 0, 0)


def test_tables_that_are_none(position):
    code = compile("x = f(1)\ny = (x +\n 2)\n", "odd", "exec")
    size = len(code.co_code)
    assert position(code.replace(co_linetable=b""), 4) == (0, 0, 0, 0)
    assert position(code, size) == position(code, 2**31 - 1) == (0, 0, 0, 0)
    generator = random.Random(7)
    tables = [code.co_linetable[:n] for n in range(len(code.co_linetable))]
    tables += [bytes(generator.randrange(256) for _ in range(n % 40)) for n in range(2000)]
    tables += [b"\xf0" + b"\x7f" * 40, b"\x00" * 9, b"\xe8\x7f\x7f\x7f\x7f\x7f\x3f" * 5]
    for table in tables:
        damaged = code.replace(co_linetable=table)
        for lasti in range(0, size, 2):
            assert all(0 <= number < 2**32 for number in position(damaged, lasti))


def shown(frame):
    return frame.line or 0, frame.end_line or 0, frame.column or 0, frame.end_column or 0


def test_live_frames_have_columns():
    def inner():
        return stacksplice.capture(), [(f.f_code, f.f_lasti) for f in chain(sys._getframe())]

    def outer():
        # fmt: off
        größe = 1; return (größe, inner(  # noqa: E702
        ))
        # fmt: on

    stack, places = outer()[1]
    frames = [frame for frame in stack if frame.language == "python"]
    assert len(frames) == len(places)
    for frame, (code, lasti) in list(zip(frames, places))[1:]:
        assert shown(frame) == list(truths(code))[lasti // 2]
    line = outer.__code__.co_firstlineno + 2
    # Bytes, not characters: the umlauts before it have two each.
    assert shown(frames[1]) == (line, line + 1, 39, 10)
    assert frames[0].column == 16


def chain(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_a_traceback_with_a_line_of_its_own_has_no_columns():
    def raises():
        raise ValueError("elsewhere")

    try:
        raises()
    except ValueError as exc:
        entry = exc.__traceback__.tb_next
        made = types.TracebackType(None, entry.tb_frame, entry.tb_lasti, 4711)
        stack = stacksplice.originate(exc.with_traceback(made)).stack
    assert shown(stack[0]) == (4711, 0, 0, 0)


def test_without_debug_ranges(child):
    child("""
import os, subprocess, sys
if "-X" not in sys.orig_argv:
    sys.exit(subprocess.call([sys.executable, "-X", "no_debug_ranges", *sys.orig_argv[1:]]))
import stacksplice
frame = stacksplice.capture()[0]
assert (frame.line, frame.column, frame.end_column) == (6, None, None), frame.to_dict()
""")
