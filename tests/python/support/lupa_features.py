"""Prints what lupa does in many small cases: lupa_features.py LUA [install].  Addresses are left out."""

from __future__ import annotations

import importlib
import re
import sys

if "install" in sys.argv:
    import stacksplice

    stacksplice.install()

lupa = importlib.import_module(f"lupa.{sys.argv[1]}")
ADDRESS = re.compile(r"(0x|: )[0-9a-f]{6,}")

# Raised by Python below Lua, each as the function of that name.
RAISED = {
    "key": KeyError("k"),
    "lines": ValueError("a\nb"),
    "odd": ValueError("ü€\udc80"),
    "memory": MemoryError("m"),
    "stop": StopIteration(4),
    "interrupt": KeyboardInterrupt(),
    "leave": SystemExit(3),
    "close": GeneratorExit(),
}
# Errors with values of every kind, in every place where a script may raise or catch one.
SCRIPTS = """
error('x')
error('x', 0)
error('a\\nb\\nc')
error('')
error('\\255\\254')
error({})
error({code = 1})
error(nil)
error(42)
error(true)
error(print)
error(setmetatable({}, {__tostring = function() return 'text' end}))
error(setmetatable({}, {__tostring = function() error('inner') end}))
error(setmetatable({}, {__tostring = function() key() end}))
x(
return nil + 1
return key < 3
return key.x.y
return pcall(key)
return select('#', pcall(interrupt))
return tostring(select(2, pcall(key)))
local ok, e = pcall(key) error(e)
local ok, e = pcall(error, 'x') error(e, 0)
return xpcall(key, function(e) return tostring(e) end)
return xpcall(error, debug.traceback, 'x')
return debug.traceback('hi', 1)
return coroutine.wrap(function() key() end)()
return coroutine.wrap(function() error('inside') end)()
return coroutine.wrap(function() error({}) end)()
return coroutine.resume(coroutine.create(function() key() end))
return coroutine.resume(coroutine.create(function() error('inside') end))
local f = coroutine.wrap(function() end) f() f()
return python.eval('1/0')
return python.eval('(')
return python.as_attrgetter(key).missing
for x in python.iter({1, 2}) do key() end
return (function() return error('tail') end)()
string.rep()
coroutine.resume(1)
xpcall(error, debug.traceback) error(select(2, xpcall(error, debug.traceback, 'x')))
error(debug.traceback('text', 1))
error(debug.traceback(coroutine.create(print)))
local t <close> = setmetatable({}, {__close = function() key() end}) error('first')
local t <close> = setmetatable({}, {__close = function() error('second') end}) key()
return load('x(')
return load(function() key() end)
return require('no_such_module')
return table.sort({3, 2, 1}, function() key() end)
return string.gsub('abc', '.', function() key() end)
return #key
setmetatable({}, {__gc = function() key() end}) collectgarbage() collectgarbage()
setmetatable({}, {__gc = function() error('late') end}) collectgarbage() collectgarbage()
""".strip().splitlines()
OPTIONS: list[dict[str, object]] = [
    {},
    {"unpack_returned_tuples": True},
    {"attribute_filter": lambda owner, name, is_setting: name},
    {"register_eval": False},
    {"register_builtins": False},
    {"encoding": None},
    {"encoding": "latin-1"},
    {"overflow_handler": float},
    {"max_memory": 10_000_000},
]


def show(label: str, function, *arguments) -> None:
    try:
        told = repr(function(*arguments))
    except BaseException as exc:
        related = type(exc.__cause__).__name__, type(exc.__context__).__name__, exc.__suppress_context__
        notes = getattr(exc, "__notes__", None)
        told = repr((type(exc).__module__, type(exc).__name__, str(exc), exc.args, related, notes))
    print(label, "->", ADDRESS.sub(r"\1ADDRESS", told), flush=True)


def raiser(exc: BaseException):
    def function(*_):
        raise exc

    return function


class Case:
    """One runtime with the functions of RAISED."""

    def __init__(self, options: dict[str, object]) -> None:
        self.encodes = options.get("encoding", True) is None
        self.runtime = lupa.LuaRuntime(**options)
        for name, exc in RAISED.items():
            self.put(name, raiser(exc))

    def text(self, text: str) -> str | bytes:
        return text.encode() if self.encodes else text

    def put(self, name: str, value: object) -> None:
        self.runtime.globals()[self.text(name)] = value

    def run(self, source: str) -> object:
        return self.runtime.execute(self.text(source))

    def eval(self, source: str):
        return self.runtime.eval(self.text(source))

    def scripts(self) -> None:
        for name in RAISED:
            show(name, self.run, f"{name}()")
        for source in SCRIPTS:
            show(source, self.run, source)
        show("eval", self.eval, "x(")
        show("compile", self.runtime.compile, self.text("x("))
        raises = self.eval("function(...) error(...) end")
        for value in ("text", b"bytes", None, 3, [1], KeyError("object"), object):
            show(f"error of {value!r}", raises, value)
        meta = self.eval("setmetatable({}, {__index = function() key() end, __len = function() x() end})")
        show("index", lambda: meta.foo)
        show("len", len, meta)

    def coroutines(self) -> None:
        for source in ("key()", "error('inside')", "interrupt()", "coroutine.yield(2)"):
            coroutine = self.eval(f"function(a) coroutine.yield(a) {source} end").coroutine(1)
            for _ in range(3):
                show(f"next, then {source}", next, coroutine)
            coroutine = self.eval(f"function(a) coroutine.yield(a) {source} end").coroutine(1)
            for value in (None, 3, 4):
                show(f"send, then {source}", coroutine.send, value)

    def overflow(self) -> None:
        """With one runtime only: it takes as long as all the rest."""
        source = "local function f() return f() + 1 end f()"
        show(source, self.run, source)

    def recursion(self) -> None:
        def nest(depth: int) -> object:
            if depth == 0:
                raise KeyError("deep")
            return self.runtime.globals()[self.text("again")](depth - 1)

        self.put("nest", nest)
        self.run("function again(depth) local result = nest(depth) return result end")
        show("30 deep", nest, 30)

    def late(self) -> None:
        """An error of Lua below a finalizer of Python."""
        fails = self.eval("function() error('late') end")

        class Late:
            def __del__(self) -> None:
                fails()

        sys.unraisablehook = lambda told: print("unraisable", repr(told.exc_value)[:60])
        Late()

    def without_memory(self) -> None:
        """While Lua runs out of memory, and while our own code asks it for some."""
        runtime = self.runtime
        for _ in range(3):
            show("tables", self.run, "local t = {} while true do t[#t + 1] = {} end")
            show("strings", self.run, "local s = 'x' while true do s = s .. s end")
        for rest in (1, 2000, 20000):
            runtime.set_max_memory(runtime.get_memory_used() + rest)
            for source in ("key()", "error('x')", "error({})", "coroutine.wrap(function() key() end)()"):
                try:
                    self.run(source)
                except (KeyError, lupa.LuaError, MemoryError):
                    pass
        runtime.set_max_memory(0)
        show("afterwards", self.run, "return 5")


for options in OPTIONS:
    print("==", *options)
    if "max_memory" in options and sys.argv[1] == "luajit20":
        continue  # its memory cannot be limited
    case = Case(options)
    case.scripts()
    case.coroutines()
    case.recursion()
    case.late()
    if not options:
        case.overflow()
    if "max_memory" in options:
        case.without_memory()
