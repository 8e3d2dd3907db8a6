"""The error handler that docs/how-to/lua-servers.md shows, in a server of the real LuaSocket.

It is a package of Debian, installed or unpacked in the folder STACKSPLICE_PROGRAMS_ROOT.
"""

from __future__ import annotations

import platform
import re
import socket
import subprocess

import pytest
from building import PROGRAMS_ROOT, ROOT, lua_with_stacksplice

pytestmark = pytest.mark.any_python

SERVER = """
local socket, stacksplice = require "socket", require "stacksplice"
local server = assert(socket.bind("127.0.0.1", 0))
local function answer(client)
  local currency = client:receive()
  if currency ~= "EUR" then error({code = 7, message = "no rate for " .. currency}) end
  client:send("1\\n")
end
print((select(2, server:getsockname()))) io.flush()
for _ = 1, 2 do
  local client = server:accept()
  HANDLER
  client:close()
end
"""


def shown_lines() -> str:
    """The two lines of the page."""
    page = (ROOT / "docs/how-to/lua-servers.md").read_text(encoding="utf-8")
    return re.search(r"LuaSocket alone .*?```text\n(.*?)```", page, re.DOTALL)[1]


def test_a_server_of_luasocket_writes_the_report_and_goes_on(tmp_path):
    lua, variables = lua_with_stacksplice()
    names = ("/usr/share/lua/5.4/?.lua", f"/usr/lib/{platform.machine()}-linux-gnu/lua/5.4/?.so")
    own, native = (f"{str(PROGRAMS_ROOT).rstrip('/')}{name}" for name in names)
    variables |= {"LUA_PATH_5_4": f"{own};;", "LUA_CPATH_5_4": f"{variables['LUA_CPATH']};{native};;"}
    if subprocess.run([lua, "-e", "require 'socket'"], env=variables, capture_output=True).returncode:
        pytest.skip("LuaSocket (Debian: lua-socket) is neither installed nor in STACKSPLICE_PROGRAMS_ROOT")
    (tmp_path / "server.lua").write_text(SERVER.replace("HANDLER", shown_lines()))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([lua, "server.lua"], cwd=tmp_path, env=variables, **pipes) as server:
        port = int(server.stdout.readline())
        answers = []
        for currency in (b"USD\n", b"EUR\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(currency)
                answers.append(client.makefile("rb").read())
        _, told = server.communicate(timeout=60)
    assert answers == [b"", b"1\n"] and server.returncode == 0
    assert told.startswith('{code = 7, message = "no rate for USD"}\nstack traceback:\n')
    assert re.search(r"server\.lua:6: in function <server\.lua:4>\n", told)
