"""Tasks of asyncio that await each other in every way.  It says what it knows of them and then rests:
in Lua, which the innermost task called by the library in the second argument, or with "idle" in no task."""

import asyncio
import ctypes
import gc
import json
import os
import sys


async def sleep():
    await asyncio.sleep(1000)


def task(name, coroutine):
    return asyncio.create_task(coroutine, name=name)


async def gather():
    await asyncio.gather(*(task(f"gathered {number}", sleep()) for number in range(3)))


async def wait():
    await asyncio.wait([task("waited", sleep())])


async def shield():
    await asyncio.shield(task("shielded", sleep()))


async def group():
    async with asyncio.TaskGroup() as own:
        own.create_task(sleep(), name="grouped")


async def complete():
    for each in asyncio.as_completed([task("completed", sleep())]):
        await each


async def wait_for():
    await asyncio.wait_for(task("timed", sleep()), 1000)


async def generate():
    await asyncio.sleep(1000)
    yield 1


async def iterate():
    async for _ in generate():
        pass


async def circle(others, number):
    await asyncio.sleep(0)
    await others[number]


async def both(shared):
    await shared


async def become_ready():
    await future


class Iterated:
    """Awaits a future where nobody can see it."""

    def __await__(self):
        return map(lambda future: future, iter(asyncio.get_running_loop().create_future()))


async def hide():
    await Iterated()


def next_of(awaitable):
    """The frame of AWAITABLE, and what it awaits itself."""
    for prefix in ("cr", "gi", "ag"):
        if hasattr(awaitable, f"{prefix}_frame"):
            inner = "yieldfrom" if prefix == "gi" else "await"
            return getattr(awaitable, f"{prefix}_frame"), getattr(awaitable, f"{prefix}_{inner}")
    is_driver = type(awaitable).__name__ == "async_generator_asend"
    return None, gc.get_referents(awaitable)[0] if is_driver else None


def frames_of(each):
    rows, awaitable = [], each.get_coro()
    while awaitable is not None:
        frame, awaitable = next_of(awaitable)
        if frame is not None:
            rows.insert(0, [frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno])
    return rows


def say():
    running = asyncio.current_task() if asyncio._get_running_loop() else None
    tasks = {each.get_name(): frames_of(each) for each in asyncio.all_tasks(loop) if each is not running}
    print(json.dumps(tasks), flush=True)
    sys.stdin.read()
    os._exit(0)  # some tasks cannot be ended


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def rest(state):
    say()
    return 0


def disturb():
    """Let a task have what it waited for, and another one not begin."""
    future.set_result(None)
    made.append(task("new", sleep()))


async def call_lua():
    lua = ctypes.CDLL(sys.argv[2])
    lua.luaL_newstate.restype = ctypes.c_void_p
    state = ctypes.c_void_p(lua.luaL_newstate())
    lua.lua_pushcclosure(state, rest, 0)
    lua.lua_setglobal(state, b"rest")
    assert lua.luaL_loadstring(state, b"local function inner()\nrest() end\ninner()") == 0
    disturb()
    lua.lua_pcallk(state, 0, 0, 0, None, None)


async def call():
    await task("lua", call_lua())


async def main():
    global loop, future
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    made.extend(task(each.__name__, each()) for each in (gather, wait, shield, group, complete, wait_for))
    made.extend([task("Größe", iterate()), task("password=hunter2", sleep()), task("hide", hide())])
    made.append(asyncio.tasks._PyTask(sleep(), loop=loop, name="foreign"))
    pair = []
    pair.extend([task("circle 1", circle(pair, 1)), task("circle 2", circle(pair, 0))])
    shared = task("shared", sleep())
    made.extend([*pair, shared, task("both 1", both(shared)), task("both 2", both(shared))])
    made.append(task("ready", become_ready()))
    await asyncio.sleep(0.1)
    if sys.argv[1] == "idle":
        loop.call_soon(say)
        disturb()
        await asyncio.sleep(1000)
    await task("caller", call())


made = []
asyncio.run(main())
