/*
 * The extension module "crossing": Python calls Lua and Lua calls Python, through the public
 * headers only.  The tests cross this border with every kind of error value.
 *
 *   run(chunk, *args)     runs Lua source in the one state of the module, under
 *                         stacksplice_lua_pcall; args are Lua's `...`
 *   run_plain(chunk, *a)  the same by somebody who knows nothing of stacksplice: a plain lua_pcall
 *                         that turns an error into RuntimeError(text)
 *   slot() -> bool        whether the thread's slot holds an error
 *   objects() -> int      Python objects that Lua holds
 *   close()               lua_close; a new state is made by the next run
 *   close_at_exit()       lua_close when the process ends, after Python; says "closed"
 *
 * In Lua: py(f, ...) calls a Python object, raising its errors; try(f, ...) calls a Lua function
 * with a plain lua_pcall and passes the error on; collect(L) frees what can be freed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdlib.h>

#define BOX "crossing.object"

static lua_State *state;
static long boxed;

static PyObject **push_box(lua_State *L)
{
    PyObject **box = lua_newuserdatauv(L, sizeof *box, 0);

    *box = NULL;
    luaL_setmetatable(L, BOX);
    boxed++;
    return box;
}

static int box_gc(lua_State *L)
{
    PyObject **box = luaL_checkudata(L, 1, BOX);

    boxed--;
    if (Py_IsInitialized())
        Py_CLEAR(*box);
    return 0;
}

static int raise_python(lua_State *L)
{
    HRESULT hr = stacksplice_python_originate();

    return stacksplice_lua_raise(L, hr);
}

/* Simple values cross as themselves, every other Python object as a userdata. */
static void push_object(lua_State *L, PyObject *object)
{
    if (object == Py_None)
        lua_pushnil(L);
    else if (PyBool_Check(object))
        lua_pushboolean(L, object == Py_True);
    else if (PyLong_Check(object))
        lua_pushinteger(L, PyLong_AsLongLong(object));
    else if (PyFloat_Check(object))
        lua_pushnumber(L, PyFloat_AsDouble(object));
    else if (PyBytes_Check(object))
        lua_pushlstring(L, PyBytes_AS_STRING(object), (size_t)PyBytes_GET_SIZE(object));
    else if (PyUnicode_Check(object) && PyUnicode_AsUTF8(object))
        lua_pushstring(L, PyUnicode_AsUTF8(object));
    else
        *push_box(L) = Py_NewRef(object);
    PyErr_Clear();
}

/* A new reference; what Python has no twin of becomes its text. */
static PyObject *to_object(lua_State *L, int index)
{
    PyObject **box = luaL_testudata(L, index, BOX);
    const char *text;
    size_t length;
    PyObject *result;

    if (box)
        return Py_NewRef(*box);
    switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL:
        Py_RETURN_NONE;
    case LUA_TBOOLEAN:
        return PyBool_FromLong(lua_toboolean(L, index));
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? PyLong_FromLongLong(lua_tointeger(L, index))
                                       : PyFloat_FromDouble(lua_tonumber(L, index));
    default:
        break;
    }
    text = luaL_tolstring(L, index, &length);
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape");
    lua_pop(L, 1);
    return result;
}

static int lua_py(lua_State *L)
{
    PyObject **callable = luaL_checkudata(L, 1, BOX);
    int count = lua_gettop(L) - 1;
    PyObject **arguments = push_box(L), **result = push_box(L);

    *arguments = PyTuple_New(count);
    for (int i = 0; *arguments && i < count; i++)
        PyTuple_SET_ITEM(*arguments, i, to_object(L, i + 2));
    if (*arguments)
        *result = PyObject_CallObject(*callable, *arguments);
    if (!*result)
        return raise_python(L);
    push_object(L, *result);
    return 1;
}

static int lua_try(lua_State *L)
{
    if (lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) != LUA_OK)
        return lua_error(L);
    return lua_gettop(L);
}

static int open_state(lua_State *L)
{
    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    luaL_newmetatable(L, BOX);
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__gc");
    lua_register(L, "py", lua_py);
    lua_register(L, "try", lua_try);
    return 0;
}

typedef struct call {
    PyObject *args;    /* the chunk, then its arguments */
    PyObject **result; /* in a box that Lua holds */
} call;

static int run_in_lua(lua_State *L)
{
    call *c = lua_touserdata(L, 1);
    Py_ssize_t count = PyTuple_GET_SIZE(c->args);
    Py_ssize_t length;
    const char *chunk = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(c->args, 0), &length);

    if (!chunk)
        return raise_python(L);
    if (luaL_loadbufferx(L, chunk, (size_t)length, "=chunk", "t") != LUA_OK)
        return lua_error(L);
    luaL_checkstack(L, (int)count, NULL);
    for (Py_ssize_t i = 1; i < count; i++)
        push_object(L, PyTuple_GET_ITEM(c->args, i));
    lua_call(L, (int)count - 1, 1);
    *c->result = to_object(L, -1);
    return 0;
}

static int ready(PyObject *args)
{
    if (PyTuple_GET_SIZE(args) < 1 || !PyUnicode_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "a chunk of Lua is needed");
        return 0;
    }
    if (!state) {
        state = luaL_newstate();
        if (!state)
            PyErr_NoMemory();
        else if (lua_pushcfunction(state, open_state), lua_pcall(state, 0, 0, 0) != LUA_OK)
            PyErr_SetString(PyExc_RuntimeError, lua_tostring(state, -1));
    }
    return !PyErr_Occurred() && lua_checkstack(state, 2 + LUA_MINSTACK);
}

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *result = NULL;
    call c = {args, &result};
    HRESULT hr;

    if (!ready(args))
        return NULL;
    lua_pushcfunction(state, run_in_lua);
    lua_pushlightuserdata(state, &c);
    hr = stacksplice_lua_pcall(state, 1, 0);
    if (FAILED(hr)) {
        Py_XDECREF(result);
        return stacksplice_python_raise(hr);
    }
    return result;
}

static PyObject *run_plain(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *result = NULL;
    call c = {args, &result};

    if (!ready(args))
        return NULL;
    lua_pushcfunction(state, run_in_lua);
    lua_pushlightuserdata(state, &c);
    if (lua_pcall(state, 1, 0, 0) != LUA_OK) {
        PyErr_SetString(PyExc_RuntimeError, luaL_tolstring(state, -1, NULL));
        lua_pop(state, 2);
        return NULL;
    }
    return result;
}

static PyObject *slot(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr = stacksplice_peek_error(&error);

    if (error)
        error->lpVtbl->Release(error);
    return PyBool_FromLong(hr == S_OK);
}

static PyObject *objects(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    if (state) {
        lua_gc(state, LUA_GCCOLLECT);
        lua_gc(state, LUA_GCCOLLECT); /* what finalizers held */
    }
    return PyLong_FromLong(boxed);
}

static PyObject *close_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    if (state)
        lua_close(state);
    state = NULL;
    Py_RETURN_NONE;
}

static void close_now(void)
{
    if (state)
        lua_close(state);
    state = NULL;
    puts("closed");
}

static PyObject *close_at_exit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return PyBool_FromLong(atexit(close_now) == 0);
}

PyMODINIT_FUNC PyInit_crossing(void);

PyMODINIT_FUNC PyInit_crossing(void)
{
    static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL},
                                    {"run_plain", run_plain, METH_VARARGS, NULL},
                                    {"slot", slot, METH_NOARGS, NULL},
                                    {"objects", objects, METH_NOARGS, NULL},
                                    {"close", close_state, METH_NOARGS, NULL},
                                    {"close_at_exit", close_at_exit, METH_NOARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
    static PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "crossing", .m_size = -1, .m_methods = methods};
    HRESULT hr = stacksplice_python_import();

    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    return PyModule_Create(&definition);
}
