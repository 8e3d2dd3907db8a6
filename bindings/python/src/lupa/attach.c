/* What the module _lupa calls to attach a runtime, and to detach it. */
#include "lupa/lupa.h"

#include <stdlib.h>

/* A new reference to None, or NULL with an exception. */
static PyObject *attach(sspy_state *state, uintptr_t key, uintptr_t lua, const char *library,
                        const void *globals, PyObject *lock)
{
    sspy_attached *attached = calloc(1, sizeof *attached);
    const ss_lua_hooks hooks = {.raised = sspy_lupa_raised,
                                .recorded = sspy_lupa_recorded,
                                .closed = sspy_attached_closed,
                                .metatable = "POBJECT",
                                .data = attached};
    sspy_lupa *lupa = sspy_record(state, SSPY_OF_LUPA, sizeof *lupa);

    if (!attached || !lupa) {
        free(attached);
        return PyErr_NoMemory();
    }
    attached->key = key;
    attached->globals = globals;
    attached->lock = lock == Py_None ? NULL : Py_NewRef(lock);
    attached->lua = sspy_lua_attach((void *)lua, library, &hooks);
    if (!attached->lua) {
        sspy_attached_free(attached);
        return NULL;
    }
    attached->next = lupa->attached;
    lupa->attached = attached;
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_attach(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *key, *lua, *globals, *coroutine, *lock;
    const char *library;

    if (!PyArg_ParseTuple(arguments, "O!O!OsO!O:_lupa_attach", &PyLong_Type, &key, &PyLong_Type,
                          &lua, &coroutine, &library, &PyDict_Type, &globals, &lock) ||
        sspy_lupa_watch_coroutines(Py_TYPE(coroutine)))
        return NULL;
    if (sspy_attached_find(state, (uintptr_t)PyLong_AsVoidPtr(key)))
        Py_RETURN_NONE;
    if (PyErr_Occurred())
        return NULL;
    return attach(state, (uintptr_t)PyLong_AsVoidPtr(key), (uintptr_t)PyLong_AsVoidPtr(lua),
                  library, globals, lock);
}

PyObject *sspy_lupa_detach(PyObject *module, PyObject *key)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_attached *attached = sspy_attached_find(state, (uintptr_t)PyLong_AsVoidPtr(key));

    if (PyErr_Occurred())
        return NULL;
    if (!attached)
        Py_RETURN_FALSE;
    sspy_attached_remove(state, attached);
    sspy_lua_detach(attached->lua);
    sspy_attached_free(attached);
    Py_RETURN_TRUE;
}

PyObject *sspy_lupa_unwatch(PyObject *module, PyObject *unused)
{
    sspy_lupa *lupa = sspy_lupa_of(PyModule_GetState(module));

    (void)unused;
    if (lupa)
        Py_CLEAR(lupa->created);
    sspy_lupa_unwatch_coroutines();
    sspy_lupa_unwatch_types();
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_is_attached(PyObject *module, PyObject *key)
{
    bool is_attached =
        sspy_attached_find(PyModule_GetState(module), (uintptr_t)PyLong_AsVoidPtr(key)) != NULL;

    return PyErr_Occurred() ? NULL : PyBool_FromLong(is_attached);
}
