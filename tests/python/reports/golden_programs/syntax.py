"""Chunks that cannot be compiled: in a string, in a module, and in a string that Lua compiles."""

from pathlib import Path

import stacksplice
from shop import lua

BROKEN = "local x = 1\nfunction tax(amount, rate\n  return amount * rate\nend\n"
folder = Path("a_folder_with_a_long_name/and_another_one_inside_of_that_one")
folder.mkdir(parents=True)
(folder / "broken.lua").write_text(BROKEN)
lua.execute(f"package.path = '{folder}/?.lua'")
lua.execute("function compile(code) return assert(load(code)) end")
calls = [
    lambda: lua.execute(BROKEN),
    lambda: lua.require("broken"),
    lambda: lua.globals().dofile(str(folder / "broken.lua")),
    lambda: lua.globals().compile(BROKEN),
]
for call in calls:
    try:
        call()
    except Exception as error:
        print("".join(stacksplice.format_exception(error)))
