"""The example host on its own data: what it prints, what it writes, how it ends."""

import collections
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

# origin, HRESULT and a part of the message: how often, and which languages received the error
EXPECTED = {
    ("python decimal.InvalidOperation", 0x80004005, "ConversionSyntax"): (3, ["lua", "python"]),
    ("python KeyError", 0x8000000B, "no rate for RON"): (2, ["lua", "python"]),
    ("python KeyError", 0x8000000B, "BOO-1O2"): (2, ["lua", "python"]),
    ("python ValueError", 0x80070057, "invalid literal for int"): (6, ["lua", "python"]),
    ("lua string", 0x80004005, "attempt to index a nil value"): (3, ["python"]),
    ("lua string", 0x80004005, "attempt to compare nil with number"): (2, ["python"]),
    ("lua table", 0xA0010001, "coupon WINTER20 expired"): (3, ["python"]),
    ("lua table", 0xA0010002, "no parcel may weigh more"): (3, ["lua", "python"]),
    ("native", 0x80070216, "too large to be exact"): (3, ["lua", "python"]),
    ("native", 0x80070490, "XBT is no currency"): (2, ["lua", "python"]),
}
FAILED = sum(count for count, _ in EXPECTED.values())


def expected_key(record):
    for key in EXPECTED:
        origin, hresult, text = key
        error = record["error"]
        same = (support.origin_of(record), int(error["hresult"], 16)) == (origin, hresult)
        if same and text in error["message"]:
            return key
    raise AssertionError(
        f"unexpected: {support.origin_of(record)} {record['error']['hresult']} {record['error']['message']}"
    )


class HostTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process, cls.records = support.run_with_json()

    def find(self, text):
        return [r for r in self.records if text in r["error"]["message"]]

    def test_every_bad_order_is_reported_once(self):
        self.assertEqual(self.process.returncode, 1, self.process.stderr)
        counts = collections.Counter(expected_key(record) for record in self.records)
        self.assertEqual(counts, {key: count for key, (count, _) in EXPECTED.items()})
        orders = [record["order"] for record in self.records]
        self.assertEqual(len(set(orders)), FAILED)
        for order in orders:
            self.assertEqual(self.process.stdout.count(f"order {order} of "), 1)

    def test_each_language_that_received_an_error_is_one_node(self):
        for record in self.records:
            languages = [node["language"] for node in record["error"]["propagation"]]
            self.assertEqual(languages, EXPECTED[expected_key(record)][1], record["order"])

    def test_the_summary_counts_what_happened(self):
        out = self.process.stdout
        with open(support.SOURCE / "examples/host/data/orders.csv", encoding="utf-8") as file:
            total = sum(1 for _ in file) - 1
        self.assertIn(f"\n{total - FAILED} orders priced, {FAILED} failed\n", out)
        self.assertIn("     6  HRESULT 0x80070057\n", out)
        self.assertIn("     8  HRESULT 0x80004005\n", out)
        self.assertRegex(out, r"\n  JPY \d+\n")
        self.assertRegex(out, r"\n  KWD \d+\.\d{3}\n")
        self.assertIn("The reports as data: ", self.process.stdout)

    def test_two_whole_reports_and_a_line_for_each_other(self):
        process, records = support.run_with_json("--whole", "2")
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertEqual([r["order"] for r in records], [r["order"] for r in self.records])
        whole, brief = process.stdout.split("\n---- the other failed orders, one line each ----\n")
        self.assertEqual(whole.count(" could not be priced ----\n"), 2)
        self.assertTrue(self.process.stdout.startswith(whole.split("Stack of thread")[0]))
        lines = brief.split("\n\n")[0].splitlines()
        self.assertEqual(len(lines), FAILED - 2)
        for line, record in zip(lines, records[2:]):
            self.assertTrue(line.startswith(f"order {record['order']} of "), line)
            self.assertIn(record["error"]["message"].splitlines()[0], line)

    def test_nothing_is_left_behind(self):
        self.assertEqual(self.process.stderr, "")

    def test_every_script_frame_has_its_file_and_line(self):
        for record in self.records:
            for frame in record["error"]["stack"]:
                if not support.is_script(frame):
                    continue
                path = frame["file"].lstrip("@")
                with open(path, encoding="utf-8") as file:
                    lines = file.readlines()
                self.assertIn(frame["line"], range(1, len(lines) + 1), frame)


class CommandLineTest(unittest.TestCase):
    def cannot_run(self, *options, **environment):
        process = support.run_host(*options, **environment)
        self.assertEqual(process.returncode, 2, process.stdout + process.stderr)
        return process.stderr

    def test_a_number_that_is_none(self):
        for number in ("", "-1", "2x", "99999999999"):
            self.assertIn("--whole needs a number", self.cannot_run("--whole", number))

    def test_help(self):
        process = support.run_host("--help")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("--orders FILE", process.stdout)

    def test_bad_options(self):
        self.assertIn("usage:", self.cannot_run("--colour"))
        self.assertIn("usage:", self.cannot_run("--json"))
        self.assertIn("surplus.csv", self.cannot_run("--orders", "x.csv", "surplus.csv"))

    def test_a_missing_file_is_named(self):
        self.assertIn("missing.csv", self.cannot_run("--orders", "missing.csv"))
        self.assertIn("no/such/folder", self.cannot_run("--scripts", "no/such/folder"))
        self.assertIn("/no/such/file", self.cannot_run("--json", "/no/such/file"))

    def test_a_package_that_cannot_be_imported(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "stacksplice"))
            with open(os.path.join(folder, "stacksplice", "__init__.py"), "w") as file:
                file.write("raise ImportError('broken on purpose')\n")
            message = self.cannot_run(PYTHONPATH=folder)
        self.assertIn("broken on purpose", message)
        self.assertIn("PYTHONPATH", message)

    def test_a_file_of_good_orders_ends_with_0(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
            file.write(
                "order,date,customer,country,currency,service,coupons,items\n"
                'O-1,2025-01-02,"Jürgen ""J"" Öz",DE,EUR,express,FRIENDS5,BOO-101*1\n'
            )
            file.flush()
            process, records = support.run_with_json("--orders", file.name)
        self.assertEqual((process.returncode, records), (0, []))
        # (34.90 less 5 % and 7 % tax) + 4.90 + 0.60 for the parcel of 1500 g
        self.assertIn("  EUR 40.97\n", process.stdout)

    def open_for(self, process, pipe):
        """The writing end of PIPE, once PROCESS has opened the other one."""
        while process.poll() is None:
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                time.sleep(0.01)
        self.fail(process.communicate()[1])

    def test_an_interrupt_stops_it(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "orders.csv")
            os.mkfifo(pipe)
            with subprocess.Popen(
                [support.HOST, "--orders", pipe], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
            ) as process:
                writer = self.open_for(process, pipe)  # then the host waits for a line
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
                os.close(writer)
        self.assertEqual(process.returncode, 2)
        self.assertIn("KeyboardInterrupt", errors)

    def test_colours_and_progress_only_on_a_terminal(self):
        def output_on_terminal(**environment):
            main, other = pty.openpty()
            pid = os.fork()
            if pid == 0:
                for descriptor in (1, 2):
                    os.dup2(other, descriptor)
                os.execve(support.HOST, [support.HOST], {**os.environ, **environment})
            os.close(other)
            chunks = []
            while True:
                try:
                    chunk = os.read(main, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                chunks.append(chunk)
            os.close(main)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 1)
            return b"".join(chunks).decode()

        os.environ.pop("NO_COLOR", None)
        colored = output_on_terminal(TERM="xterm")
        self.assertIn("\x1b[", colored)
        self.assertTrue(re.search(r"\r\d+ orders priced, \d+ failed", colored))
        self.assertNotIn("\x1b[3", output_on_terminal(TERM="xterm", NO_COLOR="1"))
        plain = support.run_host()
        self.assertNotIn("\x1b", plain.stdout + plain.stderr)
        self.assertNotIn("\r", plain.stdout + plain.stderr)


class FindLibraryTest(unittest.TestCase):
    """What the build says about an interpreter that it cannot embed."""

    def find(self, **variables):
        path = support.SOURCE / "examples" / "host" / "find_libpython.py"
        code = (
            "import runpy, sys, sysconfig\n"
            f"sysconfig.get_config_vars().update({variables!r})\n"
            f"sys.exit(runpy.run_path({str(path)!r})['main']())\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )

    def test_this_one_can_be_embedded(self):
        process = self.find()
        include, library, *_ = process.stdout.strip().split(";")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(os.path.isfile(os.path.join(include, "Python.h")))
        self.assertTrue(os.path.isfile(library))

    def test_neither_shared_nor_static(self):
        process = self.find(LIBDIR="/nowhere", LIBPL="/nowhere")
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("cannot be embedded", process.stderr)
        self.assertIn("STACKSPLICE_PYTHON", process.stderr)


if __name__ == "__main__":
    unittest.main()
