"""What a client of fakeredis raises has the error that left the script behind it, and is as it was."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
from fakeredis import FakeAsyncRedis, FakeRedis
if "install" in sys.argv:
    import stacksplice
    stacksplice.install()
FAILS = "local t = nil\\nlocal function f()\\n local x = t.x\\n return x\\nend\\nlocal a = f()\\nreturn a"
CALLS = "local v = redis.call('INCR', 'word')\\nreturn v"
LIBRARY = "#!lua name=shop\\nredis.register_function('total', function()\\n local t = nil\\n return t.x end)"
redis = FakeRedis()
redis.set("word", "no number")
redis.function_load(LIBRARY)

async def awaited():
    await FakeAsyncRedis().eval(FAILS, 0)

def told(function, *arguments):
    try:
        function(*arguments)
    except Exception as exc:
        print(type(exc).__name__, exc)
        cause = exc.__cause__
        if "install" in sys.argv and cause is not None:
            stack = stacksplice.error_info(cause).stack
            lines = [f.line for f in stack if f.language == "lua" and f.kind == "script" and f.file != "[C]"]
            print("cause:", type(cause).__name__, lines)

told(redis.eval, FAILS, 0)
told(redis.evalsha, redis.script_load(CALLS), 0)
told(redis.fcall, "total", 0)
told(asyncio.run, awaited())
told(redis.incr, "word")
told(redis.eval, "return redis.error_reply('mine')", 0)
if "install" in sys.argv:
    stacksplice.uninstall()
told(redis.eval, FAILS, 0)
"""


def run(*arguments, version):
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "FAKEREDIS_LUA_VERSION": version},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("version", ["5.1", "5.4"])
def test_the_error_of_a_script_is_the_cause(version):
    # Not imported here: with the symbols of its Lua, which it makes global, others of lupa crash.
    for name in ["fakeredis", "lupa"]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    plain, ours = [run("-c", PROGRAM, word, version=version) for word in ("plain", "install")]
    causes = [line for line in ours if line.startswith("cause: ")]
    assert [line for line in ours if line not in causes] == plain
    assert causes == [
        "cause: LuaError [3, 6]",
        "cause: SimpleError [1]",
        "cause: LuaError [4]",
        "cause: LuaError [3, 6]",
    ]


def test_the_program_of_the_manual():
    page = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "fakeredis.md"
    (program,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    told = run("-c", program, version="5.1")
    assert told == ["ResponseError", "f 2", "main chunk 5"]
