/*
 * The runtimes that exist, from the garbage collector.
 *
 * gc.get_objects() also refers to tuples that other threads are just making, which then fail.  So
 * the objects are visited here, and only runtimes get a reference.
 */
#include "lupa/lupa.h"

#if PY_VERSION_HEX >= 0x030C0000

enum { MOST = 4096 /* runtimes */ };

typedef struct search {
    PyObject *kinds; /* a tuple of types */
    PyObject *found[MOST];
    Py_ssize_t count;
} search;

static int look_at(PyObject *object, void *data)
{
    search *s = data;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->kinds); i++)
        if (PyType_IsSubtype(Py_TYPE(object), (PyTypeObject *)PyTuple_GET_ITEM(s->kinds, i))) {
            s->found[s->count++] = Py_NewRef(object);
            break;
        }
    return s->count < MOST;
}

static PyObject *existing(PyObject *kinds)
{
    search s = {.kinds = kinds};
    PyObject *list;

    PyUnstable_GC_VisitObjects(look_at, &s);
    list = PyList_New(s.count);
    for (Py_ssize_t i = 0; i < s.count; i++) {
        if (list)
            PyList_SET_ITEM(list, i, s.found[i]);
        else
            Py_DECREF(s.found[i]);
    }
    return list;
}

#else

static PyObject *existing(PyObject *kinds)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *all = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
    PyObject *list = all ? PyList_New(0) : NULL;
    bool failed = !list;

    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(all); i++)
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(kinds); j++)
            if (PyType_IsSubtype(Py_TYPE(PyList_GET_ITEM(all, i)),
                                 (PyTypeObject *)PyTuple_GET_ITEM(kinds, j)))
                failed |= PyList_Append(list, PyList_GET_ITEM(all, i)) != 0;
    if (failed)
        Py_CLEAR(list);
    Py_XDECREF(all);
    Py_XDECREF(gc);
    return list;
}

#endif

PyObject *sspy_lupa_existing(PyObject *module, PyObject *kinds)
{
    (void)module;
    for (Py_ssize_t i = 0; PyTuple_Check(kinds) && i < PyTuple_GET_SIZE(kinds); i++)
        if (!PyType_Check(PyTuple_GET_ITEM(kinds, i)))
            kinds = Py_None;
    if (!PyTuple_Check(kinds)) {
        PyErr_SetString(PyExc_TypeError, "_lupa_existing() takes a tuple of types");
        return NULL;
    }
    return existing(kinds);
}
