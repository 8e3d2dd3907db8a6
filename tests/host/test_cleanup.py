"""Clean-up that fails while an error is in flight: finalizers of both languages, run by either."""

import gc
import sys
import unittest

import crossing
import stacksplice

CALL = "return py(...)"


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

    def test_close_that_fails_while_an_error_passes(self):
        """A __close that fails across a border, and handles it, leaves the error in flight alone."""
        exc = ValueError("in flight")
        chunk = """
            local fail, clean = ...
            local x <close> = setmetatable({}, {__close = function() pcall(py, clean) end})
            py(fail)
        """

        def fail():
            raise exc

        with self.assertRaises(ValueError) as caught:
            crossing.run(chunk, fail, fail_across)
        self.assertIs(caught.exception, exc)

    def test_a_close_that_raises_is_the_error(self):
        """As in Lua: the error of __close replaces the other one."""
        chunk = """
            local fail = ...
            local x <close> = setmetatable({}, {__close = function() error("of close", 0) end})
            py(fail)
        """

        def fail():
            raise ValueError("in flight")

        with self.assertRaises(stacksplice.HResultError) as caught:
            crossing.run(chunk, fail)
        self.assertEqual(str(caught.exception), "of close")

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
