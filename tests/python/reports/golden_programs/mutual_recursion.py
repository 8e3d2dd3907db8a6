"""Two functions, one in each language, that call each other for ever."""

from shop import lua


def visit(node):
    return lua.globals().walk(node)


lua.globals().visit = visit
lua.execute("function walk(node) return 1 + visit(node) end")
visit(0)
