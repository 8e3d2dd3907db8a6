/* The names of a type and of its bases, for code that cannot look at the type itself. */
#include "life/text.h"
#include "value/parts.h"

#include <string.h>

/* The type's name as a traceback prints it: without its module if that is builtins or __main__. New
   reference; NULL with an exception. */
static PyObject *full_name(PyTypeObject *type)
{
    PyObject *name, *module, *full = NULL;

    name = sspy_attribute((PyObject *)type, "__qualname__");
    module = sspy_attribute((PyObject *)type, "__module__");
    if (name && PyUnicode_Check(name)) {
        if (!module || !PyUnicode_Check(module) ||
            PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
            PyUnicode_CompareWithASCIIString(module, "__main__") == 0)
            full = Py_NewRef(name);
        else
            full = PyUnicode_FromFormat("%U.%U", module, name);
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        Py_XDECREF(full);
        return NULL;
    }
    PyErr_Clear();
    return full ? full : PyUnicode_FromString(type->tp_name);
}

/* The name of TYPE, lent by NAMES or the type itself; NULL with an exception. */
static const char *name_of(sspy_type_names *names, PyTypeObject *type)
{
    PyObject *name, *text;

    /* The structure of a builtin type has its name. */
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !strchr(type->tp_name, '.'))
        return type->tp_name;
    name = full_name(type);
    text = name ? sspy_utf8_from_text(name) : NULL;
    Py_XDECREF(name);
    if (text && !names->lenders)
        names->lenders = PyList_New(0);
    if (!text || !names->lenders || PyList_Append(names->lenders, text)) {
        Py_XDECREF(text);
        return NULL;
    }
    Py_DECREF(text); /* the list lends it */
    return PyBytes_AS_STRING(text);
}

int sspy_type_names_begin(sspy_type_names *names, PyTypeObject *type)
{
    PyObject *mro = type->tp_mro && PyTuple_Check(type->tp_mro) ? Py_NewRef(type->tp_mro)
                                                                : PyTuple_Pack(1, type);
    Py_ssize_t count = mro ? PyTuple_GET_SIZE(mro) : 0;
    int failed = 0;

    /* Asking for names can run code that changes the type's own tuple. */
    names->count = 0;
    names->names = names->near;
    if (count > (Py_ssize_t)SSPY_COUNT_OF(names->near))
        names->names = PyMem_New(const char *, (size_t)count);
    names->lenders = NULL;
    if (!mro || !names->names)
        failed = -1;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        PyTypeObject *one = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);

        if (one == &PyBaseObject_Type)
            continue;
        names->names[names->count] = name_of(names, one);
        failed = names->names[names->count++] ? 0 : -1;
    }
    Py_XDECREF(mro);
    if (failed && !PyErr_Occurred())
        PyErr_NoMemory();
    return failed;
}

void sspy_type_names_end(sspy_type_names *names)
{
    if (names->names != names->near)
        PyMem_Free(names->names);
    Py_XDECREF(names->lenders);
}
