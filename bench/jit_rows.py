"""What LuaJIT's traces pay that call C: a call that has nothing to do with stacksplice, and a capture.

usage: jit_rows.py [OPTION of the harness...]
"""

import json
import sys

import bench_bridge as bridge
import stacksplice

CALLS = 1000
ROWS = (
    f"LuaJIT, {CALLS} calls of C from a trace",
    f"LuaJIT, {CALLS} captures from a trace",
)
SOURCE = """
local ffi = require "ffi"
ffi.cdef [[
    long labs(long);
    int stacksplice_capture(uint32_t, uint32_t, uintptr_t *, uint32_t *, uint32_t *);
]]
local core, frames, count = ffi.load(...), ffi.new("uintptr_t[256]"), ffi.new("uint32_t[1]")

local function call(times)
    local sum = 0LL
    for i = 1, times do
        sum = sum + ffi.C.labs(i)
    end
    return tonumber(sum)
end

local function capture(times)
    for _ = 1, times do
        core.stacksplice_capture(0, 256, frames, count, nil)
    end
    return count[0]
end

return call, capture
"""


def core():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libstacksplice.so" in line)


def functions(lupa, attached):
    runtime = lupa.LuaRuntime()
    if attached:
        stacksplice.attach(runtime)
    call, capture = runtime.execute(SOURCE, core())
    assert call(CALLS) == CALLS * (CALLS + 1) // 2 and capture(CALLS) > 1
    return call, capture


def main():
    bridge.options(sys.argv)
    try:
        import lupa.luajit21 as lupa
    except ImportError:
        for row in filter(bridge.wants, ROWS):
            print(json.dumps({"row": row, "method": "stacksplice", "unavailable": "lupa is not installed"}))
        return
    # A runtime that is not attached comes first: what is learnt is learnt for the copy of Lua.
    (bare, _), (call, capture) = functions(lupa, False), functions(lupa, True)
    methods = [
        [("bare", None, lambda _=None: bare(CALLS)), ("stacksplice", None, lambda _=None: call(CALLS))]
    ]
    methods.append([("stacksplice", None, lambda _=None: capture(CALLS))])
    for row, of_row in zip(ROWS, methods, strict=True):
        bridge.row(row, 0, of_row)


main()
