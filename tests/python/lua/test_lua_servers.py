"""What docs/how-to/lua-servers.md shows, in programs that run the real LuaSocket, copas, cqueues and luaunit.

They are packages of Debian, installed or unpacked in the folder STACKSPLICE_PROGRAMS_ROOT.
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


RAISE = '  error("no rate for " .. currency)'
QUEUES = """
local cqueues, stacksplice = require "cqueues", require "stacksplice"
stacksplice.install{pcall = true}
REPORTED
local function rate(currency)
  cqueues.sleep(0.001)
  error("no rate for " .. currency)
end
local function raise_again()
  local ok, found = pcall(rate, "USD")
  if not ok then error(found, 0) end
  return found
end
local function parse()
  error({code = 7, message = "no rate"})
end
local function wrap()
  local next_rate = coroutine.wrap(function() parse() end)
  local found = next_rate()
  return found
end
for _, job in ipairs{raise_again, wrap} do
  for _, body in ipairs{reported(job), job} do
    local queue = cqueues.new()
    queue:wrap(body)
    print("ended", queue:loop(60))
  end
end
"""


COPAS = """
io.stdout:setvbuf "no"
local copas, socket, stacksplice = require "copas", require "socket", require "stacksplice"
INSTALL
local function rate(currency)
  if currency ~= "EUR" then error({code = 7, message = "no rate for " .. currency}) end
  return 1
end
local function convert(currency)
  local next_rate = coroutine.wrap(function() local found = rate(currency) return found end)
  local found = next_rate()
  return found
end
local function answer(client)
  HANDLER
  local currency = copas.receive(client)
  local found = convert(currency)
  copas.send(client, found .. "\\n")
end
local server = assert(socket.bind("127.0.0.1", 0))
copas.addserver(server, answer)
print((select(2, server:getsockname())))
copas.loop()
"""


def shown_lines(server: str) -> str:
    """The lines of the page for a SERVER, which this begins."""
    page = (ROOT / "docs/how-to/lua-servers.md").read_text(encoding="utf-8")
    return re.search(rf"^{server} .*?```text\n(.*?)```", page, re.DOTALL | re.MULTILINE)[1]


def lua_with(module: str, package: str) -> tuple[str, dict[str, str]]:
    """A Lua and its variables, by which it finds stacksplice and MODULE, which Debian's PACKAGE has."""
    lua, variables = lua_with_stacksplice()
    root = str(PROGRAMS_ROOT).rstrip("/")
    # What is written in Lua alone may be there for an older version only.
    own = ";".join(f"{root}/usr/share/lua/{version}/?.lua" for version in ("5.4", "5.3", "5.2"))
    native = f"{root}/usr/lib/{platform.machine()}-linux-gnu/lua/5.4/?.so"
    variables |= {"LUA_PATH_5_4": f"{own};;", "LUA_CPATH_5_4": f"{variables['LUA_CPATH']};{native};;"}
    if subprocess.run([lua, "-e", f"require '{module}'"], env=variables, capture_output=True).returncode:
        pytest.skip(f"{module} (Debian: {package}) is neither installed nor in STACKSPLICE_PROGRAMS_ROOT")
    return lua, variables


def answers_of(port: int) -> list[bytes]:
    """What a server at PORT answers to a currency without a rate, and to one that has one."""
    answers = []
    for currency in (b"USD\n", b"EUR\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(currency)
            answers.append(client.makefile("rb").read())
    return answers


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def test_a_server_of_luasocket_writes_the_report_and_goes_on(tmp_path):
    lua, variables = lua_with("socket", "lua-socket")
    (tmp_path / "server.lua").write_text(SERVER.replace("HANDLER", shown_lines("LuaSocket")))
    with subprocess.Popen([lua, "server.lua"], cwd=tmp_path, env=variables, **PIPES) as server:
        answers = answers_of(int(server.stdout.readline()))
        _, told = server.communicate(timeout=60)
    assert answers == [b"", b"1\n"] and server.returncode == 0
    assert told.startswith('{code = 7, message = "no rate for USD"}\nstack traceback:\n')
    assert re.search(r"server\.lua:6: in function <server\.lua:4>\n", told)


@pytest.mark.parametrize("with_handler", [False, True])
def test_a_server_of_copas_tells_the_frames_of_its_coroutines_and_goes_on(tmp_path, with_handler):
    """Without the page's handler it prints the table's address and its coroutine."""
    lua, variables = lua_with("copas", "lua-copas")
    install, _, handler = shown_lines("copas").partition("\n")
    program = COPAS.replace("INSTALL", install).replace("HANDLER", handler if with_handler else "")
    (tmp_path / "server.lua").write_text(program)
    lines = [line.strip() for line in program.splitlines()]
    with subprocess.Popen([lua, "server.lua"], cwd=tmp_path, env=variables, **PIPES) as server:
        answers = answers_of(int(server.stdout.readline()))
        server.kill()
        printed, told = server.communicate(timeout=60)
    assert answers == [b"", b"1\n"]
    if not with_handler:
        assert told == "" and re.fullmatch(r"table: 0x\S+\tthread: 0x\S+\ttcp\{client\}: 0x\S+\n", printed)
        return
    first, *frames = told.splitlines()
    failed = next(number for number, line in enumerate(lines, 1) if line.startswith('if currency ~= "EUR"'))
    resumed = lines.index("local found = next_rate()") + 1
    answering = lines.index("local found = convert(currency)") + 1
    assert printed == "" and first == '{code = 7, message = "no rate for USD"}'
    shown = "\n".join(frames)
    assert re.search(rf'"server\.lua", line {failed}, in rate\n', shown)
    assert re.search(
        r"\[gap: the coroutine ended here; its caller had resumed it\]\n"
        rf'.*"server\.lua", line {resumed}, in convert\n'
        rf'.*"server\.lua", line {answering}, in function <server\.lua:\d+>\n'
        r'.*copas\.lua", line \d+, in _doTick\n',
        shown,
    )


def shown_function(name: str) -> str:
    """The function of the page that wraps others."""
    page = (ROOT / "docs/how-to/lua-servers.md").read_text(encoding="utf-8")
    return re.search(rf"^local function {name}.*?^end$", page, re.DOTALL | re.MULTILINE)[0]


def test_a_queue_of_cqueues_tells_where_an_error_began(tmp_path):
    """After a timer, raised again by the caller of `pcall`, and in a coroutine; without, the value alone."""
    lua, variables = lua_with("cqueues", "lua-cqueues")
    (tmp_path / "queues.lua").write_text(QUEUES.replace("REPORTED", shown_function("reported")))
    command = [lua, "queues.lua"]
    ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = (tmp_path / "queues.lua").read_text().splitlines()
    again, first, wrapped, second, alone = re.split(r"^ended\t", ran.stdout, flags=re.MULTILINE)
    failed, _, wrapped = wrapped.partition("\n")

    def in_order(text: str, *expected: str) -> bool:
        """Whether TEXT has these: lines of the script, or gaps."""
        found = (f"line {lines.index(e) + 1}, in" if e in lines else e for e in expected)
        return re.search(".*".join(map(re.escape, found)), text, re.DOTALL) is not None

    assert in_order(
        again,
        RAISE,
        "[gap: caught by pcall here, raised again]",
        "  if not ok then error(found, 0) end",
        "cqueues.lua",
    )
    assert in_order(
        wrapped,
        '  error({code = 7, message = "no rate"})',
        "  local next_rate = coroutine.wrap(function() parse() end)",
        "[gap: the coroutine ended here; its caller had resumed it]",
        "  local found = next_rate()",
        "cqueues.lua",
    )
    assert first == second == "true\n"
    place = f"queues.lua:{lines.index(RAISE) + 1}"
    assert re.fullmatch(rf"false\t{place}: no rate for USD\tnil\tthread: \S+", failed)
    assert re.fullmatch(r"false\ttable: \S+\tnil\tthread: \S+\n", alone)


UNIT = """
local luaunit, stacksplice = require "luaunit", require "stacksplice"
stacksplice.install()
TOLD
local function fail() error("no rate for USD") end
local function in_coroutine(f)
  coroutine.wrap(function() f() end)()
end
TestOfRates = {
  test_bare = function() in_coroutine(fail) end,
  test_told = told(function() in_coroutine(fail) end),
  test_wrong = told(function() luaunit.assertEquals(1, 2) end),
  test_right = told(function() luaunit.assertEquals(1, 1) end),
}
os.exit(luaunit.LuaUnit.run())
"""


def test_luaunit_counts_as_before_and_the_text_has_the_coroutine(tmp_path):
    lua, variables = lua_with("luaunit", "lua-unit")
    (tmp_path / "rates.lua").write_text(UNIT.replace("TOLD", shown_function("told")))
    command = [lua, "rates.lua", "--output", "text"]
    ran = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120)
    lines = (tmp_path / "rates.lua").read_text().splitlines()
    fails = 1 + next(i for i, line in enumerate(lines) if line.startswith("local function fail"))
    printed, _, summary = ran.stdout.partition("Tests with errors:")
    assert re.search(
        rf"^\trates\.lua:{fails}: in function 'f'\n.*^\t\.\.\.\t\(lua: the coroutine ended here",
        printed,
        re.DOTALL | re.MULTILINE,
    )
    assert f"\trates.lua:{fails}: in" not in summary  # what luaunit itself shows
    assert summary.rstrip().endswith("1 success, 1 failure, 2 errors") and ran.returncode == 3
