"""A program without stacksplice, for any CPython: threads that rest in known Python frames.

Prints what sys._getframe() says of each as one line of JSON, then waits for standard input to end.
"""

import json
import re
import sys
import threading

seen = {}


def note(name):
    frames, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        frames.append([code.co_filename, code.co_qualname, frame.f_lineno])
        frame = frame.f_back
    seen[name] = [threading.get_native_id(), frames]


def rest(name):
    note(name), resting.wait(), end.wait()


def plain(name):
    rest(name)


def mixed(name, depth=40):
    if not depth:
        rest(name)
    elif depth % 2:
        sorted([1], key=lambda value: mixed(name, depth - 1))
    else:
        re.sub("a", lambda match: mixed(name, depth - 1) or "", "a")


def generator(name):
    def inner():
        yield rest(name)

    return [value for value in inner()]


def awaited(name):
    async def inner():
        rest(name)

    async def outer():
        await inner()

    try:
        outer().send(None)
    except StopIteration:
        pass


def named(name):
    text = "class Größe:\n  def 日本(self, name):\n    rest(name)\nGröße().日本(name)"
    exec(compile(text, "ünï/日本𝄞.py", "exec"), dict(globals(), name=name))


scenarios = [plain, mixed, generator, awaited, named]
resting = threading.Barrier(len(scenarios) + 1, timeout=60)
end = threading.Event()
for scenario in scenarios:
    threading.Thread(target=scenario, args=(scenario.__name__,), daemon=True).start()
resting.wait()
print(json.dumps(seen), flush=True)
sys.stdin.read()
