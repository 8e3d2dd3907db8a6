/*
 * A border from Python into Lua and back, by the public headers.
 *
 *   run(source, function)  runs a chunk in a state of its own; what it calls `host` is FUNCTION
 *   call(function)         a new coroutine of a state that stays calls Lua code, which calls FUNCTION;
 *                          returns whether that did without an error
 *   collect()              collects all garbage of that state: it is overwritten, so that whoever reads
 *                          it later fails
 *   close()                closes that state; the next call opens another
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdlib.h>
#include <string.h>

static lua_State *kept;

/* What calls FUNCTION: its lines are 1, 2 and 3. */
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

/* host(): FUNCTION's error goes on in Lua. */
static int call_host(lua_State *L)
{
    PyObject *result = PyObject_CallNoArgs(lua_touserdata(L, lua_upvalueindex(1)));

    if (!result)
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    Py_DECREF(result);
    return 0;
}

static int open_state(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    lua_pop(L, 1);
    return 0;
}

static lua_State *new_state(void)
{
    lua_State *L = lua_newstate(allocate, NULL);

    if (L) {
        lua_pushcfunction(L, open_state);
        if (lua_pcall(L, 0, 0, 0) == LUA_OK)
            return L;
        lua_close(L);
    }
    PyErr_SetString(PyExc_RuntimeError, "no Lua state");
    return NULL;
}

static void push_host(lua_State *L, PyObject *function)
{
    lua_pushlightuserdata(L, function);
    lua_pushcclosure(L, call_host, 1);
}

static PyObject *run(PyObject *module, PyObject *arguments)
{
    const char *source;
    PyObject *function;
    lua_State *L;
    HRESULT hr = S_OK;

    if (!PyArg_ParseTuple(arguments, "sO", &source, &function) || !(L = new_state()))
        return NULL;
    push_host(L, function);
    lua_setglobal(L, "host");
    if (luaL_loadbuffer(L, source, strlen(source), "@chunk.lua"))
        PyErr_SetString(PyExc_RuntimeError, lua_tostring(L, -1));
    else
        hr = stacksplice_lua_pcall(L, 0, 0);
    if (FAILED(hr))
        (void)stacksplice_python_raise(hr);
    lua_close(L);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *call(PyObject *module, PyObject *function)
{
    lua_State *co;
    int results, done;

    if (!kept && !(kept = new_state()))
        return NULL;
    co = lua_newthread(kept);
    done = luaL_loadbuffer(co, chunk, sizeof chunk - 1, "@calls.lua") == LUA_OK;
    push_host(co, function);
    done = done && lua_resume(co, kept, 1, &results) == LUA_OK && lua_toboolean(co, -1);
    lua_pop(kept, 1);
    return PyBool_FromLong(done);
}

static PyObject *collect(PyObject *module, PyObject *unused)
{
    if (kept)
        lua_gc(kept, LUA_GCCOLLECT);
    Py_RETURN_NONE;
}

static PyObject *close_kept(PyObject *module, PyObject *unused)
{
    if (kept)
        lua_close(kept);
    kept = NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL},
                                {"call", call, METH_O, NULL},
                                {"collect", collect, METH_NOARGS, NULL},
                                {"close", close_kept, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "lua_border", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_lua_border(void)
{
    if (stacksplice_python_import() < 0)
        return PyErr_Format(PyExc_ImportError, "stacksplice cannot be imported");
    return PyModule_Create(&definition);
}
