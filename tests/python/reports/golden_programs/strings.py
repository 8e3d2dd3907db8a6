"""Code that came as a string: with lupa's name, with its text as the name, with the name of another."""

import stacksplice
from shop import lua

CODE = "function tax(amount)\n  return amount * rate('XAU')\nend"
lua.execute(CODE.replace("'XAU'", "'EUR'"), name="taxes")
for name in (None, CODE, "taxes"):
    lua.execute(CODE, name=name)
    try:
        lua.globals().tax(3)
    except KeyError as error:
        print("".join(stacksplice.format_exception(error)))
