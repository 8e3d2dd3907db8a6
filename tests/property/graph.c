/*
 * The extension module "graph": runs a program that is a tree of calls in three languages, keeps a
 * log of them, and takes the stack at each leaf.
 *
 *   load(nodes, chunk)  nodes[i] is (language, kind, children, Python function or None); the Lua
 *                       chunk returns its functions by number
 *   run(i)              runs node i; returns [(log, stack)] of all leaves
 *   call(i)             what generated code calls a child of another language by
 *   leaf()              takes the stack
 *   note()              takes the log only: an error is about to be raised
 *   enter(name) -> k, at(k, line), leave(k)   the log; the same and call, leaf, note exist in Lua
 *
 * A log is a list of (language, function, line), outermost first, with ("gap", what it says, 0)
 * before a Lua function that was entered by a tail call; a stack a list of (language or kind,
 * function, file, line), innermost first.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stacksplice/python.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "frame_lists.h"
#include "frames.h"

#define NODE __attribute__((noinline, visibility("default")))

enum { MAX_CALLS = 1000, MAX_FRAMES = 4000, MAX_NODES = 300, MAX_CHILDREN = 8 };

typedef struct call_entry {
    char language[8], name[40];
    int line;
    bool tail; /* Lua keeps no frame of what called it */
} call_entry;

typedef struct node {
    char language[8], kind[16];
    int children[MAX_CHILDREN], child_count;
    PyObject *function;
} node;

static call_entry calls[MAX_CALLS];
static int depth;
static node nodes[MAX_NODES];
static lua_State *state; /* the coroutine that runs */
static int functions = LUA_NOREF;
static PyObject *results;

NODE HRESULT graph_child(int i);

static int enter(const char *language, const char *name)
{
    call_entry *c = &calls[depth];

    if (depth == MAX_CALLS - 1)
        abort();
    (void)snprintf(c->language, sizeof c->language, "%s", language);
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->line = 0;
    c->tail = false;
    return depth++;
}

/* ---- Results ----------------------------------------------------------------------------------*/

static void add_entry(PyObject *list, const char *language, const char *name, int line)
{
    PyObject *item = Py_BuildValue("(ssi)", language, name, line);

    if (!item || PyList_Append(list, item) != 0)
        abort();
    Py_DECREF(item);
}

static PyObject *log_now(void)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < depth; i++) {
        if (calls[i].tail)
            add_entry(list, "gap", "Lua tail calls replaced the frames of the callers", 0);
        add_entry(list, calls[i].language, calls[i].name, calls[i].line);
    }
    return list;
}

NODE void graph_leaf(void)
{
    static uintptr_t frames[MAX_FRAMES];
    int k = enter("native", "graph_leaf");
    uint32_t count = 0;
    PyGILState_STATE lock;
    PyObject *stack, *item;

    /* Without the lock, if the path let it go. */
    if (stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL) != S_OK)
        abort();
    lock = PyGILState_Ensure();
    stack = PyList_New(0);
    for (uint32_t i = 0; stack && i < count; i++)
        add_frames(stack, frames[i]);
    item = Py_BuildValue("(NN)", log_now(), stack);
    if (!item || !results || PyList_Append(results, item) != 0)
        abort();
    Py_DECREF(item);
    PyGILState_Release(lock);
    depth = k;
}

static void note_log(void)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *item = Py_BuildValue("(NO)", log_now(), Py_None);

    if (!item || !results || PyList_Append(results, item) != 0)
        abort();
    Py_DECREF(item);
    PyGILState_Release(lock);
}

/* ---- C nodes ----------------------------------------------------------------------------------*/

static HRESULT children_of(const node *n)
{
    HRESULT hr = S_OK;

    if (n->child_count == 0 && strcmp(n->kind, "raise") == 0) {
        note_log();
        (void)stacksplice_originate(E_FAIL, "leaf", 4, NULL, NULL);
        return E_FAIL;
    }
    if (n->child_count == 0)
        graph_leaf();
    for (int i = 0; i < n->child_count && hr >= 0; i++)
        hr = graph_child(n->children[i]);
    return hr;
}

NODE HRESULT graph_plain(const node *n)
{
    int k = enter("native", "graph_plain");
    HRESULT hr = children_of(n);

    depth = k;
    return hr;
}

NODE HRESULT graph_recursive(const node *n, int left)
{
    int k = enter("native", "graph_recursive");
    HRESULT hr = left ? graph_recursive(n, left - 1) : children_of(n);

    AFTER();
    depth = k;
    return hr;
}

static const node *sorting;
static HRESULT sorted;

NODE int graph_compare(const void *a, const void *b)
{
    int k = enter("native", "graph_compare");

    sorted = children_of(sorting);
    AFTER();
    depth = k;
    return *(const char *)a - *(const char *)b;
}

NODE HRESULT graph_sort(const node *n)
{
    const node *before = sorting;
    char pair[] = {2, 1};
    int k = enter("native", "graph_sort");

    sorting = n;
    qsort(pair, 2, 1, graph_compare);
    sorting = before;
    depth = k;
    return sorted;
}

NODE HRESULT graph_unlocked(const node *n)
{
    int k = enter("native", "graph_unlocked");
    PyThreadState *saved = PyGILState_Check() ? PyEval_SaveThread() : NULL;
    HRESULT hr = children_of(n);

    if (saved)
        PyEval_RestoreThread(saved);
    depth = k;
    return hr;
}

static HRESULT c_node(const node *n)
{
    HRESULT hr;

    if (strcmp(n->kind, "recursive") == 0)
        hr = graph_recursive(n, 3);
    else if (strcmp(n->kind, "sort") == 0)
        hr = graph_sort(n);
    else if (strcmp(n->kind, "unlocked") == 0)
        hr = graph_unlocked(n);
    else
        hr = graph_plain(n);
    AFTER();
    return hr;
}

NODE HRESULT graph_to_python(const node *n)
{
    int k = enter("native", "graph_to_python");
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs(n->function);
    HRESULT hr = result ? S_OK : stacksplice_python_originate();

    Py_XDECREF(result);
    PyGILState_Release(lock);
    depth = k;
    return hr;
}

NODE HRESULT graph_to_lua(int i)
{
    int k = enter("native", "graph_to_lua");
    lua_State *L = state;
    HRESULT hr;

    if (!lua_checkstack(L, 2 * LUA_MINSTACK))
        abort();
    lua_rawgeti(L, LUA_REGISTRYINDEX, functions);
    lua_rawgeti(L, -1, i);
    lua_remove(L, -2);
    hr = stacksplice_lua_pcall(L, 0, 0);
    state = L;
    depth = k;
    return hr;
}

NODE HRESULT graph_child(int i)
{
    const node *n = &nodes[i];
    int k = enter("native", "graph_child");
    HRESULT hr;

    if (strcmp(n->language, "python") == 0)
        hr = graph_to_python(n);
    else if (strcmp(n->language, "lua") == 0)
        hr = graph_to_lua(i);
    else
        hr = c_node(n);
    AFTER();
    depth = k;
    return hr;
}

/* ---- For Lua ----------------------------------------------------------------------------------*/

NODE int graph_from_lua(lua_State *L)
{
    int k = enter("native", "graph_from_lua");
    lua_State *before = state;
    HRESULT hr;

    state = L;
    hr = graph_child((int)luaL_checkinteger(L, 1));
    state = before;
    depth = k;
    if (FAILED(hr))
        return stacksplice_lua_raise(L, hr);
    return 0;
}

NODE int graph_lua_leaf(lua_State *L)
{
    int k = enter("native", "graph_lua_leaf");

    graph_leaf();
    AFTER();
    depth = k;
    return 0;
}

static int lua_note(lua_State *L)
{
    note_log();
    return 0;
}

static int lua_enter(lua_State *L)
{
    int k = enter("lua", luaL_checkstring(L, 1));
    lua_Debug caller;

    if (lua_getstack(L, 1, &caller) && lua_getinfo(L, "t", &caller))
        calls[k].tail = caller.istailcall;
    lua_pushinteger(L, k);
    return 1;
}

static int lua_at(lua_State *L)
{
    calls[luaL_checkinteger(L, 1)].line = (int)luaL_checkinteger(L, 2);
    return 0;
}

static int lua_leave(lua_State *L)
{
    depth = (int)luaL_checkinteger(L, 1);
    return 0;
}

static void open_state(void)
{
    static const luaL_Reg all[] = {{"call", graph_from_lua},
                                   {"leaf", graph_lua_leaf},
                                   {"note", lua_note},
                                   {"enter", lua_enter},
                                   {"at", lua_at},
                                   {"leave", lua_leave},
                                   {NULL, NULL}};

    state = luaL_newstate();
    if (!state)
        abort();
    luaL_openlibs(state);
    lua_pushglobaltable(state);
    luaL_setfuncs(state, all, 0);
    lua_pop(state, 1);
}

/* ---- For Python -------------------------------------------------------------------------------*/

NODE PyObject *graph_from_python(PyObject *module, PyObject *number)
{
    int k = enter("native", "graph_from_python");
    HRESULT hr = graph_child((int)PyLong_AsLong(number));

    depth = k;
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    Py_RETURN_NONE;
}

NODE PyObject *graph_python_leaf(PyObject *module, PyObject *unused)
{
    int k = enter("native", "graph_python_leaf");

    graph_leaf();
    AFTER();
    depth = k;
    Py_RETURN_NONE;
}

NODE PyObject *graph_root(PyObject *module, PyObject *number)
{
    HRESULT hr;

    depth = 0;
    Py_XSETREF(results, PyList_New(0));
    (void)enter("native", "graph_root");
    hr = graph_child((int)PyLong_AsLong(number));
    depth = 0;
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    return Py_NewRef(results);
}

static PyObject *last_results(PyObject *module, PyObject *unused)
{
    return Py_NewRef(results);
}

static PyObject *python_note(PyObject *module, PyObject *unused)
{
    note_log();
    Py_RETURN_NONE;
}

static PyObject *python_enter(PyObject *module, PyObject *name)
{
    return PyLong_FromLong(enter("python", PyUnicode_AsUTF8(name)));
}

static PyObject *python_at(PyObject *module, PyObject *arguments)
{
    int k, line;

    if (!PyArg_ParseTuple(arguments, "ii", &k, &line))
        return NULL;
    calls[k].line = line;
    Py_RETURN_NONE;
}

static PyObject *python_leave(PyObject *module, PyObject *k)
{
    depth = (int)PyLong_AsLong(k);
    Py_RETURN_NONE;
}

static int load_node(node *n, PyObject *item)
{
    const char *language, *kind;
    PyObject *children, *function;

    if (!PyArg_ParseTuple(item, "ssO!O", &language, &kind, &PyList_Type, &children, &function) ||
        PyList_GET_SIZE(children) > MAX_CHILDREN)
        return -1;
    (void)snprintf(n->language, sizeof n->language, "%s", language);
    (void)snprintf(n->kind, sizeof n->kind, "%s", kind);
    n->child_count = (int)PyList_GET_SIZE(children);
    for (int i = 0; i < n->child_count; i++)
        n->children[i] = (int)PyLong_AsLong(PyList_GET_ITEM(children, i));
    Py_XSETREF(n->function, Py_NewRef(function));
    return 0;
}

static PyObject *load(PyObject *module, PyObject *arguments)
{
    PyObject *list;
    const char *chunk;

    if (!PyArg_ParseTuple(arguments, "O!s", &PyList_Type, &list, &chunk) ||
        PyList_GET_SIZE(list) > MAX_NODES)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (load_node(&nodes[i], PyList_GET_ITEM(list, i)) != 0)
            return NULL;
    if (luaL_loadbufferx(state, chunk, strlen(chunk), "=graph.lua", "t") != LUA_OK ||
        lua_pcall(state, 0, 1, 0) != LUA_OK)
        return PyErr_Format(PyExc_RuntimeError, "%s", lua_tostring(state, -1));
    luaL_unref(state, LUA_REGISTRYINDEX, functions);
    functions = luaL_ref(state, LUA_REGISTRYINDEX);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS, NULL},
    {"run", graph_root, METH_O, NULL},
    {"results", last_results, METH_NOARGS, NULL},
    {"call", graph_from_python, METH_O, NULL},
    {"leaf", graph_python_leaf, METH_NOARGS, NULL},
    {"note", python_note, METH_NOARGS, NULL},
    {"enter", python_enter, METH_O, NULL},
    {"at", python_at, METH_VARARGS, NULL},
    {"leave", python_leave, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "graph", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_graph(void)
{
    HRESULT hr = stacksplice_python_import();

    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    open_state();
    return PyModule_Create(&definition);
}
