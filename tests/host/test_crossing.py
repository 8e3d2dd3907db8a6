"""Errors that cross between Python and Lua in both directions: nothing about them is lost."""

import asyncio
import signal
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

    def test_a_handled_error_does_not_come_back(self):
        def fail_and_handle():
            try:
                crossing.run("error('handled')")
            except stacksplice.HResultError:
                pass
            raise KeyError("new")

        got = self.caught(KeyError, CALL, fail_and_handle)
        self.assertEqual(got.args, ("new",))

    def test_lua_that_handles_a_python_error_goes_on(self):
        self.assertEqual(
            crossing.run("local ok, e = pcall(py, ...); return not ok and 7", raiser(OSError())), 7
        )


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

    def test_python_sees_the_text_and_the_hresult(self):
        got = self.caught(stacksplice.HResultError, "error({hresult = 0xA0010001})")
        self.assertEqual(got.hresult, 0xA0010001 - (1 << 32))
        got = self.caught(stacksplice.HResultError, "error('text', 0)")
        self.assertEqual((str(got), got.hresult), ("text", -2147467259))


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


if __name__ == "__main__":
    unittest.main()
