"""What docs/how-to/lua-servers.md says of nginx, in the real one with its Lua module and LuaJIT.

They are packages of Debian, installed or unpacked in the folder STACKSPLICE_PROGRAMS_ROOT.  They bring a
LuaJIT of their own, beside which Debian's other one, which test_luas.py runs, cannot be installed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
import test_luas as luas

ROOT = Path(os.environ.get("STACKSPLICE_PROGRAMS_ROOT", "/"))
MODULES = ROOT / "usr/lib/nginx/modules"
CONFIGURATION = """
daemon off; master_process off; error_log FOLDER/log; pid FOLDER/pid;
load_module MODULES/ndk_http_module.so;
load_module MODULES/ngx_http_lua_module.so;
events {}
http {
  access_log off;
  client_body_temp_path FOLDER/1; proxy_temp_path FOLDER/2; fastcgi_temp_path FOLDER/3;
  uwsgi_temp_path FOLDER/4; scgi_temp_path FOLDER/5;
  lua_package_path "FOLDER/?.lua;ROOT/usr/share/lua/5.1/?.lua;;";
  lua_package_cpath "STACKSPLICE/?.so;;";
  server {
    listen unix:FOLDER/socket;
    location / { content_by_lua_block { require("rates")[ngx.var.uri:sub(2)]() } }
  }
}
"""
RATES = """
local stacksplice = require "stacksplice"
REPORTED
local function rate(currency)
  ngx.sleep(0.001)
  error({code = 7, message = "no rate for " .. currency})
end
local function answer()
  local found = rate("USD")
  return found
end
local function wrap()
  local next_rate = coroutine.wrap(answer)
  local found = next_rate()
  return found
end
return {
  bare = answer,
  told = function() ANSWERED end,
  later = function() ngx.timer.at(0, reported(answer)) ngx.say "accepted" end,
  spawned = function() ngx.thread.wait(ngx.thread.spawn(reported(answer))) ngx.say "waited" end,
  wrapped = function() if not reported(wrap)() then ngx.say "seen" end end,
  told_in_wrapped = function() coroutine.wrap(reported(answer))() ngx.say "went on" end,
}
"""


def rates() -> str:
    """RATES with what the page shows: its function, which writes as it says for nginx, and the answer."""
    page = (luas.ROOT / "docs/how-to/lua-servers.md").read_text(encoding="utf-8")
    write = re.search(r"^\| nginx .*`(ngx\.log\(.*?\))` \|", page, re.MULTILINE)[1]
    reported = re.search(r"^local function reported.*?^end$", page, re.DOTALL | re.MULTILINE)[0]
    answered = re.search(r"^if not reported\(answer\).*$", page, re.MULTILINE)[0]
    return RATES.replace("REPORTED", reported.replace("print(text)", write)).replace("ANSWERED", answered)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Called with a path: the answer of nginx, and what it writes to its log meanwhile."""
    found = shutil.which("nginx", path=f"{ROOT / 'usr/sbin'}:{os.environ['PATH']}")
    if not found or not (MODULES / "ngx_http_lua_module.so").exists():
        pytest.skip("nginx with its Lua module (Debian: libnginx-mod-http-lua) is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    names = {
        "FOLDER": folder,
        "MODULES": MODULES,
        "ROOT": str(ROOT).rstrip("/"),
        "STACKSPLICE/": f"{luas.lua_module('luajit')}/",
    }
    text = CONFIGURATION
    for name, value in names.items():
        text = text.replace(name, str(value))
    (folder / "nginx.conf").write_text(text)
    (folder / "rates.lua").write_text(rates())
    log = folder / "log"

    def ask(path: str) -> tuple[str, str]:
        before = log.stat().st_size
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(folder / "socket"))
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = client.makefile("rb").read()
        deadline = time.monotonic() + 60
        while not (told := log.read_text()[before:]).endswith("\n") and time.monotonic() < deadline:
            time.sleep(0.01)
        return answer.decode(), told

    libraries = ROOT / "usr/lib" / sysconfig.get_config_var("MULTIARCH")
    environment = {**os.environ, **({} if ROOT == Path("/") else {"LD_LIBRARY_PATH": str(libraries)})}
    command = [found, "-p", folder, "-c", folder / "nginx.conf"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 60
            with socket.socket(socket.AF_UNIX) as client:  # the file is there before anybody listens
                while client.connect_ex(str(folder / "socket")) and process.poll() is None:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            assert process.poll() is None, process.stderr.read()
            yield ask
            assert process.poll() is None  # no error has ended it
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def place(line: str) -> str:
    return f"rates.lua:{rates().splitlines().index(line) + 1}: in function"


RAISE, CALL = '  error({code = 7, message = "no rate for " .. currency})', '  local found = rate("USD")'


@pytest.mark.parametrize(
    "path, status",
    [("told", 500), ("later", 200), ("spawned", 200), ("told_in_wrapped", 200)],
)
def test_the_log_has_the_value_and_the_frames(server, path, status):
    answer, told = server(f"/{path}")
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert ': {code = 7, message = "no rate for USD"}\nstack traceback:\n' in told
    assert told.index(place(RAISE)) < told.index(place(CALL)) < told.index("in function 'xpcall'")
    assert "aborted" not in told and "unknown reason" not in told


@pytest.mark.parametrize("path", ["bare", "wrapped"])
def test_without_the_function_nginx_knows_no_reason(server, path):
    """Also where a coroutine that nginx resumes is within the function, as the page says."""
    answer, told = server(f"/{path}")
    assert answer.startswith("HTTP/1.1 500 ") and "seen" not in answer
    assert "lua entry thread aborted: runtime error: unknown reason\n" in told and "no rate" not in told
