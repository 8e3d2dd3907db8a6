/*
 * The names of the interpreters that we have a binding for.  The core's library holds them, so that
 * a report of a host without the binding hides their inside, too, and says that script frames are
 * missing.  Another language calls stacksplice_add_glue.
 */
#include "shared/versions.h"

#include <stacksplice/script.h>
#include <stacksplice/source.h>

extern const stacksplice_glue *const ss_known_glue[];

/*
 * The loop that runs bytecode, of which each native frame runs a function.  Where the compiler has made a
 * function of each instruction (from 3.14 on), only debug information has their names, and that of the
 * loop may be in none: what runs a whole module is exported, too.
 */
static const char *const python_entries[] = {"_PyEval_EvalFrameDefault", "_TAIL_CALL_*",
                                             "PyEval_EvalCode", NULL};
/* Cython's functions stand in Python's tracebacks; the others are the inside of bridges for C++. */
static const char *const python_functions[] = {
    "Py_*", "_Py*", "Py^*", "__pyx_*", "__Pyx_*", "pybind11::*", "nanobind::*", "nb_func_*", NULL};
static const char *const python_sources[] = {"/include/pybind11/", "/include/nanobind/", NULL};
/* The folder has Python's own extension modules, such as _asyncio. */
static const char *const python_binaries[] = {"libpython#",    "python#",         "_ctypes.*",
                                              "/lib-dynload/", "_cffi_backend.*", NULL};
/* The second are those of lupa, a bridge to Lua that Cython has compiled. */
static const char *const python_loaders[] = {"<frozen importlib*", "lupa/lua*", NULL};
/* A traceback never has the callers of its outermost frame, nor the C calls between two frames. */
static const char *const python_quiet[] = {
    STACKSPLICE_GAP_RETURNED, "exception caught here earlier: callers of this frame unknown",
    "exception created but never raised", "the event loop runs these tasks", NULL};
/* Files by their folder: a user's own may have the same names. */
#define LIBRARY "/lib*/python3.*/"
#define PACKAGE "-packages/"
static const stacksplice_shell python_shells[] = {
    {"pytest", "/_pytest/python.py", "pytest_pyfunc_call"},
    {"pytest", "/_pytest/runner.py", "from_call"}, /* of fixtures and collection, too */
    {"pytest", PACKAGE "_pytest/", NULL},
    {"pytest", PACKAGE "pluggy/", NULL},
    {"unittest", "/unittest/case.py", "_callTestMethod"},
    {"doctest", "/doctest.py", "__run"},
    {"IPython", "/IPython/core/interactiveshell.py", "run_code"},
    {"IPython", PACKAGE "IPython/", NULL},
    {"IPython", PACKAGE "ipykernel", NULL}, /* ipykernel_launcher.py, too */
    {"IPython", PACKAGE "traitlets/", NULL},
    {"IPython", PACKAGE "zmq/", NULL},
    {"tornado", PACKAGE "tornado/", NULL},
    {"asyncio", LIBRARY "asyncio/", NULL},
    {"uvloop", PACKAGE "uvloop/", NULL},
    {"uvloop", "uvloop/loop.pyx", NULL},
    {"runpy", LIBRARY "runpy.py", NULL},
    {"runpy", "<frozen runpy>", NULL},
    {"threading", LIBRARY "threading.py", NULL},
    {"threading", LIBRARY "concurrent/futures/thread.py", NULL},
    {"concurrent.futures", LIBRARY "concurrent/futures/_base.py", NULL},
    /* What is outside of these is of the process that was forked, or starts this one. */
    {"multiprocessing", LIBRARY "multiprocessing/popen_fork.py", "_launch"},
    {"multiprocessing", LIBRARY "multiprocessing/spawn.py", "spawn_main"},
    {"multiprocessing", LIBRARY "multiprocessing/forkserver.py", "main"},
    {"multiprocessing", LIBRARY "multiprocessing/", NULL},
    {"multiprocessing", LIBRARY "concurrent/futures/process.py", NULL},
    {"http.server", LIBRARY "http/server.py", NULL},
    {"http.server", LIBRARY "socketserver.py", NULL},
    {"http.server", LIBRARY "wsgiref/", NULL},
    {"gunicorn", PACKAGE "gunicorn/", NULL},
    {"hypercorn", PACKAGE "hypercorn/", NULL},
    {"granian", PACKAGE "granian/", NULL},
    {"uvicorn", PACKAGE "uvicorn/", NULL},
    {"asyncio", PACKAGE "anyio/", NULL},
    {"starlette", PACKAGE "starlette/", NULL},
    {"starlette", PACKAGE "fastapi/", NULL},
    {"flask", PACKAGE "flask/", NULL},
    {"flask", PACKAGE "werkzeug/", NULL},
    {"django", PACKAGE "django/", NULL},
    {"django", PACKAGE "asgiref/", NULL},
    {"celery", PACKAGE "celery/", NULL},
    {"celery", PACKAGE "billiard/", NULL},
    {"celery", PACKAGE "kombu/", NULL},
    {"celery", PACKAGE "vine/", NULL},
    {"click", PACKAGE "click/", NULL},
    {"click", PACKAGE "typer/", NULL},
    {"", "/bin/*", "<module>"}, /* sys.exit(main()) */
    {NULL, NULL, NULL},
};
static const char *const python_packages[] = {PACKAGE, LIBRARY, NULL};
static const stacksplice_glue python = {.size = sizeof python,
                                        .language = "python",
                                        .functions = python_functions,
                                        .entries = python_entries,
                                        .binaries = python_binaries,
                                        .unread = "Python frames unknown: stacksplice is not "
                                                  "imported in %s: import stacksplice, or call "
                                                  "stacksplice_python_import",
                                        .loaders = python_loaders,
                                        .quiet = python_quiet,
                                        .shells = python_shells,
                                        .own_look = 1,
                                        .sources = python_sources,
                                        .packages = python_packages,
                                        .color = "\033[32m"};

/*
 * Hosts like to name their own functions lua_open_window, so Lua's API is listed name by name.
 * These run functions of scripts, metamethods among them, whoever calls them.
 */
static const char *const lua_entries[] = {
    "lua_arith",   "lua_call",     "lua_callk",     "lua_close",  "lua_closeslot",
    "lua_compare", "lua_concat",   "lua_cpcall",    "lua_equal",  "lua_closethread",
    "lua_gc",      "lua_getfield", "lua_getglobal", "lua_geti",   "lua_gettable",
    "lua_len",     "lua_lessthan", "lua_pcall",     "lua_pcallk", "lua_resetthread",
    "lua_resume",  "lua_setfield", "lua_setglobal", "lua_seti",   "lua_settable",
    NULL,
};

/* The named ones may run finalizers. */
static const char *const lua_functions[] = {
    "luaC_*",
    "luaD_*",
    "luaE_*",
    "luaF_*",
    "luaG_*",
    "luaH_*",
    "luaL_*",
    "luaO_*",
    "luaT_*",
    "luaV_*",
    "luaX_*",
    "luaY_*",
    "luaZ_*",
    "ss_lua_*", /* the binding in a program that has it linked in */
    "lj_*",
    "lua_checkstack",
    "lua_createtable",
    "lua_dump",
    "lua_error",
    "lua_getinfo",
    "lua_getiuservalue",
    "lua_getuservalue",
    "lua_load",
    "lua_newstate",
    "lua_newthread",
    "lua_newuserdata",
    "lua_next",
    "lua_newuserdatauv",
    "lua_pushcclosure",
    "lua_pushfstring",
    "lua_pushlstring",
    "lua_pushstring",
    "lua_pushvfstring",
    "lua_rawset",
    "lua_rawseti",
    "lua_rawsetp",
    "lua_setiuservalue",
    "lua_setlocal",
    "lua_setmetatable",
    "lua_settop",
    "lua_setuservalue",
    "lua_toclose",
    "lua_tolstring",
    "lua_warning",
    "lua_xmove",
    "lua_yield",
    "lua_yieldk",
    NULL,
};
static const char *const lua_libraries[] = {"liblua#", "lua#", "libluajit*", "luajit*", NULL};
static const char *const lua_values[] = {"nil",    "boolean",  "number",   "string",
                                         "table",  "function", "userdata", "light userdata",
                                         "thread", NULL};
static const char *const lua_packages[] = {"/share/lua/*/", "/share/luajit-*/", NULL};
static const stacksplice_glue lua = {
    .size = sizeof lua,
    .language = "lua",
    .functions = lua_functions,
    .entries = lua_entries,
    .libraries = lua_libraries,
    .unread =
        "Lua frames unknown: stacksplice is not loaded in %s; Lua " SS_LUA_RANGE " and LuaJIT: "
        "require \"stacksplice\" in it, lupa: stacksplice.install(), others: not supported",
    .values = lua_values,
    .color = "\033[36m",
    .packages = lua_packages,
    .unnamed = "no lines of code that came as a string: name its file, as in "
               "load(code, \"@pricing.lua\") or lupa's execute(code, name=\"@pricing.lua\")"};

const stacksplice_glue *const ss_known_glue[] = {&python, &lua, NULL};
