"""How many nanoseconds a process waits until a runtime of lupa is attached and a stack below its Lua
captured.  What is attached has a Lua of its own, whose call sites are learnt then.

usage: first_lupa.py MODULE...   modules of lupa, such as lua54: a runtime of each
"""

import importlib
import sys
import time

import stacksplice

runtimes = [importlib.import_module(f"lupa.{name}").LuaRuntime() for name in sys.argv[1:]]
calls = [runtime.eval("function(f) return f() .. '' end") for runtime in runtimes]
stacksplice.capture()
begin = time.perf_counter_ns()
for runtime, call in zip(runtimes, calls, strict=True):
    stacksplice.attach(runtime)
    call(lambda: str(len(stacksplice.capture().addresses)))
print(time.perf_counter_ns() - begin)
