"""What the processes of test_processes.py run; importable there by name, as spawn needs it."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import multiprocessing
import os

import stacksplice

# Chunks of Lua for the module crossing: of Python below it, and of its own.
CALLS = """local host = ...
local function inner() local r = py(host, 'through Lua') return r end
local function outer() local r = inner() return r end
local r = outer() return r
"""
FAILS = "local function inner() error({hresult = 0x80070002}) end\ninner()\n"


def load(path):
    name = os.path.basename(path).partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Refused(ValueError):
    """One that its own pickle takes apart: three arguments, no __dict__."""

    def __init__(self, code, where, why):
        super().__init__(code, where, why)

    def __reduce__(self):
        return type(self), self.args


class Needs(Exception):
    """Required arguments, kept in the usual way."""

    def __init__(self, code, *, why="because"):
        super().__init__(code)
        self.why = why


def innermost(value):
    raise Needs(value, why="told") from KeyError("cause")


def raises_a_table():
    """Has a script in lupa raise a table, which has no text of Python's."""
    import lupa.lua54

    stacksplice.install()
    lupa.lua54.LuaRuntime().execute("error({code = 42})", name="@table.lua")


def crosses(path, value):
    """Fails behind a border of C."""
    return load(path).call(innermost, value)


def in_a_process(function, *arguments):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def middle(path):
    return in_a_process(crosses, path, 1)


def second(path):
    return in_a_process(middle, path)


def native(path, message):
    return load(path).fail(0x80070002, message)


def group(path):
    border = load(path)
    errors = []
    for number in range(2):
        try:
            border.call(innermost, number)
        except Needs as exc:
            errors.append(exc)
    raise ExceptionGroup("several", errors)


def noted(path):
    try:
        crosses(path, 5)
    except Needs as exc:
        exc.add_note("a note")
        raise


def plain(value):
    raise ValueError(value)


def through_lua(path, chunk):
    return load(path).run(chunk, plain)


def into_queue(path, queue):
    try:
        crosses(path, os.getpid())
    except Needs as exc:
        queue.put(exc)
        queue.put(stacksplice.error_info(exc))


def originates(value):
    try:
        plain(value)
    except ValueError as exc:
        stacksplice.originate(exc)
        stacksplice.take_error()
        raise


def group_crosses(path):
    try:
        group(path)
    except ExceptionGroup as exc:
        exc.add_note("of the group")
        load(path).call(raises, exc)


def raises(exc):
    raise exc
