"""Threads of a Python without stacksplice in known states: test_dump_states looks at them from outside.

The thread "one" does what the argument says.  Nobody has to give up the GIL, so while "one" has it the
main thread, which waits until "one" has begun, waits for the GIL.
"""

import gc
import sys
import threading
import time


def loop():
    while True:
        pass


def collect(act):
    def called(phase, info):
        if phase == "start":
            gc.callbacks.clear()
            act()

    gc.callbacks.append(called)
    gc.collect()


def loop_inside():
    """In a second interpreter: with a GIL of its own from 3.12 on."""
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    own = {"config": "isolated"} if sys.version_info >= (3, 13) else {"isolated": True}
    number = interpreters.create(**own)
    source = "import threading\nthreading.current_thread().name = 'inner'\nwhile True:\n    pass"
    interpreters.run_string(number, source)


HOW = {
    "loop": loop,
    "collection": lambda: collect(loop),
    "lent": lambda: collect(lambda: time.sleep(1000)),
    "inside": loop_inside,
}

sys.setswitchinterval(1000)
threading.Thread(target=time.sleep, args=(1000,), name="asleep \u2713", daemon=True).start()
print(flush=True)
threading.Thread(target=HOW[sys.argv[1]], name="one", daemon=True).start()
time.sleep(1000)
