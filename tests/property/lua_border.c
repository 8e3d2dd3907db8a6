/*
 * A border from Python into Lua and back, by the public headers: run(source, function) runs a chunk
 * in a state of its own; what the chunk calls `host` is FUNCTION.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>

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

static PyObject *run(PyObject *module, PyObject *arguments)
{
    const char *source;
    PyObject *function;
    lua_State *L;
    HRESULT hr = S_OK;

    if (!PyArg_ParseTuple(arguments, "sO", &source, &function))
        return NULL;
    L = luaL_newstate();
    if (!L)
        return PyErr_NoMemory();
    lua_pushcfunction(L, open_state);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK ||
        luaL_loadbuffer(L, source, strlen(source), "@chunk.lua")) {
        PyErr_SetString(PyExc_RuntimeError, lua_tostring(L, -1));
    } else {
        lua_pushlightuserdata(L, function);
        lua_pushcclosure(L, call_host, 1);
        lua_setglobal(L, "host");
        hr = stacksplice_lua_pcall(L, 0, 0);
    }
    if (FAILED(hr))
        (void)stacksplice_python_raise(hr);
    lua_close(L);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "lua_border", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_lua_border(void)
{
    if (stacksplice_python_import() < 0)
        return PyErr_Format(PyExc_ImportError, "stacksplice cannot be imported");
    return PyModule_Create(&definition);
}
