"""Errors that cross between Python and Lua in both directions: nothing about them is lost."""

import asyncio
import gc
import io
import json
import signal
import subprocess
import sys
import unittest

import crossing
import stacksplice

CALL = "return py(...)"  # Lua calls the Python function that it is given


def raiser(exc):
    def fail(*_):
        raise exc

    return fail


class CrossingTest(unittest.TestCase):
    def tearDown(self):
        self.assertFalse(crossing.slot(), "an error was left in the thread's slot")

    def caught(self, kind, chunk, *args):
        """The exception that the chunk raises."""
        try:
            result = crossing.run(chunk, *args)
        except kind as exc:
            return exc
        self.fail(f"no {kind.__name__} but {result!r}")


class IdentityTest(CrossingTest):
    def test_python_gets_the_whole_message_of_a_lua_error(self):
        for make, text in (
            (r"'a\0b\0'", "a\0b\0"),
            ("('x'):rep(3000)", "x" * 3000),
            ("('größer '):rep(200) .. 'end'", "größer " * 200 + "end"),
        ):
            got = self.caught(stacksplice.HResultError, f"error({make}, 0)")
            self.assertEqual(got.message, text)
            self.assertEqual(str(got), text)


class LuaValueTest(CrossingTest):
    """A Lua error value of every type is the same value after Lua -> C -> Python -> C -> Lua."""

    def test_round_trip(self):
        for make in (
            "nil",
            "false",
            *("0", "-1", "math.mininteger", "1.5", "1/0"),
            *("''", "'plain'", r"'a\0b\0'", r"'\xff\xfe'", "('x'):rep(100000)"),
            "{}",
            "setmetatable({}, {__tostring = function() error('no') end})",
            "setmetatable({}, {__index = function() error('no') end})",
            "{hresult = -2147467259}",
            "{hresult = 'no number'}",
            "io.stderr",
            "coroutine.create(function() end)",
            "print",
        ):
            source = f"""
                local run = ...
                _G.thrown = {make}
                local ok, caught = pcall(py, run, "error(thrown, 0)")
                return not ok and rawequal(caught, thrown) and math.type(caught) == math.type(thrown)
            """
            with self.subTest(make):
                self.assertTrue(crossing.run(source, crossing.run))


class InterruptTest(CrossingTest):
    """A Lua pcall that catches everything does not swallow what stops the program."""

    def setUp(self):
        signal.alarm(60)  # a swallowed interrupt would loop for ever

    def tearDown(self):
        signal.alarm(0)
        super().tearDown()

    def stopped(self, chunk, exc):
        got = self.caught(type(exc), chunk, raiser(exc))
        self.assertIs(got, exc)

    def test_through_a_plain_pcall(self):
        for exc in (KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()):
            self.stopped("pcall(py, ...); return 1", exc)
            self.stopped("return pcall(py, ...)", exc)
            self.stopped("while true do pcall(py, ...) end", exc)

    def test_through_a_coroutine(self):
        for exc in (KeyboardInterrupt(), SystemExit(3)):
            self.stopped(
                "local f = ...; coroutine.wrap(function() pcall(py, f) end)() while true do end", exc
            )

    def test_a_script_may_ask_for_it(self):
        self.assertEqual(
            crossing.run(
                "local ok = stacksplice.pcall(py, ...); return ok and 1 or 2", raiser(KeyboardInterrupt())
            ),
            2,
        )
        self.assertEqual(crossing.run("pcall(error, 1); return 3"), 3)


class ForeignBorderTest(CrossingTest):
    """Frames of call-backs and borders that know nothing of stacksplice appear too."""

    def functions(self, exc):
        return [frame.function for frame in stacksplice.error_info(exc).stack]

    def in_order(self, functions, *names):
        found = [functions.index(name) for name in names]
        self.assertEqual(found, sorted(found), functions)

    def test_a_plain_pcall_that_passes_the_error_on(self):
        got = self.caught(
            ValueError,
            "local f = ...; return try(function() return py(f) end)",
            raiser(ValueError("through")),
        )
        self.in_order(self.functions(got), "lua_py", "lua_try", "run")

    def test_a_border_that_makes_its_own_exception(self):
        with self.assertRaises(RuntimeError) as caught:
            crossing.run_plain(CALL, raiser(ValueError("inner text")))
        self.assertIn("inner text", str(caught.exception))
        self.assertIsNone(stacksplice.error_info(caught.exception))


# ---- What Lua sees of an exception ---------------------------------------------------------------


class Mixin:
    pass


class Derived(ValueError, Mixin):
    pass


class Deeper(Derived):
    pass


class Named(Exception):
    class Inner(KeyError):
        pass


class LuaViewTest(unittest.TestCase):
    def tearDown(self):
        self.assertFalse(crossing.slot(), "an error was left in the thread's slot")

    def ask(self, expression, exc):
        """The value of EXPRESSION, in which e is the error object of EXC in Lua."""
        return crossing.run(f"local _, e = pcall(py, ...) return {expression}", raiser(exc))

    def test_names_are_those_of_the_mro(self):
        for exc in (
            ValueError(),
            KeyError(),
            OSError(2, "x"),
            FileNotFoundError(2, "x"),
            UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
            Derived(),
            Deeper(),
            Named.Inner(),
            io.UnsupportedOperation(),
            json.JSONDecodeError("bad", "x", 0),
            ExceptionGroup("two", [ValueError()]),
            subprocess.TimeoutExpired("x", 1),
        ):
            expected = []
            for base in type(exc).__mro__[:-1]:
                plain = base.__module__ in ("builtins", "__main__")
                expected.append(base.__qualname__ if plain else f"{base.__module__}.{base.__qualname__}")
            self.assertEqual(self.ask("table.concat(e.type_names, ' ')", exc), " ".join(expected))
            self.assertEqual(self.ask("e.type_name", exc), expected[0])

    def test_isinstance_by_name(self):
        self.assertTrue(self.ask("e:isinstance('LookupError')", KeyError("k")))
        self.assertTrue(self.ask("e:isinstance('Exception')", Deeper()))
        self.assertTrue(self.ask("e:isinstance('Mixin')", Deeper()))
        self.assertTrue(self.ask("e:isinstance('JSONDecodeError')", json.JSONDecodeError("b", "x", 0)))
        self.assertTrue(
            self.ask("e:isinstance('json.decoder.JSONDecodeError')", json.JSONDecodeError("b", "x", 0))
        )
        self.assertFalse(self.ask("e:isinstance('DecodeError')", json.JSONDecodeError("b", "x", 0)))
        self.assertFalse(self.ask("e:isinstance('object')", KeyError("k")))
        self.assertFalse(self.ask("e:isinstance('')", KeyError("k")))

    def test_names_are_whole_however_long(self):
        name = "Name" * 100
        exc = type(name, (Exception,), {"__module__": "m"})("text")
        self.assertEqual(self.ask("e.type_name", exc), f"m.{name}")
        self.assertEqual(self.ask("tostring(e)", exc), f"m.{name}: text")
        self.assertTrue(self.ask(f"e:isinstance('{name}')", exc))

    def test_fields(self):
        self.assertEqual(self.ask("e.errno", FileNotFoundError(2, "none")), 2)
        self.assertEqual(self.ask("e.language .. ' ' .. e", KeyError("k")), "python KeyError: 'k'")
        self.assertEqual(self.ask("e.message", ValueError("text")), "text")
        self.assertIsNone(self.ask("e.value", ValueError()))

    def test_causes_and_contexts(self):
        exc = ValueError("effect")
        exc.__cause__ = KeyError("cause")
        self.assertEqual(self.ask("e.relation .. ' ' .. tostring(e.cause)", exc), "cause KeyError: 'cause'")

        def handling(*_):
            try:
                raise KeyError("handled")
            except KeyError:
                raise ValueError("meanwhile")  # noqa: B904

        self.assertEqual(
            crossing.run(
                "local _, e = pcall(py, ...) return e.relation .. ' ' .. tostring(e.cause)", handling
            ),
            "context KeyError: 'handled'",
        )

    def test_members_and_notes(self):
        group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])
        group.add_note("first")
        group.add_note("größer")
        self.assertEqual(self.ask("#e.errors .. ' ' .. tostring(e.errors[1])", group), "2 ValueError: a")
        self.assertEqual(self.ask("tostring(e.errors[2].errors[1])", group), "KeyError: 'b'")
        self.assertEqual(self.ask("table.concat(e.notes, ',')", group), "first,größer")
        self.assertIsNone(self.ask("e.errors[1].errors", group))

    def test_an_error_of_lua_may_have_a_cause_of_python(self):
        chunk = """
            local _, e = pcall(py, ...)
            local _, _, err = stacksplice.pcall(stacksplice.error, "effect", e)
            local _, _, other = stacksplice.pcall(error, {cause = e})
            return tostring(rawequal(err.cause, e) and rawequal(other.cause, e)) .. err.cause.message
        """
        self.assertEqual(crossing.run(chunk, raiser(ValueError("cause"))), "truecause")


class SignalTest(unittest.TestCase):
    """A real SIGINT, while Python runs below loops of pcall in Lua."""

    PROGRAM = """
import crossing, signal, sys, time
def wait(*_):
    print("ready", flush=True)
    for _ in range(6000):  # one long sleep misses a signal that arrives right before it
        time.sleep(0.01)
try:
    crossing.run(sys.argv[1], wait)
finally:
    print("cleaned", flush=True)
"""

    def interrupted(self, chunk):
        process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM, chunk],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(out, "cleaned\n")
        self.assertTrue(err.rstrip().endswith("KeyboardInterrupt"), err)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_the_process_ends_as_python_does(self):
        for chunk in (
            "while true do pcall(py, ...) end",
            "return pcall(py, ...)",
            "local f = ... while true do coroutine.wrap(function() pcall(py, f) end)() end",
            "local f = ... table.sort({1, 2, 3}, function() return pcall(py, f) end)",
            "local f = ... for _ in function() return pcall(py, f) end do end",
            "local f = ... while true do xpcall(py, function() return 1 end, f) end",
        ):
            with self.subTest(chunk):
                self.interrupted(chunk)


# ---- Clean-up that fails -------------------------------------------------------------------------


def fail_across():
    """An error of its own crosses a border here, and is handled or not."""
    crossing.run("error('of clean-up')")


class Failing:
    """Its finalizer fails, across a border; what is in the slot then is noted."""

    seen = []

    def __del__(self):
        Failing.seen.append(crossing.slot())
        fail_across()


class CleanupTest(unittest.TestCase):
    def setUp(self):
        Failing.seen = []
        self.ignored = []
        self.hook, sys.unraisablehook = sys.unraisablehook, self.note

    def note(self, unraisable):
        self.ignored.append(unraisable.exc_type)

    def tearDown(self):
        sys.unraisablehook = self.hook
        crossing.close()
        self.assertFalse(crossing.slot(), "an error was left in the thread's slot")

    def test_del_run_by_lua_while_an_error_enters_lua(self):
        """Lua's collector runs the finalizer of a Python object inside stacksplice_lua_raise."""

        def fail():
            # The next allocation of Lua makes a whole collection: that of the border's own.
            crossing.run("collectgarbage('restart')")
            self.assertEqual(Failing.seen, [])
            raise exc

        for _ in range(20):
            exc = ValueError("in flight")  # for one that Lua knows the border allocates nothing
            Failing.seen = []
            crossing.run(
                "collectgarbage() collectgarbage('incremental', 100, 1000, 24) collectgarbage('stop')"
            )
            crossing.run("garbage = ...", Failing())
            crossing.run("garbage = nil")
            chunk = "local ok, e = pcall(py, ...) ; seen = e; error(e, 0)"
            with self.assertRaises(ValueError) as caught:
                crossing.run(chunk, fail)
            self.assertIs(caught.exception, exc)
            del caught
            self.assertEqual(Failing.seen, [False])
        self.assertEqual(len(self.ignored), 20)

    def test_gc_run_by_lua_while_an_error_enters_lua(self):
        """The same with a finalizer of Lua that fails across a border to Python."""
        exc = ValueError("in flight")
        finalized = []

        def inner():
            finalized.append(crossing.slot())
            raise KeyError("of clean-up")

        def fail():
            crossing.run("collectgarbage('restart')")
            raise exc

        crossing.run("inner = ...", inner)
        for _ in range(20):
            crossing.run(
                "collectgarbage() collectgarbage('incremental', 100, 1000, 24) collectgarbage('stop')"
            )
            crossing.run("do local x = setmetatable({}, {__gc = function() py(inner) end}) end")
            with self.assertRaises(ValueError) as caught:
                crossing.run(CALL, fail)
            self.assertIs(caught.exception, exc)
            del caught
        self.assertEqual(finalized, [False] * 20)

    def test_del_of_what_a_dying_error_held(self):
        """The slot's former error was the last to hold an exception whose finalizer fails."""
        exc = ValueError("in flight")

        for _ in range(20):
            Failing.seen = []
            former = KeyError("former")
            former.held = Failing()
            stacksplice.originate(former)
            del former
            gc.collect()
            self.assertEqual(Failing.seen, [])

            def fail():
                raise exc

            # The new error displaces it on its way out of Python.
            with self.assertRaises(ValueError) as caught:
                crossing.run(CALL, fail)
            self.assertIs(caught.exception, exc)
            del caught
            self.assertEqual(Failing.seen, [False])


if __name__ == "__main__":
    unittest.main()
