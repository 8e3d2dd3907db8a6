"""What data has of an error that a thread pool handed on: its stack, the JSON, and Sentry's event."""

import concurrent.futures
import json

import shop
import stacksplice
import stacksplice.sentry


def work():
    return shop.total(3, "XAU")


def handler():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def of_scripts(frames):
    """The functions of FRAMES in Python and Lua, the outermost first."""
    names = [frame.get("function") for frame in frames]
    return [name for name in names if name in ("<module>", "handler", "work", "total", "rate")]


try:
    handler()
except KeyError as error:
    info = stacksplice.error_info(error)
    event = stacksplice.sentry.event(info)
    print("stack ", of_scripts([{"function": frame.function} for frame in info.stack])[::-1])
    print("json  ", of_scripts(json.loads(info.to_json())["stack"])[::-1])
    print("sentry", of_scripts(event["exception"]["values"][-1]["stacktrace"]["frames"]))
