/*
 * The module "bench_bridge" for Python: a thin bridge to one Lua state, and the harness.
 *
 *   setup(chunk)                 runs Lua source in the state
 *   set_py(f)                    what Lua's py(path, depth) calls
 *   call_lua(name, path, depth)  calls a global of Lua under stacksplice_lua_pcall; errors cross
 *   call_plain(name, path, depth)  the same with nothing of stacksplice, in both directions
 *   native_frames()              how many native frames are on the stack, outside this function
 *   visit()                      the innermost call of a stack of row_on_stacks
 *   row_on_stacks(row, f)        native and combined captures; f(number) makes a set of stacks
 *   row_here(row)                the same captures on the stack of this call
 *   row(row, frames, methods)    methods are (name, prepare or None, run): see bench.h.  prepare(n)
 *                                gives a list of n arguments of run
 *   border(row, f)               calls f from C, with and without stacksplice's part of a border
 *   counts() -> bool             whether instructions are counted
 *   counts_method(name) -> bool  whether those of this method are
 *   count()                      begins to count them, for work that is not done by row()
 *   counted(row, method, runs)   the end of it
 *   wants(row) -> bool, options(list)
 */
#include "bridge.h"

#include "bench.h"
#include "peers.h"
#include "calls.h"

#include <execinfo.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdlib.h>
#include <string.h>

static lua_State *state;
static PyObject *py_function;

/* ---- The bridge -------------------------------------------------------------------------------*/

/* py(path, depth), where stacksplice carries the errors. */
static int lua_py(lua_State *L)
{
    PyObject *result =
        PyObject_CallFunction(py_function, "LL", luaL_checkinteger(L, 1), luaL_checkinteger(L, 2));

    if (!result)
        return stacksplice_lua_raise(L, stacksplice_python_originate());
    Py_DECREF(result);
    lua_pushinteger(L, 0);
    return 1;
}

/* The least that a bridge can do: Python's exception stays where it is. */
static int lua_py_plain(lua_State *L)
{
    PyObject *result =
        PyObject_CallFunction(py_function, "LL", luaL_checkinteger(L, 1), luaL_checkinteger(L, 2));

    if (!result)
        return luaL_error(L, "a Python exception");
    Py_DECREF(result);
    lua_pushinteger(L, 0);
    return 1;
}

static bool push_call(PyObject *args)
{
    const char *name;
    long long path, depth;

    if (!PyArg_ParseTuple(args, "sLL", &name, &path, &depth))
        return false;
    lua_getglobal(state, name);
    lua_pushinteger(state, path);
    lua_pushinteger(state, depth);
    return true;
}

static PyObject *call_lua(PyObject *Py_UNUSED(module), PyObject *args)
{
    HRESULT hr;

    if (!lua_checkstack(state, 2 * LUA_MINSTACK))
        return PyErr_NoMemory();
    if (!push_call(args))
        return NULL;
    hr = stacksplice_lua_pcall(state, 2, 0);
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    Py_RETURN_NONE;
}

static PyObject *call_plain(PyObject *Py_UNUSED(module), PyObject *args)
{
    if (!lua_checkstack(state, 2 * LUA_MINSTACK))
        return PyErr_NoMemory();
    if (!push_call(args))
        return NULL;
    if (lua_pcall(state, 2, 0, 0) != LUA_OK) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, lua_tostring(state, -1));
        lua_pop(state, 1);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *setup(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *chunk;

    if (!PyArg_ParseTuple(args, "s", &chunk))
        return NULL;
    if (luaL_dostring(state, chunk)) {
        PyErr_SetString(PyExc_RuntimeError, lua_tostring(state, -1));
        lua_pop(state, 1);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *set_py(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_INCREF(function);
    Py_XSETREF(py_function, function);
    Py_RETURN_NONE;
}

static PyObject *native_frames(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    void *frames[1000];

    return PyLong_FromLong(backtrace(frames, 1000) - 1);
}

/* ---- Captures ---------------------------------------------------------------------------------*/

static bench_method captures[16];

typedef struct stacks {
    PyObject *make;
    size_t count;
    const void *leaf; /* of the stack that is visited */
    unsigned frames;  /* the most that a stack of the first pass has */
} stacks;

static stacks current;

static _Noreturn void give_up(const char *what)
{
    if (PyErr_Occurred())
        PyErr_Print();
    fprintf(stderr, "%s\n", what);
    exit(2);
}

static void make_stacks(void *data, unsigned number)
{
    const stacks *s = data;
    PyObject *result = PyObject_CallFunction(s->make, "I", number);

    if (!result)
        give_up("the stacks cannot be made");
    Py_DECREF(result);
}

static void check_stack(void *data)
{
    stacks *s = data;
    peer_stack_check check = {.leaf = s->leaf, .least = 3, .scripts = true};
    unsigned frames = peers_check(captures, s->count, &check);

    if (frames > s->frames)
        s->frames = frames;
}

static NOINLINE PyObject *visit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    current.leaf = __builtin_return_address(0);
    bench_visit();
    AFTER();
    Py_RETURN_NONE;
}

static PyObject *row_on_stacks(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *row;

    if (!PyArg_ParseTuple(args, "sO", &row, &current.make))
        return NULL;
    current.count = peers_fill(captures);
    current.frames = 0;
    bench_visit_row(row, captures, current.count, &current.frames, make_stacks, &current,
                    check_stack);
    Py_RETURN_NONE;
}

static NOINLINE PyObject *row_here(PyObject *Py_UNUSED(module), PyObject *args)
{
    peer_stack_check check = {.leaf = __builtin_return_address(0), .least = 3, .scripts = true};
    const char *row;
    size_t count;
    unsigned frames;

    if (!PyArg_ParseTuple(args, "s", &row))
        return NULL;
    count = peers_fill(captures);
    frames = peers_check(captures, count, &check);
    bench_row(row, captures, count, frames);
    AFTER();
    Py_RETURN_NONE;
}

/* ---- Methods written in Python ----------------------------------------------------------------*/

typedef struct python_method {
    PyObject *prepare, *run;
    PyObject *arguments; /* a list, or NULL */
    Py_ssize_t next;
} python_method;

static void prepare_python(void *data, unsigned runs)
{
    python_method *m = data;

    if (m->prepare == Py_None)
        return;
    Py_XSETREF(m->arguments, PyObject_CallFunction(m->prepare, "I", runs));
    if (!m->arguments || !PyList_Check(m->arguments) || PyList_GET_SIZE(m->arguments) < runs)
        give_up("a method cannot be prepared");
    m->next = 0;
}

static void run_python(void *data)
{
    python_method *m = data;
    PyObject *result;

    if (m->arguments)
        result = PyObject_CallOneArg(m->run, PyList_GET_ITEM(m->arguments, m->next++));
    else
        result = PyObject_CallNoArgs(m->run);
    if (!result)
        give_up("a method raises an exception");
    Py_DECREF(result);
}

static PyObject *row(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    unsigned frames;
    PyObject *list;
    bench_method methods[16] = {{.name = NULL}};
    python_method python[16] = {{.prepare = NULL}};
    size_t count;

    if (!PyArg_ParseTuple(args, "sIO!", &name, &frames, &PyList_Type, &list))
        return NULL;
    count = (size_t)PyList_GET_SIZE(list);
    for (size_t i = 0; i < count && i < 16; i++) {
        PyObject *method = PyList_GET_ITEM(list, (Py_ssize_t)i);

        if (!PyArg_ParseTuple(method, "sOO", &methods[i].name, &python[i].prepare, &python[i].run))
            return NULL;
        methods[i].run = run_python;
        methods[i].prepare = prepare_python;
        methods[i].data = &python[i];
    }
    bench_row(name, methods, count, frames);
    for (size_t i = 0; i < count; i++)
        Py_XDECREF(python[i].arguments);
    Py_RETURN_NONE;
}

/* ---- A border without an error ----------------------------------------------------------------*/

static HRESULT last_error;

static void call_bare(void *data)
{
    PyObject *result = PyObject_CallNoArgs(data);

    if (!result)
        PyErr_Clear();
    Py_XDECREF(result);
}

static void call_with_border(void *data)
{
    PyObject *result = PyObject_CallNoArgs(data);

    if (!result)
        last_error = stacksplice_python_originate();
    Py_XDECREF(result);
}

static PyObject *border(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    PyObject *function;
    bench_method methods[] = {{.name = "bare", .run = call_bare},
                              {.name = "stacksplice", .run = call_with_border}};

    if (!PyArg_ParseTuple(args, "sO", &name, &function))
        return NULL;
    methods[0].data = methods[1].data = function;
    bench_row(name, methods, 2, 0);
    Py_RETURN_NONE;
}

/* ---- Rows that Python times itself ------------------------------------------------------------*/

static PyObject *counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return PyBool_FromLong(bench_counts());
}

static PyObject *counts_method(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;

    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    return PyBool_FromLong(bench_counts_method(name));
}

static PyObject *count_begin(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    bench_count_begin();
    Py_RETURN_NONE;
}

static PyObject *count_end(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name, *method;
    unsigned runs;

    if (!PyArg_ParseTuple(args, "ssI", &name, &method, &runs))
        return NULL;
    bench_count_end(name, method, runs);
    Py_RETURN_NONE;
}

/* ---- The module -------------------------------------------------------------------------------*/

static PyObject *wants(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;

    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    return PyBool_FromLong(bench_wants(name));
}

/* The cheapest callback of an event. */
static PyObject *nothing(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(args),
                         Py_ssize_t Py_UNUSED(count))
{
    Py_RETURN_NONE;
}

static PyObject *options(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list;
    char *argv[64] = {NULL};
    int argc;

    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &list))
        return NULL;
    for (argc = 0; argc < PyList_GET_SIZE(list) && argc < 63; argc++) {
        const char *text = PyUnicode_AsUTF8(PyList_GET_ITEM(list, argc));

        if (!text || !(argv[argc] = strdup(text))) /* kept: --rows points into it */
            return PyErr_NoMemory();
    }
    bench_options(&argc, argv);
    Py_RETURN_NONE;
}

static bool open_lua(void)
{
    state = luaL_newstate();
    if (!state)
        return false;
    luaL_openlibs(state);
    lua_register(state, "py", lua_py);
    lua_register(state, "py_plain", lua_py_plain);
    return true;
}

PyMODINIT_FUNC PyInit_bench_bridge(void)
{
    static PyMethodDef methods[] = {
        {"nothing", (PyCFunction)(void (*)(void))nothing, METH_FASTCALL, NULL},
        {"setup", setup, METH_VARARGS, NULL},
        {"set_py", set_py, METH_O, NULL},
        {"call_lua", call_lua, METH_VARARGS, NULL},
        {"call_plain", call_plain, METH_VARARGS, NULL},
        {"native_frames", native_frames, METH_NOARGS, NULL},
        {"visit", visit, METH_NOARGS, NULL},
        {"row_on_stacks", row_on_stacks, METH_VARARGS, NULL},
        {"row_here", row_here, METH_VARARGS, NULL},
        {"row", row, METH_VARARGS, NULL},
        {"border", border, METH_VARARGS, NULL},
        {"counts", counts, METH_NOARGS, NULL},
        {"counts_method", counts_method, METH_VARARGS, NULL},
        {"count", count_begin, METH_NOARGS, NULL},
        {"counted", count_end, METH_VARARGS, NULL},
        {"wants", wants, METH_VARARGS, NULL},
        {"options", options, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                     .m_name = "bench_bridge",
                                     .m_size = -1,
                                     .m_methods = methods};
    PyObject *package = PyImport_ImportModule("stacksplice"); /* which says why it cannot be */

    if (!package)
        return NULL;
    Py_DECREF(package);
    if (FAILED(stacksplice_python_import())) {
        PyErr_SetString(PyExc_ImportError, "stacksplice's table cannot be imported");
        return NULL;
    }
    if (!peers_are_themselves() || !open_lua()) {
        PyErr_SetString(PyExc_ImportError, "a peer is not itself, or there is no memory for Lua");
        return NULL;
    }
    return PyModule_Create(&definition);
}
