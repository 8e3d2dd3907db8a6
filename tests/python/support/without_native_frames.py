"""What Python's frames are like in a build that knows no native frames."""

import unittest

import stacksplice


def inner():
    return stacksplice.capture()


def outer():
    return inner()


class WithoutNativeFrames(unittest.TestCase):
    def test_a_gap_and_then_the_python_frames(self):
        gap, *frames = outer()
        self.assertEqual((gap.kind, gap.language), ("gap", "python"))
        self.assertIn("without native frames", gap.reason)
        names = [f.function.rpartition(".")[2] for f in frames[:3]]
        self.assertEqual(names, ["inner", "outer", "test_a_gap_and_then_the_python_frames"])
        self.assertEqual({f.kind for f in frames}, {"script"})
        self.assertEqual(frames[0].line, inner.__code__.co_firstlineno + 1)

    def test_frames_of_several_activations_of_the_loop_are_in_order(self):
        def key(_):
            return stacks.append(inner())

        stacks = []
        list(map(lambda x: sorted([x], key=key), [1]))  # two calls out of C
        names = [f.function.rpartition(".")[2] for f in stacks[0] if f.kind == "script"]
        self.assertEqual(
            names[:4],
            ["inner", "key", "<lambda>", "test_frames_of_several_activations_of_the_loop_are_in_order"],
        )

    def test_an_exception_has_its_traceback_and_the_frames_outward(self):
        try:
            raise KeyError("k")
        except KeyError as exc:
            stack = stacksplice.originate(exc).stack
        self.assertIsNotNone(stacksplice.take_error())
        first = next(f for f in stack if f.kind == "script").function.rpartition(".")[2]
        self.assertEqual(first, "test_an_exception_has_its_traceback_and_the_frames_outward")
        self.assertTrue(any("without native frames" in (f.reason or "") for f in stack))

    def test_only_what_was_stored_is_said_to_be_raised_again(self):
        def fails(_):
            raise KeyError("k")

        def by_c():
            return list(map(lambda x: sorted([x], key=fails), [1]))

        def later():
            raise kept

        def shown():
            stack = stacksplice.error_info(kept).stack
            return [f.function.rpartition(".")[2] if f.kind == "script" else f.reason for f in stack]

        kept = None
        try:
            by_c()
        except KeyError as exc:
            kept = exc
        stacksplice.originate(kept)
        stored = "stored exception re-raised here"
        self.assertEqual(
            [name for name in shown() if "native" not in name][:3], ["fails", "<lambda>", "by_c"]
        )
        self.assertNotIn(stored, shown())
        try:
            later()
        except KeyError:
            pass
        stacksplice.format_exception(kept)
        self.assertEqual(shown().count(stored), 1)
        self.assertIsNotNone(stacksplice.take_error())


if __name__ == "__main__":
    unittest.main()
