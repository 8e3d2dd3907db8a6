"""What a Lua script can ask of a Python exception, and how an interrupt ends the process."""

import io
import json
import signal
import subprocess
import sys
import unittest

import crossing


class Mixin:
    pass


class Derived(ValueError, Mixin):
    pass


class Deeper(Derived):
    pass


class Named(Exception):
    class Inner(KeyError):
        pass


def raiser(exc):
    def fail(*_):
        raise exc

    return fail


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

    def test_the_cause_reaches_python(self):
        with self.assertRaises(Exception) as caught:
            crossing.run("local _, e = pcall(py, ...) error({cause = e})", raiser(ValueError("cause")))
        import stacksplice

        info = stacksplice.error_info(caught.exception)
        self.assertEqual(info.transformed.message, "cause")


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

    def test_exit_has_its_status(self):
        for chunk in ("while true do pcall(py, ...) end", "return pcall(py, ...)"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"import crossing, sys; crossing.run({chunk!r}, lambda *_: sys.exit(7))",
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "", ""))


if __name__ == "__main__":
    unittest.main()
