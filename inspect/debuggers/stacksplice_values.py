"""Local variables of scripts, as stacksplice-inspect tells them, in the words of their language.

Like a debugger's own commands, this leaves out no secrets.
"""

import re

# As in reports: characters of a text of Python and bytes of one of Lua, items of a container, digits.
MOST, MOST_ITEMS, MOST_DIGITS = 200, 10, 100


def _items(items, text_of):
    shown = [text_of(item) for item in items[:MOST_ITEMS]]
    return ", ".join(shown + ["..."] * (len(items) > MOST_ITEMS))


def _is_left_out(told):
    return isinstance(told, dict) and told.get("type", "") is None


def _other(told, form):
    """A value of which only the type is known."""
    if _is_left_out(told):
        return "..."
    name = bytes.fromhex(told["type"]).decode(errors="replace") or "unreadable"
    return form.format(name, told["address"])


# ---- Python --------------------------------------------------------------------------------------


def _python_int(digits):
    value = 0 if digits is None else sum(digit << 30 * at for at, digit in enumerate(digits[1:]))
    if digits is None or value >= 10**MOST_DIGITS:
        return "<int, very large>"
    return str(digits[0] * value)


def _python_pair(pair):
    if _is_left_out(pair[0]):
        return "..."
    return python_text(pair[0]) + ": " + python_text(pair[1])


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
    return PYTHON[kind](content) if kind in PYTHON else _other(told, "<{} object at {:#x}>")


# ---- Lua -----------------------------------------------------------------------------------------


def _lua_float(text):
    shown = format(float.fromhex(text), ".14g")
    return shown + ".0" if shown.lstrip("-").isdigit() else shown


def _escape(found):
    character = found.group()
    if character in '"\\':
        return "\\" + character
    return "\\n" if character == "\n" else "\\{:03}".format(ord(character))


def _lua_string(content):
    value = bytes.fromhex(content)
    text = value[:MOST].decode(errors="ignore" if len(value) > MOST else "replace")
    return '"' + re.sub(r'["\\\x00-\x1f\x7f]', _escape, text) + '"' + ("..." if len(value) > MOST else "")


def _lua_key(key):
    content = key.get("bytes", "") if isinstance(key, dict) else ""
    name = bytes.fromhex(content).decode(errors="replace")
    return name if name.isidentifier() else "[" + lua_text(key) + "]"


def _lua_table(pairs):
    in_sequence = 0

    def text_of(pair):
        nonlocal in_sequence
        key, value = pair
        if _is_left_out(key):
            return "..."
        if type(key) is int and key == in_sequence + 1:
            in_sequence = key
            return lua_text(value)
        return _lua_key(key) + " = " + lua_text(value)

    return "{" + _items(pairs, text_of) + "}"


LUA = {
    "float": _lua_float,
    "bytes": _lua_string,
    "table": _lua_table,
}


def lua_text(told):
    """A value of Lua."""
    if not isinstance(told, dict):
        return "nil" if told is None else str(told).lower()
    kind, content = next(iter(told.items()))
    return LUA[kind](content) if kind in LUA else _other(told, "<{}: {:#x}>")


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
