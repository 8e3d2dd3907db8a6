"""Exceptions that leave their process: by pickle, multiprocessing and ProcessPoolExecutor."""

from __future__ import annotations

import concurrent.futures
import copy
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from functools import partial

import process_jobs
import pytest
import stacksplice
import stacksplice.logging
from building import ran
from process_jobs import Needs, Refused
from raising import caught, names
from stacksplice._errors import remote, stand_in

METHODS = multiprocessing.get_all_start_methods()


@pytest.fixture
def crossed(border):
    """An exception that crossed a border, with a cause."""
    return caught(border.call, process_jobs.innermost, 7)


def check_remote(exc, process_id=None):
    """EXC is what process_jobs.crosses() raised in another process."""
    assert type(exc) is Needs and exc.why == "told"
    info = stacksplice.error_info(exc)
    assert info.process["id"] not in (None, os.getpid())
    assert process_id in (None, info.process["id"])
    assert info.process["host"] == os.uname().nodename
    assert info.language_exception is exc
    assert (info.type, info.message) == ("process_jobs.Needs", str(exc))
    functions = names(info.stack)
    assert functions[0] == "innermost" and "crosses" in functions
    assert any(frame.kind == "native" and frame.module for frame in info.stack)
    assert [node.language for node in info.propagation] == ["python"]
    assert names(info.propagation[0].stack)[0] == "crosses"
    assert info.transformed.message == "'cause'"
    return info


# ---- The standard ways ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_each_way_out_of_a_worker(border_path, method):
    context, path = multiprocessing.get_context(method), str(border_path)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        exc = caught(pool.submit(process_jobs.crosses, path, 1).result)
        check_remote(exc, pool.submit(os.getpid).result())
    assert type(exc.__cause__).__name__ == "_RemoteTraceback"  # what the executor adds is there, too
    with context.Pool(1) as pool:
        check_remote(caught(pool.apply, process_jobs.crosses, (path, 1)))
        info = check_remote(caught(pool.starmap, process_jobs.crosses, [(path, 1)]))
    assert "Worker-" in info.process["name"]
    queue = context.Queue()
    process = context.Process(target=process_jobs.into_queue, args=(path, queue))
    process.start()
    exc, info = queue.get(timeout=60), queue.get(timeout=60)
    process.join()
    assert check_remote(exc, process.pid) == info  # the same report: it was not raised here
    assert hash(stacksplice.error_info(exc)) == hash(info)


def test_error_of_native_code(border_path):
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        exc = caught(pool.submit(process_jobs.native, str(border_path), "no such rate").result)
    assert isinstance(exc, FileNotFoundError) and isinstance(exc, stacksplice.HResultError)
    info = stacksplice.error_info(exc)
    assert info.process["id"] != os.getpid() and info.language == "python"
    assert info.message == "no such rate" and names(info.stack)[0] == "native"


def test_groups_and_notes(border_path):
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        parts, whole, noted, plain = (
            pool.submit(function, argument).exception()
            for function, argument in (
                (process_jobs.group, str(border_path)),
                (process_jobs.group_crosses, str(border_path)),
                (process_jobs.noted, str(border_path)),
                (process_jobs.plain, "crossed no border"),
            )
        )
    for number, member in enumerate(parts.exceptions):
        info = stacksplice.error_info(member)
        assert info.message == str(number) and names(info.stack)[:2] == ["innermost", "group"]
    info = stacksplice.error_info(whole)
    assert [member.message for member in info.exceptions] == ["0", "1"]
    assert [names(member.stack)[0] for member in info.exceptions] == ["innermost", "innermost"]
    assert (info.notes, info.message) == (["of the group"], "several (2 sub-exceptions)")
    text = "".join(stacksplice.format_exception(whole))
    assert text.count("ValueError") == 0 and text.count("Needs: 0") and text.count("Needs: 1")
    assert noted.__notes__ == ["a note"] == stacksplice.error_info(noted).notes
    assert stacksplice.format_exception(noted)[-1] == "note: a note\n"
    noted.add_note("of here")
    assert stacksplice.error_info(noted).notes == ["a note", "of here"]
    assert stacksplice.error_info(plain) is None and vars(plain) == {}


# ---- What is shown -------------------------------------------------------------------------------


def test_report_says_where_and_what_happened_here(border_path):
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        exc = caught(pool.submit(process_jobs.crosses, str(border_path), 1).result)
    info = stacksplice.error_info(exc)
    seam = f"error came from process {info.process['id']} ({info.process['name']}) on {info.process['host']}"
    functions, reasons = ([getattr(frame, name) for frame in info.stack] for name in ("function", "reason"))
    assert reasons.count(seam) == 1 and info.stack[reasons.index(seam)].asynchronous
    assert functions.index("innermost") < reasons.index(seam)
    assert "caught" in functions[reasons.index(seam) :] and "text_of" not in functions
    for text in ("".join(stacksplice.format_exception(exc)), str(info), stacksplice.logging.log_text(exc)):
        assert ", in innermost" in text and "The above exception was the direct cause" in text
        here, found, there = text.partition(f"  [async: {seam}]\n")
        assert found and ", in caught" in here and ", in innermost" in there
        assert "RemoteTraceback" not in text and text.rstrip().endswith("\nprocess_jobs.Needs: 1")
        assert "popen_fork" not in text
    assert [frame.get("function") for frame in info.to_dict()["stack"]] == functions
    assert info.to_dict()["came_from"] == info.process
    again = stacksplice.ErrorInfo.from_json(info.to_json())
    assert str(again) == str(info) and again.process == info.process and again.stack == info.stack


def test_words_that_only_the_report_has_come_along():
    pytest.importorskip("lupa.lua54")
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        exc = caught(pool.submit(process_jobs.raises_a_table).result)
    assert str(exc) == ""
    info = stacksplice.error_info(exc)
    assert "42" in info.message and info.process["id"] != os.getpid()
    assert "42" in "".join(stacksplice.format_exception(exc)).splitlines()[-1]


def seams_of(info):
    return [frame.reason for frame in info.stack if str(frame.reason).startswith("error came from process ")]


def test_raised_on_through_a_border_it_keeps_the_remote_part(border, border_path):
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        future = pool.submit(process_jobs.crosses, str(border_path), 1)
        exc = caught(border.call, future.result)
    info = stacksplice.error_info(exc)
    assert info.process["id"] != os.getpid() and info.language_exception is exc
    functions = names(info.stack)
    assert functions[0] == "innermost" and functions.index("crosses") < functions.index("result")
    assert len(seams_of(info)) == 1
    assert [names(node.stack)[0] for node in info.propagation] == ["crosses", "caught"]
    assert info.transformed.message == "'cause'"
    seam = "[async: error came from process"
    text = info.format()
    assert text.index(", in caught\n") < text.index(seam) < text.index(", in innermost")
    text = info.format(newest_last=False)
    assert text.index("innermost\n") < text.index(seam) < text.index("caught\n")
    assert stacksplice.ErrorInfo.from_dict(info.to_dict()).to_dict() == info.to_dict()


def test_a_cause_and_a_member_that_came_from_another_process(border, border_path):
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        future = pool.submit(process_jobs.crosses, str(border_path), 1)
        came = caught(future.result)

    def wraps():
        raise RuntimeError("wrapped") from came

    def groups():
        raise ExceptionGroup("several", [came, ValueError("of here")])

    for make, behind in ((wraps, lambda info: info.cause), (groups, lambda info: info.exceptions[0])):
        for exc in (caught(make), caught(border.call, make)):
            info = stacksplice.error_info(exc)
            inner = behind(info)
            assert names(info.stack)[0] == make.__name__ and not seams_of(info) and info.process is None
            assert names(inner.stack)[0] == "innermost" and len(seams_of(inner)) == 1
            assert inner.process["id"] != os.getpid() and inner.cause.message == "'cause'"
            again = stacksplice.ErrorInfo.from_json(info.to_json())
            assert behind(again).stack == inner.stack and behind(again).cause.message == "'cause'"
            for text in (str(info), "".join(stacksplice.format_exception(exc))):
                assert text.count("[async: error came from process ") == 1
                assert text.count(", in innermost") == 1 and f", in {make.__name__}" in text


def test_a_cause_that_was_added_here_is_shown(crossed):
    made = pickle.loads(pickle.dumps(crossed))

    def wraps():
        raise made from OSError("of here")

    exc = caught(wraps)
    assert exc is made and stacksplice.error_info(exc).cause.message == "of here"
    text = "".join(stacksplice.format_exception(exc))
    assert "OSError: of here" in text and "KeyError: 'cause'" not in text  # as for one that was never pickled


def relays(way, exc):
    """EXC as it comes out of a further process, which raised it again."""
    source = f"""
import pickle, sys, traceback
try:
    import stacksplice
except ImportError:
    pass
exc = pickle.loads(sys.stdin.buffer.read())
def relayed_{way}():
    raise exc
try:
    relayed_{way}()
except Exception as caught:
    sys.stdout.buffer.write(pickle.dumps(caught))
"""
    done = subprocess.run(
        [sys.executable, "-c", source], input=pickle.dumps(exc), capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    return pickle.loads(done.stdout)


def test_each_process_on_its_way_has_its_part(crossed):
    """What a socket, a queue or a broker brings: the pickle alone."""
    exc = relays("second", relays("first", crossed))
    info = stacksplice.error_info(exc)
    expected = ["innermost", None, "relayed_first", None, "relayed_second"]
    assert [name for name in names(info.stack) if name in expected and name] == expected[::2]
    assert len(seams_of(info)) == 2 and info.process["id"] != os.getpid()

    def here():
        raise exc

    info = stacksplice.error_info(caught(here))
    seams, functions = seams_of(info), names(info.stack)
    assert len(set(seams)) == 3 and f"process {info.process['id']} " in seams[-1]
    assert f"process {os.getpid()} " in seams[0]  # where it was born
    for form in (str(info), info.to_json()):
        assert all(form.count(text) == 1 for text in ("relayed_first", "relayed_second")), form
    assert functions.index("relayed_second") < functions.index("here")
    assert info.fingerprint == stacksplice.error_info(crossed).fingerprint
    assert pickle.loads(pickle.dumps(info)) == stacksplice.ErrorInfo.from_dict(
        {**{name: value for name, value in info.to_dict().items()}, "process": remote.here()}
    )


@pytest.mark.any_python
def test_what_an_executor_took_the_traceback_of(border_path):
    """A process in between that raised it again, but not through a border, sends its text alone."""
    exc = caught(process_jobs.in_a_process, process_jobs.second, str(border_path))
    info = stacksplice.error_info(exc)
    wanted = ("innermost", "crosses", "middle", "second", "in_a_process")
    seams = [at for at, frame in enumerate(info.stack) if str(frame.reason).startswith("error came from ")]
    places = [0, *seams, len(info.stack)]
    parts = [names(info.stack[begin:end]) for begin, end in zip(places, places[1:], strict=False)]
    found = [[name for name in part if name in wanted] for part in parts]
    assert found[0][:2] == ["innermost", "crosses"]
    assert found[1:] == [["in_a_process", "middle"], ["in_a_process", "second"], ["in_a_process"]]
    assert f"process {info.process['id']} " in info.stack[seams[0]].reason
    assert [info.stack[at].reason for at in seams[1:]] == ["error came from another process"] * 2
    for text in (str(info), "".join(stacksplice.format_exception(exc)), info.to_json()):
        assert text.count("error came from another process") == 2
    assert stacksplice.ErrorInfo.from_json(info.to_json()).stack == info.stack


HEAD = "Traceback (most recent call last):\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"


def sent(*processes):
    """The text that an executor sends of an error that came through PROCESSES, of which each is the text of
    its traceback."""
    text = ""
    for process in processes:
        before = f"concurrent.futures.process._RemoteTraceback: {text}\n{CAUSED}" if text else ""
        text = f'\n"""\n{before}{process}"""'
    exc = ValueError("x")
    exc.__cause__ = type("_RemoteTraceback", (Exception,), {"__str__": lambda self: self.args[0]})(text)
    return exc


def entry(name, file="a.py", line=1):
    return f'  File "{file}", line {line}, in {name}\n    source of {name}\n'


def frame_of(name, file="a.py"):
    return {"function": name, "file": file}


@pytest.mark.parametrize(
    ("texts", "stacks", "found"),
    [
        ([HEAD + entry("f") + "ValueError: x\n"], [[frame_of("m.f")]], []),
        ([HEAD + entry("g") + "ValueError: x\n"], [[frame_of("f")]], [(0, ["g"])]),
        (
            [HEAD + entry("f") + "E\n", HEAD + entry("g") + "E\n", HEAD + entry("g") + "E\n"],
            [[frame_of("f")], [frame_of("g")]],
            [(2, ["g"])],
        ),
        # A cause of the first process is no process.
        (["KeyError: 1\n" + CAUSED + HEAD + entry("g") + "E\n"], [[frame_of("f")]], [(0, ["g"])]),
        # What a message says is no frame, and what looks like a further process is none.
        ([HEAD + entry("f") + "E: x\n" + entry("forged")], [[frame_of("f")]], []),
        ([HEAD + entry("f") + f'E: x"""\n{CAUSED}{HEAD}' + entry("forged")], [[frame_of("f")]], []),
        ([HEAD + entry("g") + "  [Previous line repeated 2 more times]\nE\n"], [[]], [(0, ["g"] * 3)]),
        (
            [HEAD + entry("g") + "  [Previous line repeated 1005 more times]\nE\n"],
            [[]],
            [(0, ["5 frames omitted when the error was pickled", *["g"] * 1001])],
        ),
        (["no traceback"], [[]], []),
        ([""], [[]], []),
    ],
)
def test_only_what_the_text_of_an_executor_certainly_says(texts, stacks, found):
    missing = stand_in.missing(sent(*texts), stacks)
    told = [(at, [frame.get("function") or frame["reason"] for frame in frames]) for at, frames in missing]
    assert told == found


# ---- pickle --------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("python_pickler", [False, True], ids=["C", "Python"])
def test_pickle(crossed, protocol, python_pickler):
    if python_pickler:
        buffer = io.BytesIO()
        pickle._Pickler(buffer, protocol).dump(crossed)
        made = pickle._loads(buffer.getvalue())
    else:
        made = pickle.loads(pickle.dumps(crossed, protocol))
    info = stacksplice.error_info(made)
    truth = stacksplice.error_info(crossed)
    assert info.process == remote.here()
    for name in ("hresult", "message", "description", "type", "language", "thread_id", "fingerprint"):
        assert getattr(info, name) == getattr(truth, name), name
    assert list(map(str, info.stack)) == list(map(str, truth.stack))
    assert info.transformed.message == truth.transformed.message
    again = pickle.loads(pickle.dumps(made, protocol))  # an exception that nobody looked at
    assert stacksplice.error_info(again) == info


@pytest.mark.parametrize("name", ["cloudpickle", "dill"])
def test_other_picklers(crossed, name):
    module = pytest.importorskip(name)
    made = module.loads(module.dumps(crossed))
    assert names(stacksplice.error_info(made).stack)[0] == "innermost"


def test_copies_are_exceptions_of_their_own(crossed):
    for made in (copy.copy(crossed), copy.deepcopy(crossed)):
        assert made.why == "told" and stacksplice.error_info(made) is None
    arrived = pickle.loads(pickle.dumps(crossed))
    for made in (copy.copy(arrived), copy.deepcopy(arrived)):  # nor have those of one that arrived
        assert made.why == "told" and stacksplice.error_info(made) is None
    assert stacksplice.error_info(arrived) is not None


def _through_pickle(exc, protocol):
    return pickle.loads(pickle.dumps(exc, protocol))


class Failed(Exception):
    """As programs write them: attributes, and equal by what they say."""

    def __init__(self, code, **more):
        super().__init__(code)
        self.__dict__.update(more, code=code)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None


def test_a_crossed_exception_shows_no_item_of_ours(border):
    def fails():
        raise Failed(3, currency="X", parts=[1])

    plain, exc = caught(fails), caught(border.call, fails)
    assert stacksplice.error_info(exc) is not None
    ways = [partial(_through_pickle, protocol=number) for number in range(pickle.HIGHEST_PROTOCOL + 1)]
    for make in (lambda exc: exc, copy.copy, copy.deepcopy, *ways):
        made, theirs = make(exc), make(plain)
        assert made == theirs == plain and repr(made) == repr(theirs) and dir(made) == dir(theirs)
        assert json.dumps(vars(made)) == json.dumps(vars(theirs))
        assert repr(vars(made)) == repr(vars(theirs))
    assert copy.deepcopy(exc).parts is not exc.parts
    for made in (copy.copy(vars(exc)), copy.deepcopy(vars(exc)), vars(exc).copy()):
        assert type(made) is dict and made == vars(plain)
    assert pickle.dumps(copy.copy(exc)) == pickle.dumps(copy.copy(plain))
    arrived = pickle.loads(pickle.dumps(exc))
    assert stacksplice.error_info(arrived).message == stacksplice.error_info(exc).message


class Restored(Exception):
    """Its own way back from a pickle knows each name."""

    states = []

    def __setstate__(self, state):
        self.states.append(state)
        self.__dict__.update(state)


@pytest.mark.parametrize("attributes", [{}, {"code": 5}])
def test_a_setstate_of_its_own_gets_what_it_would_without_us(border, attributes):
    def fails():
        exc = Restored("x")
        exc.__dict__.update(attributes)
        raise exc

    Restored.states.clear()
    for make in (copy.copy, copy.deepcopy, lambda exc: pickle.loads(pickle.dumps(exc))):
        assert vars(make(caught(fails))) == attributes == vars(make(caught(border.call, fails)))
    theirs, ours = Restored.states[::2], Restored.states[1::2]
    assert ours == theirs


def test_its_own_reduce_is_respected(border):
    def fails():
        raise Refused(1, "here", "so")

    made = pickle.loads(pickle.dumps(caught(border.call, fails)))
    assert type(made) is Refused and stacksplice.error_info(made) is None


def test_an_arrived_exception_is_raised_again_as_itself(border, crossed):
    made = pickle.loads(pickle.dumps(crossed))

    def again():
        raise made

    assert caught(border.call, again) is made
    info = stacksplice.error_info(made)
    assert info.language_exception is made
    twice = stacksplice.error_info(pickle.loads(pickle.dumps(made)))
    for each in (info, twice):
        assert names(each.stack)[0] == "innermost" and "again" in names(each.stack)


def test_unpickling_loads_nothing_of_ours(border, tmp_path):
    """In a process that has no stacksplice the exception is what it would have been."""
    exc = caught(border.call, process_jobs.plain, "x")
    assert stacksplice.error_info(exc) is not None
    (tmp_path / "data").write_bytes(pickle.dumps(exc))
    source = """
import json, pickle, sys
exc = pickle.load(open(sys.argv[1], "rb"))
assert type(exc) is ValueError and exc.args == ("x",)
assert "stacksplice" not in sys.modules
print(json.loads(vars(exc)["__stacksplice__"])["stack"][0]["function"])
again = pickle.loads(pickle.dumps(exc))
assert vars(again) == vars(exc)
"""
    assert ran(sys.executable, "-I", "-S", "-c", source, tmp_path / "data").stdout == "plain\n"


SOUND = '{"hresult_signed": 1, "message": "x", "stack": [], "propagation": [], "transformed": []'
HOSTILE = [
    SOUND + ', "exceptions": [{"stack": []}]}',
    SOUND + ', "process": {"id": "x"}}',
    (SOUND + ', "exceptions": [') * 500 + SOUND + "]}" * 501,
    "",
    "null",
    "[" * 100_000,
    SOUND.replace('"stack": []', '"stack": [{"kind": "native", "language": "c", "line": "5"}]') + "}",
    SOUND.replace('"propagation": []', '"propagation": [5]') + "}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_report_is_nothing(border, text):
    assert remote.read(SOUND + "}").message == "x"

    def fails():
        exc = ValueError("x")
        exc.__stacksplice__ = text
        raise exc

    exc = caught(fails)
    assert stacksplice.error_info(exc) is None
    assert stacksplice.format_exception(exc)[-1] == "ValueError: x\n"
    crossed = caught(border.call, fails)
    info = stacksplice.error_info(crossed)
    assert info.process is None and "came_from" not in info.to_dict()
    assert not seams_of(info)
    assert stacksplice.error_info(pickle.loads(pickle.dumps(crossed))).message == "x"


def test_size_is_bounded(border, deep_recursion):
    def deep(levels):
        if levels:
            border.call(deep, levels - 1)
        raise ValueError("x" * 1_000_000)

    exc = caught(border.call, deep, 160)
    truth = stacksplice.error_info(exc)
    assert len(truth.to_json()) > 1_000_000 and len(truth.propagation) == 150
    text = remote.report(truth)
    assert len(text) <= 256 * 1024
    info = stacksplice.error_info(pickle.loads(pickle.dumps(exc)))
    assert names(info.stack)[0] == "deep" and info.message.endswith("x...")
    assert any("frames omitted when the error was pickled" in str(frame) for frame in info.stack)
    assert len(info.propagation) == 16
    assert info.notes == ["134 further receptions omitted when the error was pickled"]


def test_another_interpreter_sees_no_item_where_it_has_the_package(crossed):
    """The way by which pickles restore items is one for all interpreters of a process."""
    interpreters = pytest.importorskip(
        "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    )
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    exc = caught(process_jobs.plain, "x")
    stacksplice.originate(exc)
    stacksplice.winrt.RoClearError()
    data = pickle.dumps(exc)
    without = "assert [*vars(exc)] == ['__stacksplice__'] and exc.args == ('x',)"
    having = "import stacksplice; assert stacksplice.error_info(exc).process and vars(exc) == {}"
    later = "import stacksplice; exc = pickle.loads(data); assert vars(exc) == {}"
    for check in (without, having, later, f"{later}; assert stacksplice.error_info(exc).process"):
        other = interpreters.create()
        try:
            failed = run(other, f"import pickle; data = {data!r}; exc = pickle.loads(data); {check}")
        finally:  # one that stays stops what forks later
            interpreters.destroy(other)
        assert failed is None, failed
    assert vars(pickle.loads(data)) == {}
