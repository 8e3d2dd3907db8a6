"""``dump``, ``core`` and gdb of programs that embed a Lua and have no stacksplice: a script of theirs rests.

Each is a package of Debian, installed or unpacked in the folder STACKSPLICE_PROGRAMS_ROOT.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from building import PROGRAMS_ROOT, Resting
from debugging import in_gdb
from test_core import copy_of, read
from test_dump import dumped

pytestmark = [pytest.mark.any_python, pytest.mark.skipif(sys.platform != "linux", reason="reads processes")]


# Says where it is by error(), which every host has: the last part of each file's name, and the line.
SCRIPT = r"""
local function told()
  local places = {}
  for level = 3, 40 do
    local _, place = pcall(error, "", level)
    places[#places + 1] = place:match "([^/]*:%d+):"
  end
  return table.concat(places, " ")
end
local function rest() REST end
local sorter = {sort = function() table.sort({2, 1}, function() rest() return false end) return 1 end}
local function deep(count) if count > 0 then deep(count - 1) else sorter:sort() end return 1 end
local step = function()
  string.gsub("a", ".", function() deep(1) return "b" end)
  return 1
end
pcall(function() step() return 1 end)
"""
# Opening a pipe that nobody writes to rests.
IN_FILE = """
local file = io.open("FOLDER/telling", "w") file:write(told()) file:close()
os.rename("FOLDER/telling", "FOLDER/told") io.open("FOLDER/pipe"):read() return 1
"""


def program(name: str) -> Path:
    for folder in ("bin", "sbin"):
        if (PROGRAMS_ROOT / "usr" / folder / name).exists():
            return PROGRAMS_ROOT / "usr" / folder / name
    found = shutil.which(name)
    if not found:
        pytest.skip(f"no {name}: install it, or unpack its package and name the folder")
    return Path(found)


@contextmanager
def begun(folder: Path, *arguments: str | Path, **variables: str) -> Iterator[int]:
    """A host that has begun its script."""
    machine = f"lib/{platform.machine()}-linux-gnu"
    libraries = f"{PROGRAMS_ROOT / 'usr' / machine}:{PROGRAMS_ROOT / machine}"
    log = (folder / "log").open("w")
    with ExitStack() as stack:
        stack.callback(log.close)
        child = stack.enter_context(
            Resting(
                "/bin/sh",
                "-c",
                'echo; exec "$@" > "$0" 2>&1',
                folder / "log",
                *arguments,
                cwd=folder,
                LD_LIBRARY_PATH=libraries,
                HOME=str(folder),
                **variables,
            )
        )
        yield child.pid


def wait_for(what: Callable[[], str | None], log: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def script(folder: Path, rest: str = IN_FILE) -> Path:
    os.mkfifo(folder / "pipe")
    path = folder / "script.lua"
    path.write_text(SCRIPT.replace("REST", " ".join(rest.split())).replace("FOLDER", str(folder)).lstrip())
    return path


def told_in_file(folder: Path) -> str:
    told = folder / "told"
    return wait_for(lambda: told.read_text() if told.exists() else None, folder / "log")


@contextmanager
def redis(folder: Path) -> Iterator[tuple[int, str]]:
    """A script of Redis has no files, and cannot sleep."""
    path = script(folder, 'redis.log(redis.LOG_WARNING, "told<" .. told() .. ">") while true do end')
    options = ["--port", "0", "--unixsocket", folder / "socket", "--save", "", "--daemonize", "no"]
    started = begun(folder, program("redis-server"), *options)
    with started as process, socket.socket(socket.AF_UNIX) as client:
        wait_for(lambda: "x" if (folder / "socket").exists() else None, folder / "log")
        client.connect(str(folder / "socket"))
        text = path.read_bytes()
        client.sendall(b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(text), text))
        log = folder / "log"
        yield process, wait_for(lambda: (re.findall("told<(.*?)>", log.read_text()) or [""])[0], log)


@contextmanager
def nginx(folder: Path) -> Iterator[tuple[int, str]]:
    path = script(folder)
    modules = PROGRAMS_ROOT / "usr/lib/nginx/modules"
    if not (binary := program("nginx")) or not (modules / "ngx_http_lua_module.so").exists():
        pytest.skip("no libnginx-mod-http-lua")
    (folder / "nginx.conf").write_text(f"""
daemon off; master_process off; error_log {folder}/log; pid {folder}/pid;
load_module {modules}/ndk_http_module.so;
load_module {modules}/ngx_http_lua_module.so;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  lua_package_path "{PROGRAMS_ROOT}/usr/share/lua/5.1/?.lua;;";
  server {{ listen unix:{folder}/socket; location / {{ content_by_lua_file {path}; }} }}
}}
""")
    started = begun(folder, binary, "-p", folder, "-c", folder / "nginx.conf")
    with started as process, socket.socket(socket.AF_UNIX) as client:
        wait_for(lambda: "x" if (folder / "socket").exists() else None, folder / "log")
        client.connect(str(folder / "socket"))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        yield process, told_in_file(folder)


@contextmanager
def neovim(folder: Path) -> Iterator[tuple[int, str]]:
    runtime = str(PROGRAMS_ROOT / "usr/share/nvim/runtime")
    options = ["--headless", "-u", "NONE", "-n", "-c", f"luafile {script(folder)}"]
    with begun(folder, program("nvim"), *options, VIMRUNTIME=runtime) as process:
        yield process, told_in_file(folder)


@contextmanager
def wireshark(folder: Path) -> Iterator[tuple[int, str]]:
    data = folder / "data"  # a link in an unpacked package leads out of it
    data.mkdir()
    for path in [
        *(PROGRAMS_ROOT / "usr/share/wireshark").glob("[!i]*"),
        PROGRAMS_ROOT / "etc/wireshark/init.lua",
    ]:
        (data / path.name).symlink_to(path)
    # Of root it takes no other folder for its data: in a user namespace nobody is root.
    user = ["unshare", "-U"] if PROGRAMS_ROOT != Path("/") and os.geteuid() == 0 else []
    capture = folder / "nothing.pcap"
    capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    options = ["-X", f"lua_script:{script(folder)}", "-r", capture]
    with begun(folder, *user, program("tshark"), *options, WIRESHARK_DATA_DIR=str(data)) as process:
        yield process, told_in_file(folder)


def places(stack: list[dict]) -> list[str]:
    """Without LuaJIT's own functions."""
    lua = [frame for frame in stack if frame["language"] == "lua" and frame["file"] != "[C]"]
    return [f"{Path(frame['file']).name}:{frame['line']}" for frame in lua]


@pytest.mark.parametrize(
    ("host", "more"),
    [(redis, True), (wireshark, True), (nginx, True), (neovim, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_script_of_a_program(host, more, tmp_path):
    """Of 5.1, 5.2 and LuaJIT one each also by a core file and gdb."""
    with host(tmp_path) as (process, told):
        documents = [dumped(process)]
        if more:
            documents.append(read(copy_of(process, tmp_path)))
            text = in_gdb(process, "stacksplice bt -no-source") if shutil.which("gdb") else ""
    truth = told.split()
    assert len(truth) == 9
    for document in documents:
        (seen,) = filter(None, [places(thread["stack"]) for thread in document["threads"]])
        assert seen[: len(truth)] == truth
    if more and text:
        seen = [":".join(found) for found in re.findall(r'\(Lua\) File "(?:.*/)?(.+)", line (\d+)', text)]
        assert seen[::-1][: len(truth)] == truth
