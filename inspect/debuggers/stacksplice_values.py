"""Local variables of scripts, as stacksplice-inspect tells them, in the words of their language.

Like a debugger's own commands, this leaves out no secrets.
"""

from stacksplice_lua_values import value_text as lua_text

# As in reports: characters of a text, items of a container, digits.
MOST, MOST_ITEMS, MOST_DIGITS = 200, 10, 100
LEFT_OUT = "..."


def _items(items, text_of):
    shown = [text_of(item) for item in items[:MOST_ITEMS]]
    return ", ".join(shown + [LEFT_OUT] * (len(items) > MOST_ITEMS))


def _python_int(digits):
    value = 0 if digits is None else sum(digit << 30 * at for at, digit in enumerate(digits[1:]))
    if digits is None or value >= 10**MOST_DIGITS:
        return "<int, very large>"
    return str(digits[0] * value)


def _python_pair(pair):
    key, value = map(python_text, pair)
    return key if key == LEFT_OUT else key + ": " + value


def _quoted(value):
    return repr(value[:MOST]) + ("..." if len(value) > MOST else "")


PYTHON = {
    "int": _python_int,
    "float": lambda text: repr(float.fromhex(text)),
    "bytes": lambda text: _quoted(bytes.fromhex(text)),
    "list": lambda items: "[" + _items(items, python_text) + "]",
    "tuple": lambda items: "(" + _items(items, python_text) + (",)" if len(items) == 1 else ")"),
    "set": lambda items: "{" + _items(items, python_text) + "}" if items else "set()",
    "frozenset": lambda items: "frozenset(" + (PYTHON["set"](items) if items else "") + ")",
    "dict": lambda items: "{" + _items(items, _python_pair) + "}",
}


def python_text(told):
    """A value of Python."""
    if isinstance(told, str):
        return _quoted(told)
    if not isinstance(told, dict):
        return repr(told)
    kind, content = next(iter(told.items()))
    if kind in PYTHON:
        return PYTHON[kind](content)
    if content is None:
        return LEFT_OUT
    name = bytes.fromhex(content).decode(errors="replace") or "unreadable"
    return "<{} object at {:#x}>".format(name, told["address"])


def _plain(told, text):
    """What was TOLD of a number of 64 bits or a string is itself, else its TEXT."""
    if isinstance(told, dict) and isinstance(told.get("bytes"), str) and text.startswith('"'):
        return bytes.fromhex(told["bytes"]).decode(errors="replace")  # a string of Lua
    is_plain = isinstance(told, str) or type(told) is int and abs(told) < 1 << 63
    return told if is_plain else text


def locals_of(frame):
    """(name, text) of each local variable of FRAME of a script, by name."""
    text_of = lua_text if frame["language"] == "lua" else python_text
    return [(name, text_of(told)) for name, told in sorted(frame.get("locals", {}).items())]


def plain_locals_of(frame):
    """(name, number or text) of each, for debuggers that put texts in quotes of their own."""
    return [(name, _plain(frame["locals"][name], text)) for name, text in locals_of(frame)]
