"""What a report costs: stacksplice beside Python's traceback module, on the same exception.

usage: report_rows.py [OPTION of the harness...]    the rows of places that were reported before
       report_rows.py --first METHOD [mixed]        nanoseconds of the first report of this process
"""

import os
import sys
import tempfile
import traceback

import bench_once
import stacksplice

FRAMES = 50
METHODS = {
    "stacksplice.format_exception": stacksplice.format_exception,
    "traceback.format_exception": traceback.format_exception,
}
# How one function calls the next: no two frames have the same line of source.
CALLS = [
    "    return {next}(number + {this}, name) + number * {this}",
    "    values = [{next}(number, name=name)]\n    return values",
    "    return NAMES[name] if name == 'other {this}' else {next}(\n        number,\n        name,\n    )",
    "    result = str({next}(number, f'{{name}} {this}')) + 'text' + str(len('abc'))\n    return result",
    "    for size in range(3):\n        name = {next}(size, name)\n    return name",
]
LUA = """
function call(path, depth) return py(path, depth) + 0 end
"""


def source(mixed):
    """A function for each frame but that of the caller; every fifth calls through Lua if MIXED."""
    yield "NAMES = {}"
    last = FRAMES - 2
    for this in range(last):
        call = CALLS[this % len(CALLS)].format(this=this, next=f"step_{this + 1}")
        if mixed and this % 5 == 4:
            call = f"    return call_lua('call', number, {this + 1}) + number"
        yield f"def step_{this}(number, name='a name'):\n{call}\n"
    yield f"def step_{last}(number, name):\n    return NAMES[name] + number\n"


def exception(folder, mixed):
    """An exception of that many frames of Python, each of another place."""
    names = {}
    if mixed:
        import bench_bridge as bridge

        bridge.setup(LUA)
        bridge.set_py(lambda number, step: names[f"step_{step}"](number, "a name"))
        names["call_lua"] = bridge.call_lua
    path = os.path.join(folder, "steps_mixed.py" if mixed else "steps.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n\n".join(source(mixed)))
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    try:
        names["step_0"](1)
    except KeyError as exc:
        return exc


def check(exc, mixed):
    """The same report of Python's frames, with the Lua frames where there are some."""
    ours, theirs = ("".join(method(exc)) for method in METHODS.values())
    names = [frame.name for frame in traceback.extract_tb(exc.__traceback__)]
    assert len([name for name in names if name.startswith("step_")]) == FRAMES - 1
    assert ours.count("  (Lua) ") >= (FRAMES - 2) // 5 if mixed else ours == theirs, ours


def first(folder, method, mixed):
    exc = exception(folder, mixed)
    bench_once.begin()
    text = METHODS[method](exc)
    bench_once.end()
    assert text


def rows(folder):
    import bench_bridge as bridge

    bridge.options(sys.argv)
    for row, mixed in (
        ("Python, a report of 50 frames", False),
        ("Python and Lua, a report of 50 frames", True),
    ):
        if not bridge.wants(row):
            continue
        exc = exception(folder, mixed)
        check(exc, mixed)
        methods = [
            (name, None, lambda _=None, method=method: method(exc)) for name, method in METHODS.items()
        ]
        bridge.row(row, FRAMES, methods)
        stacksplice.take_error()


def main():
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:2] == ["--first"]:
            first(folder, sys.argv[2], "mixed" in sys.argv[3:])
        else:
            rows(folder)


main()
