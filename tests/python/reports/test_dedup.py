"""stacksplice.logging.DedupHandler and install(dedup=...): one report and a count of equal errors."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import time
import traceback

import pytest
import stacksplice
import stacksplice.logging
from building import command, ran
from raising import boom, caught

pytestmark = pytest.mark.any_python

PLAIN = "Traceback (most recent call last):"


class Kept(logging.Handler):
    """Keeps the records, and writes them as lines of JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.setFormatter(stacksplice.logging.JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def counts(self) -> list[int]:
        """Of each record how many errors it tells of, those that are whole by 0."""
        return [
            record.stacksplice["count"] if hasattr(record, "stacksplice") else 0 for record in self.records
        ]


def logger_of(handler: logging.Handler, name: str = "shop") -> logging.Logger:
    logger = logging.Logger(name)
    logger.addHandler(handler)
    return logger


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def dedup(kept):
    handler = stacksplice.logging.DedupHandler(kept)
    yield handler
    handler.close()


def plain(message: str) -> None:
    raise ValueError(message)


@pytest.fixture(params=["plain", "border"])
def fails(request):
    """Raises in Python alone, or below a border."""
    if request.param == "plain":
        return plain
    border = request.getfixturevalue("border")
    return lambda message: border.call(plain, message)


def storm(logger: logging.Logger, fails, times: int) -> None:
    for number in range(times):
        try:
            fails(f"order {number}")
        except ValueError:
            logger.exception("order %d failed", number)


def test_the_first_passes_and_the_others_are_counted(kept, dedup, fails):
    logger = logger_of(dedup)

    for _ in range(2):  # the second time in the same window, from 0 again
        storm(logger, fails, 8)
        dedup.flush()
    assert kept.counts() == [0, 7, 8]
    first, count, _ = kept.records

    assert first.exc_info[1].args == ("order 0",) and first.getMessage() == "order 0 failed"
    assert (count.name, count.levelno, count.lineno) == (first.name, first.levelno, first.lineno)
    told = count.stacksplice
    assert (told["count"], told["type"], told["message"]) == (7, "ValueError", "order 7")
    assert told["fingerprint"] == stacksplice._stacksplice._described(first.exc_info[1]).fingerprint
    assert 0 < told["first_ns"] <= told["last_ns"] < time.time_ns()
    assert re.fullmatch(
        rf"\.\.\. 7 more of {told['fingerprint']}, 20.* UTC, the last: ValueError: order 7",
        count.getMessage(),
    )


def test_nothing_of_the_exception_changes(dedup):
    exc = caught(plain, "x")
    logger = logger_of(dedup)
    before = "".join(traceback.format_exception(exc))

    for _ in range(2):
        logger.error("it failed", exc_info=exc)

    assert stacksplice.error_info(exc) is None
    assert "".join(traceback.format_exception(exc)) == before


def test_other_errors_and_records_pass(kept, dedup):
    logger = logger_of(dedup)

    for exc in (caught(plain, "x"), caught(boom, KeyError("x")), caught(boom, ValueError("x"))):
        logger.error("it failed", exc_info=exc)
    for _ in range(2):
        logger.error("no exception")
        logger.exception("none is handled")
    dedup.flush()

    assert kept.counts() == [0] * 7


def test_after_the_window_one_is_whole_again(kept):
    dedup = stacksplice.logging.DedupHandler(kept, window=0.2)
    logger = logger_of(dedup)

    storm(logger, plain, 3)
    time.sleep(0.3)
    logger.info("something else tells what was counted")
    assert kept.counts() == [0, 2, 0]
    storm(logger, plain, 2)
    dedup.close()

    assert kept.counts() == [0, 2, 0, 0, 1]


def test_level_and_filters_of_the_handler(kept, dedup):
    logger = logger_of(dedup)
    kept.setLevel(logging.ERROR)
    kept.addFilter(lambda record: "secret" not in record.getMessage())

    exc = caught(plain, "x")
    logger.warning("it failed", exc_info=exc)
    logger.error("secret")
    assert kept.records == []
    logger.error("it failed", exc_info=exc)

    assert kept.counts() == [0]


def test_many_errors_pass(kept, dedup):
    logger = logger_of(dedup)

    # Each has its own type, and so its fingerprint
    for _ in range(2):
        for number in range(300):
            logger.error("it failed", exc_info=caught(boom, type(f"Error{number}", (Exception,), {})()))
    dedup.flush()

    counts = kept.counts()
    assert counts.count(0) + sum(counts) == 600
    assert counts.count(1) == 256


def test_top_counts_them_in_a_log(tmp_path, border):
    log = tmp_path / "errors.jsonl"
    file = logging.FileHandler(log, encoding="utf-8")
    file.setFormatter(stacksplice.logging.JsonFormatter())
    dedup = stacksplice.logging.DedupHandler(file)

    storm(logger_of(dedup), lambda message: border.call(plain, message), 8)
    dedup.close()
    file.close()

    first, count = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    assert PLAIN in first["error.stack_trace"]
    assert count["error.message"] == "order 7" and count["error.type"] == "ValueError"
    assert count["error.code"] == first["error.code"]
    (group,) = map(json.loads, command("top", "--json", str(log)).stdout.splitlines())
    assert group["count"] == 8 and group["error"]["stack"]
    assert "... 7 more of" in command("show", str(log)).stdout


def test_each_process_tells_its_own(kept, dedup):
    logger = logger_of(dedup)
    storm(logger, plain, 5)
    read, write = os.pipe()

    child = os.fork()
    if not child:
        try:
            kept.records.clear()
            storm(logger, plain, 4)
            dedup.flush()
            os.write(write, json.dumps(kept.counts()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    in_child = json.loads(os.read(read, 1000))
    os.close(read)
    dedup.flush()

    assert in_child == [0, 3]
    assert kept.counts() == [0, 4]


@pytest.mark.parametrize(
    ("window", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (2**32, ValueError),
        (True, TypeError),
        ("60", TypeError),
        (None, TypeError),
    ],
)
def test_windows(window, error):
    with pytest.raises(error, match="window must be"):
        stacksplice.logging.DedupHandler(logging.NullHandler(), window)
    if window is not None:
        with pytest.raises(error, match="dedup must be"):
            stacksplice.install(dedup=window)


def test_a_handler_is_needed():
    with pytest.raises(TypeError, match="handler must be a logging.Handler, not StringIO"):
        stacksplice.logging.DedupHandler(io.StringIO())


HOOKS = """
import asyncio, sys, threading
import stacksplice

stacksplice.install(dedup=60)

def plain(number):
    raise ValueError(f"order {number}")

class Dropped:
    def __init__(self, number):
        self.number = number
    def __del__(self):
        raise KeyError(self.number)

async def fail(number):
    raise OSError(f"order {number}")

async def main(number):
    task = asyncio.create_task(fail(number))
    await asyncio.sleep(0)

def threads(times):
    for number in range(times):
        thread = threading.Thread(target=plain, args=(number,))
        thread.start()
        thread.join()

def unraisable(times):
    for number in range(times):
        Dropped(number)

def tasks(times):
    for number in range(times):
        asyncio.run(main(number))
"""


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, "-c", program)


@pytest.mark.parametrize(
    ("part", "name", "last"),
    [("threads", "ValueError", "order 4"), ("unraisable", "KeyError", "4"), ("tasks", "OSError", "order 4")],
)
def test_hooks(part, name, last):
    run = run_python(f"{HOOKS}\n{part}(5)\nprint('end', file=sys.stderr)\n")

    before, after = run.stderr.split("end\n")
    assert before.count(PLAIN) == 1, run.stderr
    assert re.fullmatch(rf"\.\.\. 4 more of [0-9a-f]{{32}}, .*, the last: {name}: .*{last}.*\n", after)


def test_uninstall_tells_them():
    run = run_python(
        f"{HOOKS}\nthreads(3)\nstacksplice.uninstall()\nprint('end', file=sys.stderr)\nthreads(2)\n"
    )

    before, after = run.stderr.split("end\n")
    assert before.count(PLAIN) == 1 and "... 2 more of" in before
    assert after.count(PLAIN) == 2 and "more of" not in after


def test_hooks_of_others_are_called_for_each():
    run = run_python(
        "import threading\ncalls = []\nthreading.excepthook = calls.append\n"
        f"{HOOKS}\nthreads(3)\nprint(len(calls))\n"
    )

    assert run.stdout == "3\n"


def test_each_is_shown_at_the_prompt():
    run = run_python(f"{HOOKS}\nsys.ps1 = '>>> '\nthreads(3)\n")

    assert run.stderr.count(PLAIN) == 3 and "more of" not in run.stderr


def test_a_child_tells_its_own():
    run = run_python(
        f"{HOOKS}\nimport os\nthreads(3)\nif not os.fork():\n    threads(2)\nelse:\n    os.wait()\n"
    )

    assert sorted(re.findall(r"\.\.\. (\d+) more of", run.stderr)) == ["1", "2"]
    assert run.stderr.count(PLAIN) == 2
