"""JSON reports are strict JSON with the documented members: report_json_test.py [EMULATOR...] PROGRAM."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from gap_reasons import RETURNED  # noqa: E402

COMMAND = []  # an emulator, if one is needed, and the program
PROGRAM = ""
MEMBERS = [
    "schema",
    "hresult",
    "hresult_signed",
    "symbol",
    "description",
    "message",
    "type",
    "language",
    "notes",
    "thread_id",
    "reference",
    "fingerprint",
    "loose_fingerprint",
    "stack",
    "frames_left_out",
    "propagation",
    "exceptions",
    "exceptions_left_out",
    "transformed",
    "transformed_left_out",
    "transformed_above",
]


def refuse(name):
    raise ValueError(name)


def no_duplicates(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


class JsonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run = subprocess.run(COMMAND, capture_output=True, check=True, timeout=120)
        lines = run.stdout.decode("utf-8").split("\n")
        assert lines.pop() == ""
        cls.odd, cls.kinds, cls.deep = (
            json.loads(line, parse_constant=refuse, object_pairs_hook=no_duplicates) for line in lines
        )

    def test_members_and_their_order(self):
        for report in (self.odd, self.kinds, self.deep):
            self.assertEqual(list(report), MEMBERS)
            self.assertEqual(report["schema"], "stacksplice-error/1")
            self.assertRegex(report["fingerprint"], "^[0-9a-f]{32}$")

    def test_every_byte(self):
        message = self.odd["message"]
        self.assertEqual(message[:128], bytes(range(128)).decode("ascii"))
        self.assertEqual(set(message[128:]), {"\ufffd"})
        self.assertEqual(self.odd["type"], '"Odd\\Type"')
        self.assertEqual(self.odd["description"], "Unspecified error")

    def test_codes(self):
        self.assertEqual(self.kinds["hresult"], "0x80070057")
        self.assertEqual(self.kinds["hresult_signed"], -2147024809)
        self.assertEqual(self.kinds["symbol"], "E_INVALIDARG")
        self.assertEqual(self.kinds["message"], "m\xe9ssage \U0001f600")
        self.assertEqual(self.kinds["language"], "python")

    def test_frames(self):
        script, gap, native, nowhere = self.kinds["stack"]
        address = script.pop("address")
        self.assertRegex(address, "^0x5353[0-9a-f]{12}$")
        self.assertEqual(
            script,
            {
                "kind": "script",
                "trust": "traceback",
                "language": "python",
                "function": 'f\ufffd"',
                "file": "/a/x.py",
                "line": 1,
                "end_line": 2,
                "column": 3,
                "end_column": 4,
                "interpreter": "sub-1",
            },
        )
        self.assertEqual((gap["kind"], gap["reason"]), ("gap", RETURNED))
        self.assertEqual(native["kind"], "native")
        self.assertEqual(native["module"], os.path.realpath(PROGRAM))
        self.assertRegex(native["build_id"], "^([0-9a-f]{2})+$")
        self.assertEqual(int(native["address"], 16) % 4096, native["module_offset"] % 4096)
        self.assertEqual(
            nowhere,
            {"kind": "native", "trust": "exact", "language": "native", "inlined": False, "address": "0x10"},
        )

    def test_chain_and_causes(self):
        (node,) = self.kinds["propagation"]
        self.assertEqual(node["language"], "c++")
        self.assertEqual(node["stack"][0]["language"], "lua")
        self.assertEqual(node["stack"][0]["function"], "g")
        (cause,) = self.kinds["transformed"]
        self.assertEqual(cause["hresult"], "0x8000000b")
        self.assertEqual(cause["message"], "the cause")
        self.assertNotIn("schema", cause)

    def test_left_out_frames_are_told(self):
        self.assertEqual(len(self.deep["stack"]), 512)
        self.assertEqual(self.deep["frames_left_out"], 2000 - 511)
        gap = self.deep["stack"][256]
        self.assertEqual(gap["reason"], "1489 frames omitted here: stack longer than the limit")
        self.assertEqual([f["kind"] for f in self.deep["stack"]].count("gap"), 1)


if __name__ == "__main__":
    COMMAND = sys.argv[1:]
    PROGRAM = COMMAND[-1]
    del sys.argv[1:]
    unittest.main()
