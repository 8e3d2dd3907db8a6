"""Programs of calls: from a tree of (language, kind, children) to Python and Lua source.

Each function keeps the log: `enter` with its name as the stack will show it, `at` with the line of
the call it is about to make, `leave`.
"""

from shown_frames import shown

# A function F whose stack, outermost first, is F and then NAME: where the calls are.  EXPRESSION makes
# F call NAME, DEFINITION holds the body of NAME behind a line that ends in a colon.
PYTHON = {
    "plain": None,
    "generator": ("for _ in gen{n}(): pass", "gen{n}", "def gen{n}():", "yield", ()),
    "lambda_key": ("sorted([0], key=key{n})", "key{n}", "def key{n}(_):", "return 0", ()),
    "mapped": ("list(map(key{n}, [0]))", "key{n}", "def key{n}(_):", "return 0", ()),
    "init": ("C{n}()", "C{n}.__init__", "class C{n}:|def __init__(self):", "return", ()),
    "property": ("C{n}().value", "C{n}.value", "class C{n}:|@property|def value(self):", "return", ()),
    "getattr": ("C{n}().value", "C{n}.__getattr__", "class C{n}:|def __getattr__(self, name):", "return", ()),
    "add": ("C{n}() + 1", "C{n}.__add__", "class C{n}:|def __add__(self, other):", "return", ()),
    "exit": (
        "C{n}.run()",
        "C{n}.__exit__",
        "class C{n}:|def __enter__(self): pass|def __exit__(self, *_):",
        "return",
        ("run",),
    ),
}

LUA = {
    "plain": None,
    "pcall": ("local ok, e = pcall({n}) if not ok then error(e, 0) end", ""),
    "index": ("local _ = setmetatable({{}}, {{__index = {n}}}).x", ""),
    "add": ("local _ = setmetatable({{}}, {{__add = {n}}}) + 1", ""),
    # In Lua 5.4.4 a concatenation whose method moved the stack leaves its top in the freed one: the
    # collector stands still until the next call has set it right.
    "concat": (
        "local _ = setmetatable({{}}, {{__concat = {n}}}) .. '' collectgarbage('restart')",
        "collectgarbage('stop')",
    ),
    "call": ("setmetatable({{}}, {{__call = {n}}})()", ""),
    "wrap": ("coroutine.wrap({n})()", ""),
    "resume": ("local ok, e = coroutine.resume(coroutine.create({n})) if not ok then error(e, 0) end", ""),
    "sort": ("table.sort({{2, 1}}, {n})", "return false"),
    "gsub": ("local _ = ('x'):gsub('x', {n})", ""),
    "close": ("do local c <close> = setmetatable({{}}, {{__close = {n}}}) end", ""),
    "tail": None,
}
C = ("plain", "recursive", "sort", "unlocked")
KINDS = {"python": sorted(PYTHON), "lua": sorted(LUA), "native": sorted(C)}
# These catch what is raised below them: the stack of an error then begins further out.
CATCHING = {("lua", "pcall"), ("lua", "wrap"), ("lua", "resume")}


class Writer:
    def __init__(self):
        self.lines = []

    def add(self, text):
        self.lines.append(text)

    @property
    def next(self):
        return len(self.lines) + 1

    def text(self):
        return "\n".join(self.lines) + "\n"


class Program:
    """Nodes by number, the root is 0; `load` gives them to the module graph."""

    def __init__(self, tree, raising=False):
        self.nodes = []
        self.raising = raising
        self.python, self.lua = Writer(), Writer()
        self.lua.add("local f = {}")
        self._number(tree)
        for i in range(len(self.nodes)):
            {"python": self._python, "lua": self._lua}.get(self.nodes[i][0], lambda _: None)(i)
        self.lua.add("return f")

    def _number(self, tree):
        language, kind, children = tree
        i = len(self.nodes)
        self.nodes.append([language, kind, []])
        self.nodes[i][2] += [self._number(child) for child in children]
        if self.raising and not children and language == "native":
            self.nodes[i][1] = "raise"
        return i

    def load(self, graph):
        scope = {"graph": graph, "enter": graph.enter, "at": graph.at, "leave": graph.leave}
        exec(compile(self.python.text(), "graph.py", "exec"), scope)
        graph.load(
            [
                (language, kind, children, scope.get(f"f{i}"))
                for i, (language, kind, children) in enumerate(self.nodes)
            ],
            self.lua.text(),
        )

    def _calls(self, i, same):
        """What node I calls, one expression each; SAME makes the call of a child in its language."""
        language, _, children = self.nodes[i]
        leaf = "note() error({})" if language == "lua" else "graph.note(); raise ValueError('leaf')"
        if not children:
            return [leaf if self.raising else "leaf()" if language == "lua" else "graph.leaf()"]
        call = "call({})" if language == "lua" else "graph.call({})"
        return [(same if self.nodes[c][0] == language else call).format(c) for c in children]

    def _python(self, i):
        w, kind = self.python, PYTHON[self.nodes[i][1]]
        calls = self._calls(i, "f{}()")
        if kind:
            expression, name, head, tail, extra = kind
            indent = ""
            for line in head.format(n=i).split("|"):
                w.add(indent + line)
                indent += "    " * (line.endswith(":"))
            self._python_body(name.format(n=i), calls, indent, tail)
            if extra:
                w.add("    @staticmethod")
                w.add("    def run():")
                self._python_body(f"C{i}.run", [f"with C{i}(): pass"], "        ", "return")
            calls = [expression.format(n=i)]
        w.add(f"def f{i}():")
        self._python_body(f"f{i}", calls, "    ", "return")

    def _python_body(self, name, calls, indent, tail):
        w = self.python
        w.add(f"{indent}k = enter({name!r})")
        for call in calls:
            if ":" in call:  # a compound statement has lines of its own
                w.add(f"{indent}at(k, {w.next + 1})")
                w.add(indent + call)
            else:
                w.add(f"{indent}at(k, {w.next}); {call}")
        w.add(f"{indent}leave(k); {tail}")

    def _lua(self, i):
        w, kind = self.lua, self.nodes[i][1]
        calls = self._calls(i, "f[{}]()")
        children = self.nodes[i][2]
        if kind == "tail" and len(children) == 1 and self.nodes[children[0]][0] == "lua":
            w.add(f"f[{i}] = function() return f[{children[0]}]() end")
            return
        if LUA[kind]:
            expression, tail = LUA[kind]
            self._lua_function(f"local function g{i}()", f"g{i}", calls, tail)
            calls = [expression.format(n=f"g{i}")]
        self._lua_function(f"f[{i}] = function()", f"f{i}", calls, "")

    def _lua_function(self, head, name, calls, tail):
        w = self.lua
        w.add(f"{head} local k = enter('{name}')")
        for call in calls:
            w.add(f"at(k, {w.next}) {call}")
        w.add(f"leave(k) {tail} end")


def script_frames(frames):
    return [frame for frame in frames if frame[0] in ("python", "lua")]


def expected(log):
    """The frames that a log stands for, innermost first: (language, function or None, line)."""
    # A Lua function's name depends on who called it; its line says which one it is.
    return [
        (language, None if language == "lua" else name, 0 if language == "native" else line)
        for language, name, line in reversed(log)
    ]


def difference(log, stack):
    """What is wrong with STACK, or None."""
    want, have = expected(log), shown(stack, "graph_")
    if want == have:
        return None
    for i in range(max(len(want), len(have))):
        if want[i : i + 1] != have[i : i + 1]:
            return f"frame {i} is {have[i : i + 1]}, not {want[i : i + 1]}\n{have}\n{want}"
    return None
