"""Who may include whom: prints file:line for each #include that breaks a layer, and fails.

The picture is in docs/inside/architecture.md; this table is its exact form.  Six more mistakes are found:

  * two headers of the core with one guard, or with one name for two types: they break the first
    file that needs both;
  * a type of another folder that may not be used, also where only its name stands;
  * files of one tree whose functions call each other in a circle;
  * a file of the core that uses a function of crash, which stands beside the core;
  * a file of the core that names a language (in the trees of LANGUAGE_FREE);
  * a file of the bindings that compares versions of Lua, outside of VERSIONS.
"""

import ast
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A layer of the core -> the other layers it may include.
CORE = {
    "base": set(),
    "unwind": {"base"},
    "plan": {"base", "unwind"},
    "splice": {"base", "unwind", "plan"},
    "com": {"base"},
    "error": {"base", "unwind", "plan", "splice", "com"},
    "script": {"base", "error"},
    "inspect": {"base", "unwind", "plan", "splice", "com", "error", "script"},
    "resolve": {"base", "unwind", "plan", "splice"},
    "redact": {"base"},
    "report": {"base", "unwind", "plan", "splice", "com", "redact", "resolve"},
    "winrt_names": {"com"},
}
# A room of the Lua binding -> the other rooms it may include.
LUA = {
    "version": set(),
    "life": {"version"},
    "calibrate": {"version", "life"},
    "frames": {"version", "life", "calibrate"},
    "value": {"version", "life", "frames"},
    "cross": {"version", "life", "calibrate", "frames", "value"},
    "traceback": {"version", "life", "frames", "value"},
    "api": {"version", "life", "frames", "value", "cross", "traceback"},
}
# A folder of the reader of other processes -> the other folders it may include.
INSPECT = {
    "base": set(),
    "target": {"base"},
    "core": {"base", "target"},
    "live": {"base", "target"},
    "native": {"base", "target"},
    "python": {"base", "target"},
    "lua": {"base", "target", "native"},
    "splice": {"base", "target", "native", "lua"},
    "errors": {"base", "target"},
    "served": {"base", "target"},
    "inspection.h": {"errors", "lua", "python", "served"},
    "inspection.c": {"errors", "native", "splice"},
    "main.c": {"core", "live"},
}
# In each of these trees no files may form a cycle by who uses whose functions.
# Beside the core: it may use all of it, and nothing of the core uses it.
CRASH = "crash"
ACYCLIC = ["core/src", CRASH, "inspect/src", "bindings/python/src", "bindings/lua/src", "examples/tiny"]
# What is known of interpreters' insides.  This process and the reader of others both compile it.
SHARED = "shared"
# What the core may not name, and where that is looked for.
LANGUAGE = re.compile(r"\b_?(?:c?python|lua(?:jit)?)(?![a-z])", re.IGNORECASE)
LANGUAGE_FREE = ["core", CRASH]
# Where versions of Lua may be compared: the folder of their facts; what stands in the place of Lua's own
# headers; the public header, which is installed without that folder.
VERSIONS = (
    "bindings/lua/src/version/",
    "bindings/lupa/loadable/include/",
    "bindings/lua/include/stacksplice/lua.h",
)
VERSION = re.compile(r"\b(?:LUA_VERSION_(?:NUM|RELEASE_NUM|MAJOR|MINOR|RELEASE)|LUAJIT_VERSION\w*)\b")
# The question whether the binding was built for the Lua that loads it.
COMPARED_ANYWHERE = {("bindings/lua/src/calibrate/learn.c", "if (ss_lua_version() != LUA_VERSION_NUM)")}
# A comparison, or a condition of the preprocessor: anything else is a number that is passed on or printed.
COMPARED = re.compile(
    rf"^\s*#\s*(?:el)?if.*{VERSION.pattern}"
    rf"|{VERSION.pattern}\s*(?:[<>]|==|!=)|(?:[<>]=?|==|!=)\s*{VERSION.pattern}"
)
# A folder of the Python binding -> the other folders it may include.
PYTHON = {
    "life": set(),
    "frames": {"life"},
    "value": {"life"},
    "stack": {"life", "frames", "value"},
    "traceback": {"life", "frames", "value", "stack"},
    "cross": {"life", "frames", "value", "stack", "traceback"},
    "lupa": {"life", "frames", "value", "stack", "traceback", "cross"},
    "api": {"life", "frames", "value", "stack", "traceback", "cross", "lupa"},
}
# A folder of the Python package -> the other folders its modules may import.  What stands in no
# folder, "", is imported by programs.  _tools is the other wing: no program needs it in order to run.
PACKAGE = {
    "_base": set(),
    "_errors": {"_base"},
    "_hooks": {"_base", "_errors"},
    "": {"_base", "_errors", "_hooks"},
    "_tools/symbols": {"_base"},
    "_tools/saved": {"_base", "_tools/symbols", "_errors"},
    "_tools/dump": {"_base", "_tools/symbols", "_errors"},
    "_tools/html": {"_base", "_errors", "_tools/saved", "_tools/dump"},
    "_tools/top": {"_base", "_errors", "_tools/saved", "_tools/html"},
    "_tools/doctor": {"_base", "_hooks"},
    "_tools/command_line": {"_base", "_hooks", "_tools/saved", "_tools/dump", "_tools/top", "_tools/doctor"},
}
TREES = [
    ("core/src", CORE),
    ("bindings/lua/src", LUA),
    ("bindings/python/src", PYTHON),
    ("inspect/src", INSPECT),
]
# (file, folder of the tools) that is imported when a page, a diagnosis or a command is asked for.
DOORS = {
    ("_errors/info.py", "_tools/html"),
    ("_tools/saved/show.py", "_tools/html"),
    ("_tools/dump/process.py", "_tools/html"),
    ("__init__.py", "_tools/doctor"),
    ("__main__.py", "_tools/command_line"),
}
# The one header through which other layers see an error object.
VIEW = "error/view.h"

INTERPRETER = re.compile(
    r"^(Python|frameobject|structmember|pythread|cpython/|internal/pycore"
    r"|lua|lauxlib|lualib|luaconf|luajit|tiny)"
)
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')
GUARD = re.compile(r"\A(?:/\*.*?\*/\s*|//[^\n]*\s*)*#ifndef\s+(\w+)", re.DOTALL)
BODY = r"(?:\{[^{}]*\}|\{.*?^\})?"
TYPEDEF = re.compile(
    r"^typedef\b[^;{]*?" + BODY + r"[^;{}]*?(\w+)\)?(?:\([^;]*\))?;", re.MULTILINE | re.DOTALL
)


def core_violation(layer, name):
    if INTERPRETER.match(name):
        return "the core knows no interpreter"
    target = name.split("/")[0]
    if target == CRASH and layer != CRASH:
        return "nothing of the core uses crash"
    if layer in CORE and target in CORE and "/" in name and target != layer:
        if target not in CORE[layer] and not (layer in ("resolve", "report") and name == VIEW):
            return f"{layer} may not use {target}"
    if name.startswith("../"):
        return "includes are written from the source root"
    return None


def binding_violation(name):
    if name.split("/")[0] in CORE and "/" in name:
        return "a binding sees public headers only"
    return None


def room_violation(rooms, room, name):
    """As core_violation, for a file in one of the ROOMS of a binding."""
    target = name.split("/")[0]
    if room not in rooms:
        return "a file outside of the folders in this table"
    if "/" in name and target in rooms and target != room and target not in rooms[room]:
        return f"{room} may not use {target}"
    if name.startswith("../"):
        return "includes are written from the source root"
    return binding_violation(name)


def inspect_violation(room, name):
    if name.startswith("stacksplice/") and room in ("errors", "served"):
        return None  # headers of what it reads, and of the form of text
    if (room, name) == ("target", "stacksplice/stacksplice.h"):
        return None  # the form of a frame: no function of that header is linked
    if name.startswith("stacksplice/") or (INTERPRETER.match(name) and "/" not in name):
        return "the reader of other processes uses nothing of this one's"
    target = name.split("/")[0]
    if "/" in name and target in INSPECT and target != room and target not in INSPECT.get(room, ()):
        return f"{room} may not use {target}"
    if target != SHARED and not os.path.exists(os.path.join(ROOT, "inspect/src", name)):
        if any(os.path.exists(os.path.join(ROOT, tree, name)) for tree in (*ACYCLIC, "bindings")):
            return "the reader of other processes uses no files of the bindings but the shared ones"
    return None


def shared_violation(name):
    if INTERPRETER.match(name) or ("/" in name and not name.startswith((SHARED + "/", "stacksplice/"))):
        return "what bindings and the reader of other processes share includes nothing of either"
    return None


def example_violation(name):
    if name.startswith("../") or "/src/" in name:
        return "examples see public headers only"
    return binding_violation(name)


def conformance_violation(name):
    allowed = name.startswith("stacksplice/winrt/") or not name.startswith("stacksplice/")
    if not allowed or INTERPRETER.match(name):
        return "conformance tests see stacksplice/winrt only"
    return binding_violation(name)


def violation(path, name):
    """Why the file PATH (from the root) may not include NAME, or None."""
    parts = place_of(path).split("/")
    if parts[:2] == ["core", "src"]:
        return core_violation(parts[2], name)
    if parts[0] == CRASH:
        return core_violation(CRASH, name)
    if parts[:2] == ["core", "include"]:
        return "a public header knows no interpreter" if INTERPRETER.match(name) else None
    if parts[0] == "examples":
        return example_violation(name)
    if parts[:3] == ["bindings", "lua", "src"]:
        return room_violation(LUA, parts[3], name)
    if parts[:3] == ["bindings", "python", "src"]:
        return room_violation(PYTHON, parts[3], name)
    if parts[:2] == ["inspect", "src"]:
        return inspect_violation(parts[2], name)
    if parts[:2] == ["bindings", SHARED]:
        return shared_violation(name)
    if parts[0] == "bindings":
        return binding_violation(name)
    if parts[:2] == ["tests", "conformance"]:
        return conformance_violation(name)
    return None


def place_of(path):
    """Where PATH, from the root, counts: what lupa needs of the Python extension is a room of it."""
    return re.sub(r"^bindings/(?=lupa/[^/]+$)", "bindings/python/src/", path)


PACKAGE_ROOT = "bindings/python/stacksplice"


def folder_of(module):
    """The folder of PACKAGE in which the MODULE, a path without the ending, stands."""
    return max((f for f in PACKAGE if f and f"{module}/".startswith(f"{f}/")), key=len, default="")


def imported_folders(path, text):
    """(line, folder) for each folder of the package that the module at PATH imports from."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.ImportFrom) and node.level):
            continue
        base = path.split("/")[: -node.level] + (node.module.split(".") if node.module else [])
        for name in [""] if node.module else [f"/{alias.name}" for alias in node.names]:
            yield node.lineno, folder_of("/".join(base) + name)


def package_violations():
    """(path, line, folder, reason) for each import in the Python package that the table forbids."""
    root = os.path.join(ROOT, PACKAGE_ROOT)
    for path in sorted(glob.glob("**/*.py", root_dir=root, recursive=True)):
        folder = folder_of(path.removesuffix(".py"))
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for line, target in imported_folders(path, source.read()):
                if target not in {"", folder, *PACKAGE[folder]} and (path, target) not in DOORS:
                    yield (
                        f"{PACKAGE_ROOT}/{path}",
                        line,
                        target,
                        f"{folder or 'what programs import'} may not use {target}",
                    )


def sources():
    for top in ("core", CRASH, "bindings", "inspect", "examples", "tests", "bench"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cpp", ".hpp", ".S")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def names_of(path, text):
    """What no other header of the core may have: a guard and, of the private ones, type names."""
    guard = GUARD.match(text)
    names = [f"the guard {guard[1]}"] if guard else []
    if path.startswith(("core/src/", f"{CRASH}/")):
        names += [f"the type {name}" for name in TYPEDEF.findall(text)]
    return names


def clashes():
    """(path, name, path of the header that has NAME too) for each name that two headers have."""
    owners = {}
    for path in sources():
        if not (path.startswith(("core/", f"{CRASH}/")) and path.endswith(".h")):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            for name in names_of(path, source.read()):
                other = owners.setdefault(name, path)
                if other != path:
                    yield path, name, other


COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
# What stands before the brace that begins a body in the first column.
HEAD = re.compile(r"^((?!struct|union|enum|typedef)\w[^;{}#=]*?)\n\{", re.MULTILINE)


def functions_of(text):
    """The names of the functions that TEXT defines, and whether each is static."""
    heads = (ATTRIBUTE.sub("", head) for head in HEAD.findall(text))
    return {match[1]: "static" in head.split() for head in heads if (match := re.search(r"(\w+)\s*\(", head))}


def users(root):
    """Which .c file below ROOT uses functions of which others."""
    texts, owners = {}, {}
    for path in sources():
        if place_of(path).startswith(root + "/") and path.endswith(".c"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                texts[path] = COMMENT_OR_TEXT.sub("", source.read())
    own = {path: functions_of(text) for path, text in texts.items()}
    for path, names in own.items():
        for name in (name for name, static in names.items() if not static):
            owners.setdefault(name, set()).add(path)
    graph = {path: set() for path in texts}
    for path, text in texts.items():
        for name in set(re.findall(r"\w+", text)) - own[path].keys():
            graph[path] |= owners.get(name, set())
    return graph


def cycle(graph):
    """A cycle of GRAPH as the list of its files, or nothing."""
    left = dict(graph)
    while leaves := [path for path, used in left.items() if not used & left.keys()]:
        for path in leaves:
            del left[path]
    trail = []
    path = min(left, default=None)
    while path and path not in trail:
        trail.append(path)
        path = min(graph[path] & left.keys())
    return trail[trail.index(path) :] if path else []


TYPE = re.compile(r"^(?:typedef )?(?:struct|union|enum) (\w+) \{", re.MULTILINE)


# Of what has a name beyond its file.
PREFIX = re.compile(r"(?:ss|sspy|ssi)_")


def types_of_others(root, table):
    """(path, number, name, folder) for each name of a type of a FOLDER that may not be used."""
    texts, owners = {}, {}
    for path in sources():
        place = place_of(path)
        if place.startswith(root + "/") and place.count("/") > root.count("/") + 1:
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                texts[path] = COMMENT_OR_TEXT.sub(
                    lambda found: re.sub(r"[^\n]", " ", found[0]), source.read()
                )
            folder = place[len(root) + 1 :].split("/")[0]
            names = TYPE.findall(texts[path])
            names += TYPEDEF.findall(texts[path]) if path.endswith(".h") else []
            for name in filter(PREFIX.match, names if not path.endswith(VIEW) else ()):
                owners.setdefault(name, set()).add(folder)
    for path, text in texts.items():
        folder = place_of(path)[len(root) + 1 :].split("/")[0]
        for number, line in enumerate(text.split("\n"), 1):
            for name in re.findall(r"\w+", line):
                owner = owners.get(name, ())
                if len(owner) == 1 and not owner & ({folder} | table.get(folder, set())):
                    yield path, number, name, *owner


def calls_of_crash():
    """(path, number, name) for each line of the core that uses a function which only crash has."""
    names = set()
    for path in glob.glob(f"{ROOT}/{CRASH}/*.c"):
        with open(path, encoding="utf-8") as source:
            found = functions_of(COMMENT_OR_TEXT.sub("", source.read()))
        names |= {name for name, static in found.items() if not static}
    for path in sources():
        if path.startswith("core/src/"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                for number, line in enumerate(source, 1):
                    for name in names & set(re.findall(r"\w+(?=\()", line)):
                        yield path, number, name


def named_languages():
    """(path, number, word) for each line of the core that names a language."""
    for path in sources():
        if any(path.startswith(root + "/") for root in LANGUAGE_FREE):
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                for number, line in enumerate(source, 1):
                    for match in LANGUAGE.finditer(line):
                        yield path, number, match[0]


def compared_versions():
    """(path, number) for each line of the bindings that compares a version of Lua, outside of VERSIONS."""
    for path in sources():
        if path.startswith("bindings/") and not path.startswith(VERSIONS):
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                for number, line in enumerate(source, 1):
                    if COMPARED.search(line) and (path, line.strip()) not in COMPARED_ANYWHERE:
                        yield path, number


def main():
    found, files = 0, 0
    for root in ACYCLIC:
        if circle := cycle(users(root)):
            found += 1
            print(f"{root}: these files use each other in a circle: {', '.join(circle)}")
    for path, number, name in calls_of_crash():
        found += 1
        print(f"{path}:{number}: {name}: nothing of the core uses crash")
    for path, number, word in named_languages():
        found += 1
        print(f"{path}:{number}: {word}: the core names no language")
    for path, number in compared_versions():
        found += 1
        print(f"{path}:{number}: ask for a fact of bindings/lua/src/version, and compare no versions here")
    for root, table in TREES:
        for path, number, name, folder in types_of_others(root, table):
            found += 1
            print(f"{path}:{number}: {name} is of {folder}, which may not be used here")
    for path, name, other in clashes():
        found += 1
        print(f"{path}: {name} is in {other} too")
    for path, number, name, reason in package_violations():
        found += 1
        print(f"{path}:{number}: {name}: {reason}")
    for path in sources():
        files += 1
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                match = INCLUDE.match(line)
                reason = violation(path, match[1]) if match else None
                if reason:
                    found += 1
                    print(f"{path}:{number}: {match[1]}: {reason}")
    for root, table in TREES:
        for folder in set(os.listdir(os.path.join(ROOT, root))) - set(table):
            found += 1
            print(f"{root}/{folder}: a layer that is not in the table of {__file__}")
    print(f"{files} files, {found} violations")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
