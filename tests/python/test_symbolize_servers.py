"""``python -m stacksplice symbolize`` and the servers of debuginfod, with one on this machine."""

from __future__ import annotations

import ctypes
import http.server
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import command
from stacksplice import _stacksplice
from symbol_reports import Library, elsewhere, hide, library_of, report, symbolized

pytestmark = pytest.mark.any_python

if _stacksplice._lines_missing():
    pytest.skip("this process has no libdw", allow_module_level=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_of(tmp_path_factory)


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
