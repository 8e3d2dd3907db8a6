"""Every stack of the example host against the truth, which oracle.c logs at each raise.

The truth of one raise is: `calls`, the log of all calls in progress (Python, Lua and C functions,
with the line where each script frame stands); `getframe`, the chain of sys._getframe; `native`, the
frames of libgcc's _Unwind_Backtrace.  All lists are innermost first.
"""

import json
import os
import subprocess
import tempfile
import unittest

import support

ORACLE = os.environ["STACKSPLICE_ORACLE"]
EVAL = "_PyEval_EvalFrameDefault"
TEST = unittest.TestCase()


def offset_of(function):
    """Where the host program has a function that it does not export."""
    listing = subprocess.run(["nm", support.HOST], capture_output=True, text=True, check=True)
    return next(line.split()[0] for line in listing.stdout.splitlines() if line.split()[-1] == function)


def read_log():
    """Pairs of (the raises of one bad order, oldest first; its report)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "oracle.log")
        preload = os.path.join(folder, "oracle.so")  # LD_PRELOAD takes no path with a space
        os.symlink(ORACLE, preload)
        process, records = support.run_with_json(
            LD_PRELOAD=preload, ORACLE_LOG=path, ORACLE_HANDLER=offset_of("stacksplice_lua_handler")
        )
        if process.returncode != 1:
            raise AssertionError(process.stderr)
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
    pairs, raises = [], []
    for event in events:
        if event["event"] == "raise":
            raises.append(event)
        elif event["event"] == "order":
            raises = []
        else:
            pairs.append((raises, event))
            raises = []
    return pairs, records


def origin_of(raises, record):
    """The first raise that is the one the report is about, not one that a script handled."""
    language = support.origin_of(record).split()[0]
    for event in raises:
        if event["language"] != language:
            continue
        if language == "python" and not record["error"]["type"].endswith(event["type"]):
            continue
        return event
    raise AssertionError(f"{record['order']}: the oracle saw no raise in {language}")


# ---- What a frame is -----------------------------------------------------------------------------


def is_script(element):
    """A frame of a script; what stands for a C function without native frame is none."""
    return element["kind"] in ("python", "lua") and element["file"] not in (None, "=[C]", "[C]")


def place(element):
    return element["kind"], element["line"], (element["file"] or "").lstrip("@")


def name(frame):
    return frame["symbol"] or f"{os.path.basename(frame['module'])}:{frame['start']:#x}"


def may_be_hidden(frame):
    """The interpreters' loops and what only they call, this library, and the oracle."""
    module = os.path.basename(frame["module"] or "")
    symbol = frame["symbol"] or ""
    if symbol == EVAL or symbol.startswith("stacksplice_lua_"):
        return True
    if "libstacksplice." in module or module.startswith("_stacksplice.") or "oracle" in module:
        return True
    # liblua exports its API only; what has no symbol is its inside.
    return "liblua" in module and not symbol


def live_parts(truth, report):
    """The native frames of both that are not below a gap: of the report those outside of its gap;
    of the truth those from the function on that called what was unwound."""
    stack, native = report["stack"], truth["native"]
    gaps = [i for i, element in enumerate(stack) if element["kind"] == "gap"]
    if not gaps:
        return [e for e in stack if e["kind"] == "native"], native
    unwound = sum(map(is_script, stack[: gaps[-1]]))
    scripts = [i for i, call in enumerate(truth["calls"]) if is_script(call)]
    border = next(call["start"] for call in truth["calls"][scripts[unwound - 1] :] if call["kind"] == "c")
    # The same function can stand further in as well: the border is the outermost before a script.
    further_out = [call.get("start") for call in truth["calls"][scripts[unwound - 1] :]].count(border)
    position = [i for i, frame in enumerate(native) if frame["start"] == border][-further_out]
    return [e for e in stack[gaps[-1] :] if e["kind"] == "native"], native[position:]


# ---- The checks ----------------------------------------------------------------------------------


def check_oracle(truth, _report):
    """Its call log against the interpreter's own chain of frames."""
    logged = [call for call in truth["calls"] if call["kind"] == "python"]
    TEST.assertEqual(logged, truth["getframe"])


def check_scripts(truth, report):
    """Script frames: language, file, line, number and order."""
    TEST.assertEqual(
        [place(e) for e in report["stack"] if is_script(e)],
        [place(call) for call in truth["calls"] if is_script(call)],
    )


def check_python_names(truth, report):
    TEST.assertEqual(
        [e["function"] for e in report["stack"] if e["kind"] == "python"],
        [call["function"] for call in truth["getframe"]],
    )


def check_gaps(_truth, report):
    """The only reason for a gap is a stack that was unwound, and inside of it nothing is native."""
    gaps = [i for i, element in enumerate(report["stack"]) if element["kind"] == "gap"]
    TEST.assertLessEqual(len(gaps), 1)
    for i in gaps:
        TEST.assertEqual(report["stack"][i]["reason"], "frames here had already returned")
        TEST.assertEqual([e for e in report["stack"][:i] if e["kind"] == "native"], [])


def check_native(truth, report):
    """Function by function; all but the innermost stand at the same call, too."""
    got, expected = live_parts(truth, report)
    got = [frame for frame in got if not may_be_hidden(frame)]
    expected = [frame for frame in expected if not may_be_hidden(frame)]
    TEST.assertEqual([name(frame) for frame in got], [name(frame) for frame in expected])
    TEST.assertEqual([frame["ip"] for frame in got[1:]], [frame["ip"] for frame in expected[1:]])


def check_alternation(truth, report):
    """Script frames and the C functions that scripts called, in one list."""
    _, live = live_parts(truth, report)
    live = {frame["start"] for frame in live if "oracle" not in frame["module"]}
    called = {call["start"] for call in truth["calls"] if call["kind"] == "c"}

    def in_order(elements):
        return [
            e["start"] if "start" in e else place(e)
            for e in elements
            if is_script(e) or e.get("start") in called & live
        ]

    TEST.assertEqual(in_order(report["stack"]), in_order(truth["calls"]))


def check_loops(truth, report):
    """Python's interpreter loops are replaced by their frames."""
    shown = {e["symbol"] for e in report["stack"] if e["kind"] == "native"}
    TEST.assertNotIn(EVAL, shown)
    TEST.assertIn(EVAL, {frame["symbol"] for frame in truth["native"]})


def check_chain(truth, report):
    """Each propagation node is the outer part of the truth; newer ones, which come first, stand
    further out."""
    expected = [place(call) for call in truth["calls"] if is_script(call)]
    native = [name(frame) for frame in truth["native"] if not may_be_hidden(frame)]
    lengths = []
    for node in report["chain"]:
        shown = [name(e) for e in node if e["kind"] == "native" and not may_be_hidden(e)]
        TEST.assertEqual(shown, native[-len(shown) :])
        got = [place(element) for element in node if is_script(element)]
        TEST.assertGreater(len(got), 0)
        TEST.assertEqual(got, expected[-len(got) :])
        lengths.append(len(got))
    TEST.assertEqual(lengths, sorted(lengths))
    TEST.assertGreater(len(lengths), 0)


CHECKS = [
    check_oracle,
    check_scripts,
    check_python_names,
    check_gaps,
    check_native,
    check_alternation,
    check_loops,
    check_chain,
]


class OracleTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        pairs, records = read_log()
        if not len(pairs) == len(records) > 20:
            raise AssertionError(f"{len(pairs)} logged, {len(records)} reported")
        cls.cases = [
            (origin_of(raises, record), report, record) for (raises, report), record in zip(pairs, records)
        ]

    def test_reports_equal_the_truth(self):
        for check in CHECKS:
            for truth, report, record in self.cases:
                with self.subTest(
                    check=check.__name__, order=record["order"], message=record["error"]["message"]
                ):
                    check(truth, report)

    def test_the_checks_notice_a_wrong_report(self):
        """One frame missing, two script frames exchanged, a script and a C function exchanged."""
        for truth, report, record in self.cases[::5]:
            called = {call["start"] for call in truth["calls"] if call["kind"] == "c"}
            stack = [
                e
                for e in report["stack"]
                if e["kind"] == "gap" or is_script(e) or e["kind"] == "native" and not may_be_hidden(e)
            ]
            self.assertFalse(self.wrong(truth, report, stack))
            for i, element in enumerate(stack):
                with self.subTest(order=record["order"], index=i, element=element):
                    if element["kind"] != "gap":
                        self.assertTrue(self.wrong(truth, report, stack[:i] + stack[i + 1 :]))
                    pair = stack[i : i + 2]
                    if len(pair) == 2 and all(is_script(e) or e.get("start") in called for e in pair):
                        swapped = stack[:i] + pair[::-1] + stack[i + 2 :]
                        self.assertTrue(self.wrong(truth, report, swapped))

    @staticmethod
    def wrong(truth, report, stack):
        for check in CHECKS:
            try:
                check(truth, {**report, "stack": stack})
            except (AssertionError, StopIteration, IndexError):
                return True
        return False


if __name__ == "__main__":
    unittest.main()
