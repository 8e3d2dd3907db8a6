"""``stacksplice symbolize``: files and lines for the native frames of saved reports."""

from __future__ import annotations

import ctypes
import http.server
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import MODULE, command, environment
from stacksplice import _stacksplice
from symbol_reports import Library, elsewhere, hide, library_of, report, symbolized

pytestmark = pytest.mark.any_python

if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_of(tmp_path_factory)


def test_the_frames_are_those_of_the_process(library, tmp_path):
    known = library.known()
    assert [frame["function"] for frame in known] == [
        "shop::twice(int (*)(int), int)",
        "shop::Basket<int>::price(int (*)(int), int)",
        "enter",
    ]
    assert [frame["inlined"] for frame in known] == [True, False, False]
    result, said = symbolized(tmp_path, report(library.saved()))
    assert (result["stack"], said) == (known, "")
    assert list(result["stack"][0]) == list(known[0])  # the order of members, too
    again, said = symbolized(tmp_path, result)
    assert (again, said) == (result, "")


def by_id(folder: Path, build_id: str, file: Path, end: str) -> None:
    place = folder / ".build-id" / build_id[:2] / (build_id[2:] + end)
    place.parent.mkdir(parents=True)
    shutil.copy(file, place)


@pytest.mark.parametrize(
    "place",
    [
        lambda lib, to: by_id(to, lib.build_id, lib.debug, ".debug"),
        lambda lib, to: by_id(to, lib.build_id, lib.path, ""),
        lambda lib, to: shutil.copy(lib.debug, to / "libshop.so.debug"),
        lambda lib, to: shutil.copytree(lib.path.parent, to / "usr" / "lib"),
        lambda lib, to: [shutil.copy(lib.stripped, to), shutil.copy(lib.debug, to)],
    ],
    ids=["debug file by id", "binary by id", "debug file by name", "binary below", "both"],
)
def test_symbols_come_from_folders(library, tmp_path, place):
    folder = tmp_path / "symbols"
    folder.mkdir()
    place(library, folder)
    result, said = symbolized(tmp_path, report(elsewhere(library.saved())), "--symbols", str(folder))
    assert (result["stack"], said) == (elsewhere(library.known()), "")


def test_symbols_come_from_the_cache_of_debuginfod(library, tmp_path, monkeypatch):
    (tmp_path / library.build_id).mkdir()
    shutil.copy(library.debug, tmp_path / library.build_id / "debuginfo")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path))
    result, said = symbolized(tmp_path, report(elsewhere(library.saved())))
    assert (result["stack"], said) == (elsewhere(library.known()), "")


def test_a_stripped_binary_gives_functions(library, tmp_path):
    folder = tmp_path / "symbols"
    folder.mkdir()
    shutil.copy(library.stripped, folder)
    result, said = symbolized(tmp_path, report(elsewhere(library.saved())), "--symbols", str(folder))
    assert result["stack"][-1]["function"] == "enter" and "file" not in result["stack"][-1]
    assert said == (
        f"stacksplice: /elsewhere/lib/libshop.so: no lines, only functions found for build-id "
        f"{library.build_id}; pass the folder with its debug file as --symbols DIR\n"
    )


def test_what_is_missing_is_said_once(library, tmp_path):
    frames = elsewhere(library.saved())
    document = report(frames, propagation=[{"language": "lua", "thread_id": 1, "stack": frames}])
    result, said = symbolized(tmp_path, document)
    assert result == document
    assert said.count("\n") == 1 and "no symbols found for build-id" in said
    hidden = report([{**frame, "glue": True} for frame in frames])
    assert symbolized(tmp_path, hidden) == (hidden, "")


def test_another_build_is_never_used(library, tmp_path):
    folder = tmp_path / "symbols"
    folder.mkdir()
    other = library.build_id[:-1] + ("0" if library.build_id[-1] != "0" else "1")
    shutil.copy(library.path, folder)
    by_id(folder, other, library.path, ".debug")
    document = report([{**frame, "build_id": other} for frame in library.saved()])
    result, said = symbolized(tmp_path, document, "--symbols", str(folder))
    assert result == document
    assert said.count("has another build-id") == 3 and said.count("\n") == 1
    assert "--symbols DIR" in said


@pytest.mark.parametrize("kept", [0, 40, 63, 64, 1000])
def test_a_damaged_file_is_said_and_the_next_one_used(library, tmp_path, kept):
    folder = tmp_path / "symbols"
    (folder / "good").mkdir(parents=True)
    (folder / "libshop.so").write_bytes(library.path.read_bytes()[:kept])
    document = report(elsewhere(library.saved()))
    result, said = symbolized(tmp_path, document, "--symbols", str(folder))
    assert result == document
    if kept == 1000:  # the build-id is still there
        why = f"; {folder / 'libshop.so'} has none; pass the folder"
    else:
        why = f"; not used: {folder / 'libshop.so'} is damaged, or no 64-bit ELF file; pass the folder"
    assert why in said and said.count("\n") == 1
    shutil.copy(library.debug, folder / "good" / "libshop.so")
    result, said = symbolized(tmp_path, document, "--symbols", str(folder))
    assert (result["stack"], said) == (elsewhere(library.known()), "")


def test_a_frame_without_build_id_is_left_as_it_is(library, tmp_path):
    frames = library.saved()
    for frame in frames:
        del frame["build_id"]
    document = report(frames)
    result, said = symbolized(tmp_path, document)
    assert result == document
    assert "the report has no build-id of it" in said and said.count("\n") == 1


def test_every_stack_of_a_file_is_done_and_all_else_stays(library, tmp_path):
    def tree(frames):
        cause = {name: value for name, value in report(frames).items() if name not in ("schema",)}
        del cause["transformed"], cause["transformed_left_out"], cause["transformed_above"]
        member = {name: value for name, value in report(frames).items() if name != "schema"}
        error = report(
            frames,
            propagation=[{"language": "lua", "thread_id": 1, "stack": frames, "frames_left_out": 0}],
            transformed=[{"relation": "cause", **cause}],
            exceptions=[member],
            later_member={"x": [1, 2.5, None]},
        )
        return {"schema": "stacksplice-report/1", "header": {"event": "x"}, "error": error, "modules": []}

    def without_ids(value):
        return json.loads(json.dumps(value), object_hook=lambda o: {**o, "reference": 0, "fingerprint": 0})

    saved = [{**frame, "later": "\u2028 \ud800"} for frame in library.saved()]
    known = [{**frame, "later": "\u2028 \ud800"} for frame in library.known()]
    result, said = symbolized(tmp_path, tree(saved))
    assert (without_ids(result), said) == (without_ids(tree(known)), "")


def test_json_lines_stay_lines_and_text_is_that_of_show(library, tmp_path):
    path = tmp_path / "errors.ndjson"
    path.write_text("".join(json.dumps(report(library.saved())) + "\n" for _ in range(3)))
    done = command("symbolize", str(path))
    lines = done.stdout.splitlines()
    assert [json.loads(line)["stack"] for line in lines] == [library.known()] * 3
    path.write_text(done.stdout)
    assert command("symbolize", "--text", str(path)).stdout == command("show", str(path)).stdout
    assert 'symbol_library.cpp", line 9, in shop::twice' in command("symbolize", "--text", str(path)).stdout


def test_each_line_is_written_before_the_next_is_read(library):
    program = subprocess.Popen(
        [*MODULE, "symbolize", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    with program:
        for number in range(3):
            line = json.dumps(report(library.saved(), later_member=number))
            program.stdin.write(line.encode() + b"\n")
            program.stdin.flush()
            answer = json.loads(program.stdout.readline())
            assert (answer["stack"], answer["later_member"]) == (library.known(), number)
        assert program.communicate() == (b"", None)
    assert program.returncode == 0


def test_lines_of_a_log_without_an_error_stay(library, tmp_path):
    lines = [
        {"@timestamp": "2026-01-01T00:00:00Z", "ecs.version": "1.6.0", "message": "started"},
        {
            "@timestamp": "2026-01-01T00:00:01Z",
            "ecs.version": "1.6.0",
            "stacksplice": report(library.saved()),
        },
    ]
    path = tmp_path / "log.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = command("symbolize", str(path))
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == lines[0] and second["stacksplice"]["stack"] == library.known()
    path.write_text(done.stdout)
    assert command("symbolize", "--text", str(path)).stdout == command("show", str(path)).stdout


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (b"{", "on line 3: it is cut off"),
        (b'{"a": 1}', "on line 3: report 3: data is not a report of schema stacksplice-error/1"),
        (b"\xff", "on line 3: it is not UTF-8 (byte "),
    ],
)
def test_lines_around_a_broken_one_are_written(library, tmp_path, end, reason):
    path = tmp_path / "errors.ndjson"
    line = json.dumps(report(library.saved())).encode() + b"\n"
    path.write_bytes(line + line + end + b"\n" + line)
    done = command("symbolize", str(path), status=2)
    assert [json.loads(text)["stack"] for text in done.stdout.splitlines()] == [library.known()] * 3
    if end == b"\xff":
        reason += f"{2 * len(line)})"
    assert done.stderr.startswith(f"stacksplice: cannot symbolize {path}: {reason}"), done.stderr


def test_what_cannot_be_done_is_one_line(library, tmp_path):
    done = command("symbolize", str(tmp_path / "none"), status=2)
    assert done.stderr == f"stacksplice: cannot read {tmp_path / 'none'}: No such file or directory\n"
    (tmp_path / "bad").write_text('{"a": 1}')
    done = command("symbolize", str(tmp_path / "bad"), status=2)
    assert done.stderr.startswith(f"stacksplice: cannot symbolize {tmp_path / 'bad'}: ")
    assert done.stderr.count("\n") == 1
    done = command("symbolize", "--symbols", str(tmp_path / "none"), str(tmp_path / "bad"), status=2)
    assert done.stderr == f"stacksplice: --symbols: {tmp_path / 'none'} is not a folder\n"


@pytest.mark.parametrize(
    "change",
    [
        {"module": "/nul\0/libshop.so"},
        {"module": "/\ud800/libshop.so"},
        {"module": 5},
        {"build_id": "../../etc"},
        {"build_id": 7},
        {"module_offset": -1},
        {"module_offset": 2**80},
        {"module_offset": "12"},
    ],
)
def test_strange_frames_stay_as_they_are(library, tmp_path, change):
    strange = [{**frame, **change} for frame in library.saved()]
    result, _ = symbolized(tmp_path, report(strange))
    assert result["stack"] == strange


def test_without_libdw_it_says_what_to_install(library, tmp_path, monkeypatch):
    hide(tmp_path, "libdw.so.1", monkeypatch)
    done = command("symbolize", str(tmp_path / "any"), status=2)
    reason = "libdw.so.1 not found (Debian package: libdw1)"
    assert (done.stdout, done.stderr) == ("", f"stacksplice: cannot look up symbols: {reason}\n")


def test_lines_of_source_are_left_out(tmp_path):
    script = {
        "kind": "script",
        "language": "python",
        "file": "x.py",
        "line": 1,
        "function": "f",
        "trust": "exact",
    }
    frame = {**script, "source": "a = 1", "source_column": 1, "address": "0x1"}
    (kept,) = symbolized(tmp_path, report([frame]))[0]["stack"]
    (left,) = symbolized(tmp_path, report([frame]), "--no-source")[0]["stack"]
    assert kept == frame and left == {**script, "address": "0x1"}


# ---- Servers -------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """A server of debuginfod that has one debug file, on this machine."""

    def __init__(self, build_id: str, file: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.file, self.place = file, f"/buildid/{build_id}/debuginfo"
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path != self.server.place:
            self.send_error(404)
            return
        data = self.server.file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(library, tmp_path, monkeypatch) -> Iterator[Server]:
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        pytest.skip("no libdebuginfod")
    with Server(library.build_id, library.debug) as it:
        threading.Thread(target=it.serve_forever, daemon=True).start()
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{it.server_port}")
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield it
        it.shutdown()


def test_symbols_come_from_a_server_once(library, server, tmp_path):
    for _ in range(2):
        result, said = symbolized(tmp_path, report(elsewhere(library.saved())))
        assert (result["stack"], said) == (elsewhere(library.known()), "")
    assert server.asked == [server.place]


def test_servers_are_asked_only_for_what_is_not_here(library, server, tmp_path):
    result, said = symbolized(tmp_path, report(library.saved()))
    assert (result["stack"], said, server.asked) == (library.known(), "", [])


@pytest.mark.parametrize("urls", [None, ""])
def test_servers_are_asked_only_where_they_are_named(library, server, tmp_path, monkeypatch, urls):
    if urls is None:
        monkeypatch.delenv("DEBUGINFOD_URLS")
    else:
        monkeypatch.setenv("DEBUGINFOD_URLS", urls)
    result, said = symbolized(tmp_path, report(elsewhere(library.saved())))
    assert result["stack"] == elsewhere(library.saved())
    assert "debuginfod" not in said and server.asked == []


def test_a_process_asks_no_server_for_its_own_frames(library, server, tmp_path):
    shutil.copy(library.stripped, tmp_path)
    program = """if True:
        import ctypes, sys
        from stacksplice import _stacksplice
        enter = ctypes.CDLL(sys.argv[1]).enter
        print(_stacksplice.resolve(ctypes.cast(enter, ctypes.c_void_p).value + 1)[-1]["function"])
    """
    done = command("run", "-c", program, str(tmp_path / "libshop.so"))
    assert (done.stdout, server.asked) == ("enter\n", [])


def test_what_servers_do_not_have_is_said(library, server, tmp_path, monkeypatch):
    server.place = ""
    _, said = symbolized(tmp_path, report(elsewhere(library.saved())))
    assert said.count("; debuginfod: no server has it; pass the folder") == 1 and len(server.asked) == 1


def test_servers_that_do_not_answer_are_said(library, server, tmp_path, monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and never listens
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        _, said = symbolized(tmp_path, report(elsewhere(library.saved())))
    assert "; debuginfod: Connection refused; pass the folder" in said and said.count("\n") == 1


def test_a_missing_library_for_servers_is_said(library, server, tmp_path, monkeypatch):
    hide(tmp_path, "libdebuginfod.so.1", monkeypatch)
    _, said = symbolized(tmp_path, report(elsewhere(library.saved())))
    assert "; debuginfod: libdebuginfod.so.1 not found (Debian package: libdebuginfod1); pass" in said
