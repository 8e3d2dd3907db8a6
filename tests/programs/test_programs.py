"""Programs of others that embed an interpreter: the same frames as gdb, traceback and debug show.

Those that are installed run; the others are skipped by name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import stacksplice

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = Path(stacksplice.__file__).resolve().parent.parent
LUA_MODULES = Path(os.environ.get("STACKSPLICE_BUILD_DIR", ROOT / "build" / "dev")) / "lua" / "5.4"
IMPORT = f"import sys; sys.path[:0] = [{str(PACKAGES)!r}, {str(HERE)!r}]; import probe"
CODE = f"{IMPORT}; probe.run()"


def need(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def need_this_python(program: str) -> None:
    """PROGRAM must embed the version that the package was built for."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    if f"libpython{sys.version_info[0]}.{sys.version_info[1]}." not in linked:
        pytest.skip(f"{program} embeds another Python")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "STACKSPLICE_PROBE": str(tmp_path / "answer")}


def check_answer(environment: dict[str, str]) -> None:
    answer = json.loads(Path(environment["STACKSPLICE_PROBE"]).read_text())
    if not answer["gdb"]:
        pytest.skip("gdb may not attach to a process here")
    assert answer["gaps"] == []
    # The traceback is taken in the same line, one element later in no frame of its own.
    assert answer["python"] == answer["traceback"]
    assert len(answer["native"]) > 5
    assert answer["native"] == answer["gdb"][-len(answer["native"]) :]


def test_gdb(environment: dict[str, str]) -> None:
    gdb = need("gdb")
    need_this_python(gdb)
    command = [gdb, "-nx", "-batch", "-ex", f"python {CODE}"]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=60)
    check_answer(environment)


def test_vim(environment: dict[str, str]) -> None:
    vim = need("vim")
    need_this_python(vim)
    need("gdb")
    command = [vim, "-es", "-u", "NONE", "-c", f"py3 {CODE}", "-c", "qa!"]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=60)
    check_answer(environment)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def ask(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert server.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                answer.read()
            return
        except ConnectionError:
            time.sleep(0.1)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


def test_uwsgi(environment: dict[str, str], tmp_path: Path) -> None:
    plugin = next(Path("/usr/lib/uwsgi/plugins").glob("python3*_plugin.so"), None)
    if plugin is None:
        pytest.skip("uwsgi's plugin for Python is not installed")
    uwsgi = need("uwsgi-core")
    need_this_python(str(plugin))
    need("gdb")
    port = free_port()
    application = tmp_path / "application.py"
    application.write_text(
        f"{IMPORT}\n"
        "def application(environ, start_response):\n"
        "    probe.run()\n"
        "    start_response('200 OK', [])\n"
        "    return [b'']\n"
    )
    command = [uwsgi, "--plugin", str(plugin), "--http-socket", f"127.0.0.1:{port}",
               "--wsgi-file", str(application), "--need-app"]  # fmt: skip
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            ask(port, server)
        finally:
            server.kill()
    check_answer(environment)


def test_lighttpd(environment: dict[str, str], tmp_path: Path) -> None:
    lighttpd = shutil.which("lighttpd") or need("/usr/sbin/lighttpd")
    magnet = Path("/usr/lib/lighttpd/mod_magnet.so")
    if not magnet.exists():
        pytest.skip("lighttpd's mod_magnet is not installed")
    linked = subprocess.run(["ldd", magnet], capture_output=True, text=True, check=False).stdout
    if "lua5.4" not in linked or not (LUA_MODULES / "stacksplice.so").exists():
        pytest.skip("mod_magnet embeds another Lua, or the module for Lua 5.4 was not built")
    port = free_port()
    config = tmp_path / "lighttpd.conf"
    config.write_text(
        'server.modules = ("mod_magnet")\n'
        f'server.document-root = "{tmp_path}"\nserver.port = {port}\n'
        'server.bind = "127.0.0.1"\n'
        f'magnet.attract-raw-url-to = ("{HERE / "magnet.lua"}")\n'
    )
    environment["LUA_CPATH"] = f"{LUA_MODULES}/?.so;;"
    command = [lighttpd, "-D", "-f", str(config)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            ask(port, server)
        finally:
            server.kill()
    lines = Path(environment["STACKSPLICE_PROBE"]).read_text().splitlines()
    found = {kind: [rest for first, _, rest in (line.partition(" ") for line in lines)
                    if first == kind] for kind in ("lua", "ours", "native")}  # fmt: skip
    # The capture stands one line above the loop that asks debug.getinfo.
    assert [re.sub(r":\d+$", "", place) for place in found["ours"]] == [
        re.sub(r":\d+$", "", place) for place in found["lua"]
    ]
    assert found["ours"][1:] == found["lua"][1:]
    assert any(name.startswith("string.gsub ") for name in found["native"])
    assert any(name.startswith("lua_pcallk ") for name in found["native"])
    assert any("mod_magnet" in name for name in found["native"])
    assert found["native"][-1].startswith("_start ")
