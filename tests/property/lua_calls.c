/*
 * The extension module "lua_calls": a Lua state in which coroutines call Python.  What Lua frees is
 * overwritten, so that whoever reads it later fails.
 *
 *   call(function)       a new coroutine calls Lua code, which calls FUNCTION; then it is collected
 *   collect()            collects all garbage
 *   close()              closes the state; the next call opens another
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stdlib.h>
#include <string.h>

static lua_State *state;

static const char chunk[] = "local function inner(call) local r = call() return r end\n"
                            "local function middle(call) local r = inner(call) return r end\n"
                            "local ok, e = pcall(middle, ...)\n"
                            "return ok\n";

static void *allocate(void *data, void *block, size_t old, size_t size)
{
    void *moved = NULL;

    if (size && (moved = malloc(size)) == NULL)
        return NULL;
    if (block && moved)
        memcpy(moved, block, old < size ? old : size);
    if (block) {
        memset(block, 0xdb, old);
        __asm__ volatile("" ::"r"(block) : "memory");
        free(block);
    }
    return moved;
}

static int call_python(lua_State *L)
{
    PyObject *result = PyObject_CallNoArgs(lua_touserdata(L, lua_upvalueindex(1)));

    if (!result)
        return luaL_error(L, "a Python error");
    Py_DECREF(result);
    return 0;
}

static int open_state(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    return 0;
}

/* The coroutine calls FUNCTION; nonzero: it could not. */
static int run(lua_State *L, PyObject *function)
{
    lua_State *co = lua_newthread(L);
    int results, status = luaL_loadbuffer(co, chunk, sizeof chunk - 1, "@lua_calls.lua");

    if (!status) {
        lua_pushlightuserdata(co, function);
        lua_pushcclosure(co, call_python, 1);
        status = lua_resume(co, L, 1, &results);
    }
    if (!status && !lua_toboolean(co, -1))
        status = LUA_ERRRUN;
    lua_pop(L, 1);
    return status;
}

static PyObject *call(PyObject *module, PyObject *function)
{
    int status;

    if (!state) {
        state = lua_newstate(allocate, NULL);
        lua_pushcfunction(state, open_state);
        if (lua_pcall(state, 0, 0, 0) != LUA_OK)
            return PyErr_Format(PyExc_RuntimeError, "%s", lua_tostring(state, -1));
    }
    status = run(state, function);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(status);
}

static PyObject *close_state(PyObject *module, PyObject *unused)
{
    if (state)
        lua_close(state);
    state = NULL;
    Py_RETURN_NONE;
}

static PyObject *collect(PyObject *module, PyObject *unused)
{
    if (state)
        lua_gc(state, LUA_GCCOLLECT);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"call", call, METH_O, NULL},
                                  {"collect", collect, METH_NOARGS, NULL},
                                  {"close", close_state, METH_NOARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "lua_calls", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_lua_calls(void)
{
    return PyModule_Create(&definition);
}
