"""Every native frame of real work inside CPython equals what libgcc's unwinder says of it.

Compared are address, stack pointer, function start, whether a signal interrupted it and the six
callee-saved registers; the plain list of addresses too.
"""

import contextlib
import platform
import subprocess
import sys
from pathlib import Path

import extension
import pytest

# A Python that was compiled without one of its own modules has not all that works there.
workloads = pytest.importorskip("workloads", exc_type=ImportError)

HERE = Path(__file__).resolve().parent
CORE_TESTS = HERE.parent / "core"
WANTED = 520_000
WORKLOADS = (*workloads.IN_ANY_THREAD, workloads.signals, workloads.threads)


@pytest.fixture(scope="session")
def proof_path(tmp_path_factory):
    sources = [HERE / "proof.c", HERE / "stepping.c", CORE_TESTS / "unwind_probe.c"]
    folder = tmp_path_factory.mktemp("proof")
    return extension.compile_extension(folder, "proof", sources, f"-I{CORE_TESTS}")


@pytest.fixture(scope="session")
def proof(proof_path):
    return extension.load_extension(proof_path)


@contextlib.contextmanager
def comparing(proof):
    proof.start()
    try:
        yield
    finally:
        proof.stop()


def repeat(proof, work, frames):
    """How many frames were compared, at least FRAMES, while WORK was done again and again."""
    before = proof.results()[0]
    while proof.results()[0] < before + frames:
        if work is workloads.threads:
            work(proof.start)
        else:
            with comparing(proof):
                work()
    return proof.results()[0] - before


def check(proof):
    frames, _, differences, first = proof.results()
    assert differences == 0, f"{differences} differences in {frames} frames, the first: {first}"


def test_every_frame_of_real_work_equals_libgccs(proof, capsys):
    total = 0
    lines = []
    for work in WORKLOADS:
        frames = repeat(proof, work, WANTED // len(WORKLOADS))
        total += frames
        lines.append(f"{work.__name__:28} {frames:8} frames")
        check(proof)
    with capsys.disabled():
        print("", *lines, f"{'together':28} {total:8} frames, 0 differences", sep="\n")
    assert total >= WANTED


# In a child, which does not load the binding: a handler may interrupt an interpreter anywhere.
INTERRUPTED = """
import sys
sys.path[:0] = sys.argv[1:]
import proof, workloads
proof.interrupt(1000)
while proof.results()[1] < 1000:
    workloads.without_callbacks()
    for work in workloads.IN_ANY_THREAD:
        work()
proof.interrupt(0)
print(*proof.results())
"""


def test_every_frame_below_a_signal_equals_libgccs(proof_path, capsys):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(proof_path.parent), str(HERE)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    frames, interrupted, differences, first = done.stdout.split(maxsplit=3)
    with capsys.disabled():
        print(f"\n{frames} frames behind {interrupted} signals, {differences} differences")
    assert int(differences) == 0, first
    assert int(interrupted) >= 1000


# A timer alone meets code that runs seldom and briefly once in many hours.  Code in assembly has
# the rarest unwind data.
STEPPED = """
import sys
sys.path[:0] = sys.argv[1:]
import proof, workloads
ends = workloads.tls_ends()
proof.step(400)
while proof.steps()[0] < 60_000:
    workloads.small_records(*ends)
while proof.steps()[0] < 160_000:
    workloads.without_callbacks()
    for work in workloads.IN_ANY_THREAD:
        work()
proof.step(0)
print(*proof.steps(), *proof.results())
"""


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs the trap flag")
def test_every_frame_below_single_instructions_equals_libgccs(proof_path, capsys):
    done = subprocess.run(
        [sys.executable, "-c", STEPPED, str(proof_path.parent), str(HERE)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    steps, places, crashes, unknown, frames, _, differences, first = done.stdout.split(maxsplit=7)
    with capsys.disabled():
        print(f"\n{frames} frames behind {places} of {steps} instructions, {differences} differences")
    assert int(differences) == 0, first
    assert int(places) >= 5000
    assert int(crashes) < int(places) / 100
    assert int(unknown) < int(frames) / 1000


FALSIFIED = """
import sys
sys.path[:0] = sys.argv[2:]
import proof
proof.compare()
assert proof.results()[2] == 0, proof.results()
proof.falsify(sys.argv[1])
proof.compare()
print(*proof.results()[2:])
"""


@pytest.mark.parametrize("column", ["ip", "sp", "function", "register", "count"])
def test_one_false_value_is_found(proof_path, column):
    done = subprocess.run(
        [sys.executable, "-c", FALSIFIED, column, str(proof_path.parent)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    differences, first = done.stdout.split(maxsplit=1)
    assert int(differences) >= 1
    expected = "the number of frames" if column == "count" else column
    assert expected in first
