/* Attached states, and the functions for them. */
#include "lua/lua.h"

#include <stdlib.h>

struct sspy_lua {
    const ss_lua_loadable *calls;
    ss_lua_attachment *attachment;
};

sspy_lua *sspy_lua_attach(void *L, const char *library, const ss_lua_hooks *hooks)
{
    const ss_lua_loadable *calls = sspy_lua_instance(library);
    ss_lua_reason reason = {""};
    sspy_lua *lua;

    if (!calls)
        return NULL;
    lua = malloc(sizeof *lua);
    if (!lua)
        return (void *)PyErr_NoMemory();
    *lua = (sspy_lua){calls, calls->attach(L, hooks, &reason)};
    if (lua->attachment)
        return lua;
    free(lua);
    return (void *)PyErr_Format(PyExc_RuntimeError, "the Lua state could not be attached: %s",
                                reason.text);
}

static void release(sspy_lua *lua, bool restore)
{
    lua->calls->release(lua->attachment, restore);
    free(lua);
}

void sspy_lua_detach(sspy_lua *lua)
{
    release(lua, true);
}

void sspy_lua_forget(sspy_lua *lua)
{
    release(lua, false);
}

bool sspy_lua_owns(const sspy_lua *lua, void *coroutine)
{
    return lua->calls->owns(lua->attachment, coroutine);
}

IUnknown *sspy_lua_find_failed(sspy_lua *lua, void *coroutine, const char *text, size_t length,
                               const void *above, void **block)
{
    return lua->calls->find_failed(lua->attachment, coroutine, text, length, above, block);
}

/* ---- The functions ---------------------------------------------------------------------------*/

static const char capsule_name[] = "stacksplice Lua state";

static void forget_capsule(PyObject *capsule)
{
    sspy_lua *lua = PyCapsule_GetPointer(capsule, capsule_name);

    if (lua)
        sspy_lua_forget(lua);
    else
        PyErr_Clear(); /* detached: the name was changed */
}

static PyObject *attach(PyObject *module, PyObject *arguments)
{
    PyObject *state, *path = NULL, *capsule;
    sspy_lua *lua;
    void *L;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O:_lua_attach", &PyLong_Type, &state, &path))
        return NULL;
    L = PyLong_AsVoidPtr(state);
    if (!L)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "the state is 0");
    if (path == Py_None)
        path = NULL;
    else if (!PyUnicode_FSConverter(path, &path))
        return NULL;
    lua = sspy_lua_attach(L, path ? PyBytes_AS_STRING(path) : NULL, NULL);
    Py_XDECREF(path);
    if (!lua)
        return NULL;
    capsule = PyCapsule_New(lua, capsule_name, forget_capsule);
    if (!capsule)
        sspy_lua_forget(lua);
    return capsule;
}

static PyObject *detach(PyObject *module, PyObject *capsule)
{
    sspy_lua *lua = PyCapsule_GetPointer(capsule, capsule_name);

    (void)module;
    if (!lua || PyCapsule_SetName(capsule, "detached"))
        return NULL;
    sspy_lua_detach(lua);
    Py_RETURN_NONE;
}

static PyObject *is_closed(PyObject *module, PyObject *capsule)
{
    sspy_lua *lua = PyCapsule_GetPointer(capsule, capsule_name);

    (void)module;
    return lua ? PyBool_FromLong(lua->calls->is_closed(lua->attachment)) : NULL;
}

PyDoc_STRVAR(
    attach_doc,
    "_lua_attach(state, library, /)\n--\n\n"
    "Attach the Lua state at that address, whose Lua is in the loaded file library, or in\n"
    "the global scope for None.  Its frames are then in every stack, and its errors are\n"
    "recorded.  The state is a coroutine at rest, or the one that runs the caller.\n"
    "Returns a handle; the state stays attached without it.");

PyMethodDef sspy_lua_functions[] = {
    {"_lua_attach", attach, METH_VARARGS, attach_doc},
    {"_lua_detach", detach, METH_O,
     "_lua_detach(handle, /)\n--\n\nPut the replaced functions of Lua back."},
    {"_lua_is_closed", is_closed, METH_O,
     "_lua_is_closed(handle, /)\n--\n\nWhether the state was closed or detached."},
    {NULL, NULL, 0, NULL},
};
